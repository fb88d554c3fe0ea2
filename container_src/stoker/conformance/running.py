"""Group C: what a script meets while it runs (stopping.py: its stop; machines.py: its peers)."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime

from stoker.conformance.check import check, require
from stoker.conformance.lab import Container, Lab
from stoker.conformance.probe import mark, require_torch
from stoker.conformance.script import Script

_LINES = 1500
_LATEST_SECONDS = 1.0

# Slow lines first, then a silence: a line that waits in a buffer waits for its end.
_TALKER = Script(
    sh="talker",
    python=f"""
import sys, time
for number in range(8):
    print(f"PROBE slow={{time.time():.6f}}")
    time.sleep(0.1)
time.sleep(2.5)
for number in range({_LINES}):
    text = f"loss: {{1 / (number + 1):.6f}} \\u00e9t\\u00e9 end"
    print(f"PROBE out={{number}} {{text}}")
    if number % 5 == 0:
        print(f"PROBE err={{number // 5}} {{text}}", file=sys.stderr)
    if number % 50 == 0:
        time.sleep(0.1)
""",
)
_WHOLE = re.compile(r"PROBE (?:out|err)=(\d+) loss: \d\.\d{6} été end\s*$")

_BAR = Script(
    sh="bar",
    python="""
import sys, time
print("PROBE terminal=" + str(sys.stdout.isatty() or sys.stderr.isatty()), flush=True)
for step in range(30):
    sys.stderr.write(f"\\r{step:3d}%|{'#' * step:30}| {step}/30 [bar]")
    sys.stderr.flush()
    if step % 3 == 0:
        print(f"PROBE metric={step} end", flush=True)
    time.sleep(0.05)
sys.stderr.write("\\n")
print("PROBE after=bar end", file=sys.stderr, flush=True)
""",
)

_SILENT = Script(
    sh="silent",
    python="""
import time
time.sleep(5)
open("/opt/ml/model/done", "w").close()
""",
)

_LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset

class Large(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.zeros(1024, 1024)  # 4 MB; two workers hold 128 MB ready

for batch in DataLoader(Large(), batch_size=8, num_workers=2):
    batch.sum()
print("PROBE loaded=all", flush=True)
"""

_WRITER = Script(
    sh="writer",
    python="""
import os, tempfile
with tempfile.TemporaryFile() as file:
    file.write(b"x")
for folder in ("model", "output/data", "checkpoints"):
    with open(f"/opt/ml/{folder}/probe", "w") as file:
        file.write("x")
print("PROBE written=all", flush=True)
""",
)


@check(
    25,
    "Log lines arrive whole, in order and at once",
    group="running",
    contract="stdout and stderr reach the log line by line; metrics are read from that text.",
    source="guide (logs, metric definitions); seen: buffered and split lines in toolkit images",
    how=f"{_LINES} lines on stdout and a fifth of that on stderr at up to 500 a second, and slow "
    "lines whose time of arrival is compared with when they were printed; once without and "
    "once with PYTHONUNBUFFERED",
    fix="copy output by lines, not by blocks; keep the streams apart; run Python unbuffered",
)
def lines_arrive_whole(lab: Lab) -> str:
    ways = {"without": {}, "with": {"PYTHONUNBUFFERED": "1"}}
    running = {way: lab.start(lab.job(_TALKER), environ=env) for way, env in ways.items()}
    waits = []
    for way, container in running.items():
        ran = container.wait()
        where = f"{way} PYTHONUNBUFFERED"
        require(ran.code == 0, f"{where}: exit code {ran.code}: {ran.tail()}")
        _require_whole(ran.output, "out", _LINES, where)
        _require_whole(ran.output, "err", _LINES // 5, where)
        waits.append(_median_wait(container))
        require(
            waits[-1] < _LATEST_SECONDS,
            f"{where}: half of the lines came more than {waits[-1]:.1f} s after they were printed",
        )
    return f"every line whole and in order; they took {max(waits) * 1000:.0f} ms (median)"


def _require_whole(output: str, key: str, count: int, where: str) -> None:
    lines = [line for line in output.splitlines() if f"PROBE {key}=" in line]
    broken = next((line for line in lines if not _WHOLE.search(line)), None)
    require(broken is None, f"{where}: a line is not whole: {broken!r:.200}")
    glued = next((line for line in lines if line.count("PROBE") > 1), None)
    require(glued is None, f"{where}: two lines became one: {glued!r:.200}")
    order = [int(found[1]) for line in lines if (found := _WHOLE.search(line))]
    require(len(order) == count, f"{where}: {len(order)} of {count} lines arrived ({key})")
    require(order == list(range(count)), f"{where}: lines are out of order ({key})")


def _median_wait(container: Container) -> float:
    answer = container.lab.docker("logs", "--timestamps", container.id)
    waits = list(_waits(answer.stdout + answer.stderr))
    require(bool(waits), "the slow lines never arrived")
    return statistics.median(waits)


def _waits(stamped: str) -> Iterator[float]:
    """Both clocks are the engine's: the container's, and the engine's own in its log."""
    for line in stamped.splitlines():
        printed = re.search(r"PROBE slow=([\d.]+)", line)
        if printed:
            # RFC 3339 with nine digits, of which Python reads six.
            arrived = datetime.strptime(line[:26], "%Y-%m-%dT%H:%M:%S.%f")
            yield arrived.replace(tzinfo=UTC).timestamp() - float(printed[1])


@check(
    26,
    "A progress bar does not spoil the lines around it",
    group="running",
    contract="There is no terminal; what a bar writes with \\r must not glue other lines to it.",
    source="guide (logs); seen: tqdm in toolkit images",
    how="a bar as tqdm draws it on stderr, metric lines on stdout meanwhile, a line after it",
    fix="keep stdout and stderr apart, and pass on each of them in whole lines",
)
def bar_spoils_no_line(lab: Lab) -> str:
    ran = lab.run(lab.job(_BAR))
    require(ran.code == 0, f"exit code {ran.code}: {ran.tail()}")
    require(mark(ran.output, "terminal") == "False", "the script sees a terminal")
    # Not splitlines(), which would take \r for the end of a line.
    lines = [line for line in ran.output.split("\n") if re.search("PROBE (metric|after)=", line)]
    for line in lines:
        require("[bar]" not in line and line.rstrip().endswith("end"), f"glued: {line!r:.200}")
    # Ten metrics (every third of 30 steps) and the line after the bar.
    require(len(lines) == 11, f"{len(lines)} of 11 lines arrived: {ran.tail()}")
    return "10 metric lines during the bar and one after it are lines of their own"


@check(
    31,
    "A silent script is left alone",
    group="running",
    contract="No sign of life is asked of a script: a job may print nothing for hours.",
    source="guide: it names no heartbeat",
    how="a script that prints nothing for 5 s and then ends",
    fix="do not end a script because it is silent, or let the user ask for that",
)
def silence_is_allowed(lab: Lab) -> str:
    opt_ml = lab.job(_SILENT)
    ran = lab.run(opt_ml)
    done = (opt_ml.root / "model/done").exists()
    require(done, f"the script did not reach its end; exit code {ran.code}: {ran.tail()}")
    require(ran.code == 0, f"exit code {ran.code}: {ran.tail()}")
    return f"5 s of silence, then exit code 0 after {ran.seconds:.1f} s"


@check(
    32,
    "64 MB of shared memory: works, or says so",
    group="running",
    contract="Shared memory (/dev/shm) may be 64 MB, and no setting of the API changes that.",
    source="seen (local mode); sagemaker-python-sdk#937, #5592",
    how="--shm-size 64m and a DataLoader whose two workers hold 128 MB ready",
    fix="use the file_system sharing strategy, or name shared memory in /opt/ml/output/failure",
)
def little_shared_memory(lab: Lab) -> str:
    lab.require_python("a DataLoader is torch's")
    require_torch(lab)
    opt_ml = lab.job(_LOADER)
    ran = lab.run(opt_ml, "--shm-size", "64m")
    if ran.code == 0:
        require(bool(mark(ran.output, "loaded")), f"it ended with 0 too early: {ran.tail()}")
        return "the DataLoader works"
    failure = opt_ml.read("output/failure")
    named = re.search(r"shared memory|/dev/shm|\bshm\b", failure, re.IGNORECASE)
    require(
        named is not None,
        f"it failed with {ran.code}, and the failure file says only: {failure.strip()[:300]!r}",
    )
    return f"it fails, and the failure file says why: {failure.strip()[:200]}"


@check(
    35,
    "There is a shell for people",
    group="running",
    contract="SageMaker's remote debugging and SDK v3 start /bin/sh and bash in the container.",
    source="guide (remote debugging), SDK v3",
    how="/bin/sh as the entrypoint, and bash from it",
    fix="install bash; a distroless image cannot be looked into",
)
def shells_are_there(lab: Lab) -> str:
    command = ("-c", 'bash -c \'echo "PROBE bash=$BASH_VERSION"\'; echo "PROBE sh=yes"')
    ran = lab.run(None, "--entrypoint", "/bin/sh", command=command)
    require(mark(ran.output, "sh") == "yes", f"/bin/sh does not work: {ran.tail()}")
    version = mark(ran.output, "bash")
    require(bool(version), f"there is no bash: {ran.tail()}")
    return f"/bin/sh works, bash is {version}"


@check(
    37,
    "It writes only where a job may write",
    group="running",
    contract="Writes go to /opt/ml, the folder for temporary files and ~/.cache, nowhere else.",
    source="our choice, after the guide's list of folders that are kept",
    how="--read-only, with writable /opt/ml, /tmp and ~/.cache",
    fix="move state, locks and generated files of the start to /opt/ml or /tmp",
)
def writes_only_where_allowed(lab: Lab) -> str:
    environ = dict(entry.split("=", 1) for entry in lab.inspect()["Config"].get("Env") or [])
    home = environ.get("HOME", "/root").rstrip("/")
    options = ["--read-only"]
    for folder in ("/tmp", f"{home}/.cache"):  # noqa: S108 - the container's own
        # Docker mounts a tmpfs with `noexec` by default; a job's own /tmp has none.
        options += ["--tmpfs", f"{folder}:exec"]
    ran = lab.run(lab.job(_WRITER), *options)
    require(ran.code == 0, f"exit code {ran.code} on a read-only file system: {ran.tail()}")
    require(mark(ran.output, "written") == "all", f"the script did not run: {ran.tail()}")
    return "the job runs on a read-only file system"
