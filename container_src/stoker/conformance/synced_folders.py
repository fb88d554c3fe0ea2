"""Group D, continued: the folders that the service syncs while a job runs.

What a script saves there is the script's business; an image must hand the folders over as they
are, leave them alone, and let the script write its last words before it is stopped.
"""

from __future__ import annotations

import shutil

from stoker.conformance.check import check, require
from stoker.conformance.lab import Lab
from stoker.conformance.left_files import hash_files, require_fact
from stoker.conformance.opt_ml import OptMl
from stoker.conformance.script import Script

_STOP_SECONDS = 10
_LAST_WORDS_SECONDS = 30

_LOOK_AND_SAVE = Script(
    sh="look_and_save",
    python="""
import hashlib, os, sys
top = "/opt/ml/checkpoints"
for parent, _, names in os.walk(top):
    for name in names:
        path = os.path.join(parent, name)
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        print("PROBE file=%s hash=%s" % (os.path.relpath(path, top), digest), flush=True)
with open(top + "/step-3.sagemaker-ignore", "w") as file:
    file.write("step 3")
os.rename(top + "/step-3.sagemaker-ignore", top + "/step-3.bin")
sys.exit(int(os.environ["PROBE_END"]))
""",
)

# Two seconds of load, so that a look at the folders at any usual pace falls into it.
_CHURN = Script(
    sh="churn",
    python="""
import os, shutil, time
folders = ["/opt/ml/checkpoints", "/opt/ml/output", "/opt/ml/output/data", "/opt/ml/model"]
until, count = time.monotonic() + 2, 0
while time.monotonic() < until:
    for folder in folders:
        part = "%s/part-%d" % (folder, count)
        os.makedirs(part)
        with open(part + "/shard.tmp", "w") as file:
            file.write("x")
        os.rename(part + "/shard.tmp", part + "/shard.bin")
        shutil.rmtree(part)
    count += 1
print("PROBE rounds=%d" % count, flush=True)
if os.environ["PROBE_END"] != "0":
    shutil.rmtree("/opt/ml/output")
    raise RuntimeError("failing without an output folder")
""",
)

_EVENTS = Script(
    sh="events",
    python="""
import os, signal, sys, time
folder = os.environ.get("SM_TENSORBOARD_DIR") or "/opt/ml/output/tensorboard"
os.makedirs(folder, exist_ok=True)
try:
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(folder)
    write = lambda tag: writer.add_scalar(tag, 0.5, 1)
    flush, kind = writer.flush, "SummaryWriter"
except Exception:
    file = open(folder + "/events.out.tfevents.probe", "w")
    write, flush, kind = file.write, file.flush, "a plain file"
def last_words(*_):
    write("probe-last")
    flush()
    sys.exit(0)
signal.signal(signal.SIGTERM, last_words)
write("probe-first")
flush()
with open("/opt/ml/probe-ready.part", "w") as ready:
    ready.write(folder + "\\n" + kind)
os.rename("/opt/ml/probe-ready.part", "/opt/ml/probe-ready")
while True:
    time.sleep(0.1)
""",
)

_COUNT = Script(
    sh="count",
    python="""
import os, signal, sys, time
file, goal = "/opt/ml/checkpoints/step.txt", float("inf")
step, stopping = 0, []
if os.path.exists(file):
    step = int(open(file).read())
    goal = step + 2
print("PROBE resumed=%d." % step, flush=True)
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
while step < goal and not stopping:
    step += 1
    with open(file + ".sagemaker-ignore", "w") as temporary:
        temporary.write(str(step))
    os.replace(file + ".sagemaker-ignore", file)
    print("PROBE step=%d." % step, flush=True)
    time.sleep(0.05)
""",
)


@check(
    43,
    "Checkpoints are handed over as they are",
    group="output",
    contract="What is in /opt/ml/checkpoints at the start was put there by the service for the"
    " script to resume from. A file that is deleted locally is deleted in S3 too: an image adds,"
    " changes and removes nothing. The saving itself is the script's business.",
    source="guide",
    how="a folder with three checkpoints and an upload marker, a script that reads them and saves"
    " one more under a temporary name; once it succeeds, once it fails",
    fix="leave /opt/ml/checkpoints to the script; clean up only what you have written yourself",
)
def checkpoints_are_left_alone(lab: Lab) -> str:
    jobs = {end: _with_checkpoints(lab) for end in ("0", "1")}
    before = hash_files(jobs["0"], "checkpoints")
    running = {end: lab.start(job, environ={"PROBE_END": end}) for end, job in jobs.items()}
    for end, container in running.items():
        ran = container.wait()
        unseen = [n for n, h in before.items() if f"PROBE file={n} hash={h}" not in ran.output]
        require(not unseen, f"not seen unchanged by the script: {', '.join(unseen)}: {ran.tail()}")
        after = hash_files(jobs[end], "checkpoints")
        saved = after.pop("step-3.bin", None)
        require(saved is not None, "the checkpoint that the script saved is gone")
        require(after == before, f"the folder was changed: {_difference(before, after)}")
    return f"{len(before)} files were seen by the script and are unchanged; its own is kept"


@check(
    44,
    "Files may vanish while the job runs",
    group="output",
    contract="Files in the synced folders come and go at any time: by the script, by the uploader."
    " Nothing in the image may stumble over it or change the job's result.",
    source="guide; seen (aws/sagemaker-python-sdk#1791)",
    how="a script that makes, renames and removes files and folders for two seconds and succeeds;"
    " one that at last removes /opt/ml/output and fails",
    fix="expect a file to be gone between listing and opening it, and create the folder of the"
    " failure file again",
)
def vanishing_files_do_no_harm(lab: Lab) -> str:
    running = {end: lab.start(lab.job(_CHURN), environ={"PROBE_END": end}) for end in ("0", "1")}
    good, bad = running["0"].wait(), running["1"].wait()
    for ran in (good, bad):
        require("PROBE rounds=" in ran.output, f"ended with {ran.code} half-way: {ran.tail()}")
    require(good.code == 0, f"a good script ended with exit code {good.code}: {good.tail()}")
    require(
        bad.code != 0,
        f"a script that removed /opt/ml/output and failed ended with exit code 0: {bad.tail()}",
    )
    return f"succeeded with 0; failed without /opt/ml/output with exit code {bad.code}"


@check(
    45,
    "TensorBoard files are whole after a stop",
    group="output",
    contract="Event files below /opt/ml/output/tensorboard are uploaded while the job runs and"
    " once more at its end. After SIGTERM the script can write and flush its last events.",
    source="guide, API (TensorBoardOutputConfig)",
    how="a script that writes an event, is stopped, and writes one more in its SIGTERM handler"
    " (with torch's SummaryWriter where there is one)",
    fix="pass SIGTERM on to the script, wait for its end, and leave the folder alone",
)
def events_survive_a_stop(lab: Lab) -> str:
    opt_ml = lab.job(_EVENTS)
    container = lab.start(opt_ml)
    require_fact(container, (opt_ml.root / "probe-ready").exists, "the script's first event")
    folder, kind = opt_ml.read("probe-ready").splitlines()
    ran = container.stop(_LAST_WORDS_SECONDS)
    require(folder.startswith("/opt/ml/"), f"event files go to {folder}, which is not synced")
    kept = b"".join(
        file.read_bytes()
        for file in sorted((opt_ml.root / folder[len("/opt/ml/") :]).rglob("*tfevents*"))
    )
    require(
        b"probe-first" in kept, f"the event that was flushed before the stop is gone: {folder}"
    )
    require(
        b"probe-last" in kept,
        f"the event of the script's SIGTERM handler was lost; exit code {ran.code}",
    )
    return f"both events are in {folder}, written with {kind}"


@check(
    47,
    "A Spot restart continues where it stopped",
    group="output",
    contract="After an interruption a fresh container with the same job finds in"
    " /opt/ml/checkpoints what the last one had saved.",
    source="guide",
    how="a script that saves its step is stopped; its checkpoints go into a fresh job; the script"
    " runs again",
    fix="keep /opt/ml/checkpoints when a job is stopped, and start the script with what is there",
)
def restart_continues(lab: Lab) -> str:
    first = lab.job(_COUNT)
    container = lab.start(first)
    require_fact(container, lambda: _step(first) >= 3, "three steps are saved")
    container.stop(_STOP_SECONDS)
    saved = _step(first)
    require(saved >= 3, f"after the stop, step.txt holds {saved}: what was saved is lost")
    # The service brings back the folder only: the container, its disk and /opt/ml are new.
    second = lab.job(_COUNT)
    shutil.copytree(first.root / "checkpoints", second.root / "checkpoints", dirs_exist_ok=True)
    ran = lab.run(second)
    require(f"PROBE resumed={saved}." in ran.output, f"did not continue at {saved}: {ran.tail()}")
    require(ran.code == 0, f"the second run ended with exit code {ran.code}: {ran.tail()}")
    return f"stopped after step {saved}; the next container continued there"


def _with_checkpoints(lab: Lab) -> OptMl:
    opt_ml = lab.job(_LOOK_AND_SAVE)
    # The third is the marker that the service's uploader leaves next to a file that it has
    # uploaded.
    for name in ("step-1.bin", "step-2.bin", "step-2.bin.sagemaker-uploaded", "rank0/shard.bin"):
        opt_ml.write(f"checkpoints/{name}", f"contents of {name}\n")
    return opt_ml


def _difference(before: dict[str, str], after: dict[str, str]) -> str:
    sets = {
        "removed": before.keys() - after.keys(),
        "added": after.keys() - before.keys(),
        "changed": {n for n in before.keys() & after.keys() if before[n] != after[n]},
    }
    return "; ".join(f"{what} {', '.join(sorted(names))}" for what, names in sets.items() if names)


def _step(opt_ml: OptMl) -> int:
    text = opt_ml.read("checkpoints/step.txt")
    return int(text) if text.isdigit() else 0
