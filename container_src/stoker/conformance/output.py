"""Group D: what the container leaves behind: exit code, failure text, model and output folders.

The folders that the service syncs while a job runs are in synced_folders.py.
"""

from __future__ import annotations

from stoker.conformance.check import Failed, check, require
from stoker.conformance.lab import Container, Lab, Ran
from stoker.conformance.left_files import list_files, require_fact, show_files
from stoker.conformance.opt_ml import OptMl
from stoker.conformance.script import Script

MOST_ADDED_BYTES = 1_000_000
"""What an image may add to /opt/ml/output/data: it is packed and uploaded on the user's bill."""
SHOWN_CHARACTERS = 1024
"""The service shows no more of the failure file."""
_ERROR_WITHIN_CHARACTERS = 300
_STOP_SECONDS = 10
_SECRET = "sk-probe-5d1c7f20ab94"  # noqa: S105 - made up, to be looked for

_END = Script(
    sh="end",
    python="""
import os, signal, sys
end = os.environ["PROBE_END"]
print("PROBE end=" + end, flush=True)
if end.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, end))
sys.exit(int(end))
""",
)

_FILL_THE_DISK_AND_FAIL = Script(
    sh="fill_the_disk_and_fail",
    python="""
import os
with open("/opt/ml/output/filling", "wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 512)
    except OSError as error:
        print("PROBE disk:", error, flush=True)
raise RuntimeError("the disk is full")
""",
)

_WARN_THEN_FAIL = Script(
    sh="warn_then_fail",
    python="""
import sys
print("PROBE begins", flush=True)
print("Warning: Error codes are not stored, no Exception handling is set up", file=sys.stderr)
sys.stderr.flush()
for step in range(50):
    print("step", step, flush=True)
def load():
    raise ValueError("probe-cause: column 'price' is missing " + "\\u00e9\\u4e16" * 800)
load()
""",
)

_OWN_FAILURE = Script(
    sh="own_failure",
    python="""
import os, sys
os.makedirs("/opt/ml/output", exist_ok=True)
with open("/opt/ml/output/failure", "w") as file:
    file.write("probe-own-words: the table of prices is empty")
sys.exit(3)
""",
)

_WRITE_NOTHING = Script(python="print('PROBE done', flush=True)", sh="write_nothing")

_WRITE_AND_FAIL = Script(
    sh="write_and_fail",
    python="""
import sys
open("/opt/ml/model/weights.bin", "wb").write(b"w" * 1000)
sys.exit(1)
""",
)

_WRITE_AND_WAIT = Script(
    sh="write_and_wait",
    python="""
import signal, sys, time
open("/opt/ml/model/weights.bin", "wb").write(b"w" * 1000)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
open("/opt/ml/probe-ready", "w").close()
while True:
    time.sleep(0.1)
""",
)

_WRITE_A_REPORT = Script(
    sh="write_a_report",
    python="""
import os, sys
open("/opt/ml/output/data/report.csv", "w").write("epoch,loss\\n1,0.5\\n")
sys.exit(int(os.environ["PROBE_END"]))
""",
)

_WRITE_A_MEGABYTE = Script(
    sh="write_a_megabyte",
    python="""
open("/opt/ml/model/weights.bin", "wb").write(b"w" * (1 << 20))
""",
)

# With torch, for a hook that these files ask for would sit in its modules and optimizers.
_TRAIN_A_LITTLE = Script(
    sh="train_a_little",
    python="""
try:
    import torch
except ImportError:
    torch = None
if torch is not None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
print("PROBE trained with", "torch" if torch is not None else "no torch", flush=True)
""",
)

_DEBUG_HOOK = {
    "S3OutputPath": "s3://probe-bucket/debug-output",
    "LocalPath": "/opt/ml/output/tensors",
    "HookParameters": {"save_interval": "1"},
    "CollectionConfigurations": [
        {"CollectionName": "losses", "CollectionParameters": {"save_interval": "1"}}
    ],
}
_PROFILER = {
    "S3OutputPath": "s3://probe-bucket/profiler-output",
    "ProfilingIntervalInMilliseconds": 500,
    "ProfilingParameters": {"ProfilerEnabled": "true", "LocalPath": "/opt/ml/output/profiler"},
}


@check(
    38,
    "A failed job never looks successful",
    group="output",
    contract="Exit code 0 means Completed, any other means Failed. A script's success must be 0,"
    " its failure never 0, whatever else goes wrong: a full disk, an S3 that does not answer.",
    source="guide",
    how="scripts that end with 0, 1, 2, 42, SIGKILL and SIGSEGV; one that fails on a full"
    " /opt/ml/output; code on an S3 that does not answer",
    fix="decide the exit code first, from the script's own; everything after that (the failure"
    " file, logs) is best effort and must not change it",
    limit_seconds=240,
)
def failure_is_never_zero(lab: Lab) -> str:
    ends = ("0", "1", "2", "42", "SIGKILL", "SIGSEGV")
    running = {end: lab.start(lab.job(_END), environ={"PROBE_END": end}) for end in ends}
    running["full disk"] = lab.start(
        lab.job(_FILL_THE_DISK_AND_FAIL), "--tmpfs", "/opt/ml/output:size=64k"
    )
    running["dead S3"] = _start_without_s3(lab)
    codes = {end: container.wait().code for end, container in running.items()}
    seen = "; ".join(f"{end} → exit code {code}" for end, code in codes.items())
    require(codes.pop("0") == 0, f"a script that succeeds is reported as failed: {seen}")
    hidden = [end for end, code in codes.items() if code == 0]
    require(not hidden, f"reported as a success: {', '.join(hidden)} ({seen})")
    expected = {"1": 1, "2": 2, "42": 42, "SIGKILL": 137, "SIGSEGV": 139}
    changed = [end for end, code in expected.items() if codes[end] != code]
    note = f"; the script's own code is replaced for {', '.join(changed)}" if changed else ""
    return f"{seen}{note}"


@check(
    39,
    "The failure reason names the real error",
    group="output",
    contract="The first 1024 characters of /opt/ml/output/failure are shown as FailureReason:"
    " the error that ended the job comes first, in valid UTF-8 and without secrets; what the"
    " script wrote there itself is kept.",
    source="guide (file and length); our choice (what is useful in it)",
    how="a script that prints a harmless line with the word Error, then raises an exception with"
    " a long text, with a hyperparameter api_key; another that writes the file itself",
    fix="write the last exception first, cut by characters and not by bytes, leave out the"
    " command line with its hyperparameters, and do not touch a file that is there",
)
def failure_reason_is_useful(lab: Lab) -> str:
    failing = lab.job(_WARN_THEN_FAIL, hyperparameters={"api_key": f'"{_SECRET}"'})
    telling = lab.job(_OWN_FAILURE)
    for container in [lab.start(failing), lab.start(telling)]:
        container.wait()
    text, own = _read_reason(failing), _read_reason(telling)[:SHOWN_CHARACTERS]
    begins = " ".join(text[:_ERROR_WITHIN_CHARACTERS].split())
    require(bool(text), "/opt/ml/output/failure is missing or empty after an exception")
    faults = {
        f"the exception does not come first; it begins {begins!r}": "probe-cause" not in begins,
        "the value of the hyperparameter api_key is in it": _SECRET in text,
        f"the script's own failure file became {own[:300]!r}": "probe-own-words" not in own,
    }
    seen = [fault for fault, is_there in faults.items() if is_there]
    require(not seen, "; ".join(seen))
    length = f"{len(text)} characters"
    if len(text) > SHOWN_CHARACTERS:
        length += f", of which {SHOWN_CHARACTERS} will be shown"
    return f"begins {begins[:100]!r}; {length}; the script's own file is kept"


@check(
    40,
    "/opt/ml/model holds the script's files only",
    group="output",
    contract="All of /opt/ml/model becomes the model artifact, also after a failure or a stop;"
    " with several hosts the folders are merged, so any file the image adds there may clash.",
    source="guide",
    how="the folder after a script that writes nothing, one that fails, one that is stopped",
    fix="write reports, logs and markers of the image elsewhere",
)
def model_is_not_polluted(lab: Lab) -> str:
    jobs = {
        "nothing was written": lab.job(_WRITE_NOTHING),
        "the script failed": lab.job(_WRITE_AND_FAIL),
        "the job was stopped": lab.job(_WRITE_AND_WAIT),
    }
    running = [lab.start(opt_ml) for opt_ml in jobs.values()]
    _stop_when_ready(running[-1], jobs["the job was stopped"])
    for container in running:
        container.wait()
    for when, opt_ml in jobs.items():
        expected = {} if when == "nothing was written" else {"weights.bin": 1000}
        found = list_files(opt_ml, "model")
        require(
            found == expected,
            f"after {when}: {show_files(found)}, expected {show_files(expected)}",
        )
    return "empty where the script wrote nothing; its one file after a failure and after a stop"


@check(
    41,
    "/opt/ml/output/data is left to the script",
    group="output",
    contract="All of /opt/ml/output/data is packed and uploaded at the end, on the user's time:"
    " what an image adds there must be small, and the script's files must stay as they are.",
    source="guide (upload); our choice (at most 1 MB)",
    how="a script that writes one file and succeeds, and one that writes it and fails",
    fix="keep logs and traces out of /opt/ml/output/data, or add one small file",
)
def output_data_stays_small(lab: Lab) -> str:
    jobs = {end: lab.job(_WRITE_A_REPORT) for end in ("0", "1")}
    running = [lab.start(job, environ={"PROBE_END": end}) for end, job in jobs.items()]
    for container in running:
        container.wait()
    added: dict[str, int] = {}
    for opt_ml in jobs.values():
        found = list_files(opt_ml, "output/data")
        kept = opt_ml.read("output/data/report.csv") == "epoch,loss\n1,0.5\n"
        require(kept, f"the script's report.csv is not as it was written: {show_files(found)}")
        added |= {name: size for name, size in found.items() if name != "report.csv"}
    large = sum(added.values()) > MOST_ADDED_BYTES
    require(not large, f"the image added more than 1 MB: {show_files(added)}")
    return f"the script's file is unchanged; the image added {show_files(added)}"


@check(
    42,
    "/opt/ml/output/intermediate is left alone",
    group="output",
    contract="That this folder exists means that the platform syncs it. An image does not create"
    " it unless the job asks for it, and does not touch what is in it.",
    source="toolkit",
    how="a run without the folder; a run with a file in it",
    fix="create it only for a job that sets sagemaker_s3_output",
)
def intermediate_is_left_alone(lab: Lab) -> str:
    without, with_file = lab.job(_WRITE_NOTHING), lab.job(_WRITE_NOTHING)
    with_file.write("output/intermediate/metrics.txt", "loss 0.5\n")
    for container in [lab.start(without), lab.start(with_file)]:
        _require_success(container.wait())
    created = (without.root / "output/intermediate").exists()
    require(not created, "the folder was created by a job that did not ask for it")
    found = list_files(with_file, "output/intermediate")
    require(found == {"metrics.txt": 9}, f"a file was there; now: {show_files(found)}")
    return "not created by an ordinary job; a file that was there is untouched"


@check(
    46,
    "Debugger and profiler files do not disturb",
    group="output",
    contract="debughookconfig.json and profilerconfig.json may be in /opt/ml/input/config of any"
    " job; an image that does not use them runs the job anyway.",
    source="API, smdebug",
    how="both files in their full form, and a script that trains three steps where torch is there",
    fix="treat both files as optional: never import smdebug because of them without a fallback",
)
def debugger_files_do_not_disturb(lab: Lab) -> str:
    opt_ml = lab.job(_TRAIN_A_LITTLE)
    opt_ml.config("debughookconfig", _DEBUG_HOOK)
    opt_ml.config("profilerconfig", _PROFILER)
    ran = lab.run(opt_ml)
    _require_success(ran)
    trained = "no torch" if "PROBE trained with no torch" in ran.output else "torch"
    require("PROBE trained with" in ran.output, f"the script did not get through: {ran.tail()}")
    return f"the script ({trained}) ran to its end with both files present"


@check(
    48,
    "Exit codes tell failures apart",
    group="output",
    contract="The service retries only its own errors, so the caller has to decide about the rest:"
    " the script's own code, a killed script and a job that never started must differ.",
    source="API (RetryStrategy); our choice (three different codes)",
    how="a script that exits with 42, one that is killed by SIGKILL, a job whose entry point is"
    " missing",
    fix="pass the script's code on, use 128 + the signal for a killed one, and a third code for"
    " the launcher's own errors",
)
def exit_codes_tell_apart(lab: Lab) -> str:
    missing = lab.job(_END, hyperparameters={"sagemaker_program": '"no_such_probe.py"'})
    running = {
        "the script exits with 42": lab.start(lab.job(_END), environ={"PROBE_END": "42"}),
        "killed": lab.start(lab.job(_END), environ={"PROBE_END": "SIGKILL"}),
        "no entry point": lab.start(missing, environ={"PROBE_END": "0"}),
    }
    codes = {why: container.wait().code for why, container in running.items()}
    seen = "; ".join(f"{why} → {code}" for why, code in codes.items())
    require(0 not in codes.values(), f"a failure ends with 0: {seen}")
    require(len(set(codes.values())) == len(codes), f"not told apart: {seen}")
    return seen


@check(
    49,
    "The model artifact is as large as the model",
    group="output",
    contract="Compressing and uploading /opt/ml/model is billed: it holds what the script wrote.",
    source="guide",
    how="a script that writes one file of 1 MB; the folder's files and bytes are counted",
    fix="add no copies, code, logs or caches to /opt/ml/model",
)
def model_has_its_size(lab: Lab) -> str:
    opt_ml = lab.job(_WRITE_A_MEGABYTE)
    _require_success(lab.run(opt_ml))
    found = list_files(opt_ml, "model")
    require(found == {"weights.bin": 1 << 20}, f"one file of 1 MB became {show_files(found)}")
    return f"/opt/ml/model holds {show_files(found)}"


def _start_without_s3(lab: Lab) -> Container:
    source = '"s3://probe-bucket/sourcedir.tar.gz"'
    opt_ml = lab.job(hyperparameters={"sagemaker_submit_directory": source})
    (
        opt_ml.root / "code" / opt_ml.program
    ).unlink()  # some images prefer code that is there already
    # Inside the container, on the discard port: refused at once, so the check takes no time-out.
    nowhere = "http://127.0.0.1:9"
    return lab.start(
        opt_ml,
        environ={
            "AWS_ENDPOINT_URL_S3": nowhere,
            # For SDKs that ignore the first one: through a dead proxy the real S3 is as far away.
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "",
            "AWS_ACCESS_KEY_ID": "probe",
            "AWS_SECRET_ACCESS_KEY": "probe",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
        },
    )


def _read_reason(opt_ml: OptMl) -> str:
    try:
        return (opt_ml.root / "output/failure").read_bytes().decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise Failed(f"/opt/ml/output/failure is not valid UTF-8: {error}") from None
    except OSError:
        return ""


def _stop_when_ready(container: Container, opt_ml: OptMl) -> None:
    ready = opt_ml.root / "probe-ready"
    require_fact(container, ready.exists, "the script writes its model")
    container.stop(_STOP_SECONDS)


def _require_success(ran: Ran) -> None:
    require(ran.code == 0, f"exit code {ran.code}: {ran.tail()}")
