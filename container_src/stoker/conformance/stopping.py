"""Group C, the stop: SIGTERM, two minutes, SIGKILL, and which processes receive it."""

from __future__ import annotations

import re
import time
from collections import Counter

from stoker.conformance.check import Failed, check, require
from stoker.conformance.lab import Container, Lab, Ran
from stoker.conformance.opt_ml import OptMl, make_resources
from stoker.conformance.probe import ends_within, require_torch
from stoker.conformance.script import Script

# Less than the service's 120 s: the launcher needs some for itself.
_FULL_SECONDS = 100
_HANDLER_SECONDS = 8
_SPARE_SECONDS = 20
_PROMPT_SECONDS = 30  # there is nothing to be saved yet
_CHOSEN_CODE = 42  # one that neither Python nor a shell would choose
_READY = "checkpoints/ready"
"""The script's sign that it runs: a file, as a launcher may hold lines back."""

_HANDLER = Script(
    sh="handler",
    python=f"""
import os, signal, sys, time

def save(number, frame):
    with open("/opt/ml/checkpoints/begun", "a") as file:
        file.write("begun\\n")
    time.sleep(float(os.environ["PROBE_SECONDS"]))
    with open("/opt/ml/checkpoints/done", "w") as file:
        file.write("done")
    sys.exit({_CHOSEN_CODE})

signal.signal(signal.SIGTERM, save)
open("/opt/ml/{_READY}", "w").close()
while True:
    time.sleep(0.1)
""",
)

# torchrun kills its workers 30 s after SIGTERM unless configured otherwise. If the image has
# configured it, a short try is enough; if not, the handler takes longer than that.
_RANKS = """
import importlib.util, os, signal, sys, time

def note(name):
    with open(f"/opt/ml/checkpoints/{name}", "a") as file:
        file.write(os.environ.get("RANK", "none") + "\\n")

def allowed_seconds():
    with open(f"/proc/{os.getppid()}/cmdline") as file:
        argv = file.read().replace("=", "\\0").replace("_", "-").split("\\0")
    if "--shutdown-timeout" in argv:
        return float(argv[argv.index("--shutdown-timeout") + 1])
    return float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 30))

def save(number, frame):
    note("begun")
    seconds = float(os.environ["PROBE_SECONDS"])
    time.sleep(seconds if allowed_seconds() >= 100 else max(seconds, 40))
    note("done")
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
note("ready")
while True:
    time.sleep(0.1)
"""
_TORCHRUN = {
    "sagemaker_torch_distributed_enabled": "true",
    "sagemaker_distribution_instance_groups": '["homogeneousCluster"]',
    "sagemaker_mpi_num_of_processes_per_host": "2",
}

_QUITTER = Script(
    sh="quitter",
    python=f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
open("/opt/ml/{_READY}", "w").close()
while True:
    time.sleep(0.1)
""",
)
# A package that brings its own build backend: no setuptools and no network are needed.
_SLOW_PROJECT = """
[build-system]
requires = []
build-backend = "slow"
backend-path = ["."]
"""
_SLOW_BACKEND = """
import time

def _wait():
    open("/opt/ml/checkpoints/installing", "w").close()
    time.sleep(300)

def get_requires_for_build_wheel(config_settings=None):
    _wait()

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _wait()
"""

_STUBBORN = Script(
    sh="stubborn",
    python=f"""
import os, signal, time
folders = {{
    "model": os.environ.get("SM_MODEL_DIR", "/opt/ml/model"),
    "output/data": os.environ.get("SM_OUTPUT_DATA_DIR", "/opt/ml/output/data"),
    "checkpoints": os.environ.get("SM_CHECKPOINT_DIR", "/opt/ml/checkpoints"),
}}

def write(name):
    for folder in folders.values():
        with open(os.path.join(folder, name), "w") as file:
            file.write("whole" * 1000)

signal.signal(signal.SIGTERM, lambda number, frame: write("late"))
write("early")
open("/opt/ml/{_READY}", "w").close()
while True:
    time.sleep(0.1)
""",
)


@check(
    27,
    "SIGTERM reaches the script, with time to save",
    group="running",
    contract="A stop is SIGTERM, 120 s, SIGKILL. The time is the script's; its exit code is kept.",
    source="guide, API (StopTrainingJob)",
    how=f"docker stop; the script's handler takes {_HANDLER_SECONDS} s and exits with "
    f"{_CHOSEN_CODE} ({_FULL_SECONDS} s with --full)",
    fix="forward SIGTERM to the script, wait for it as long as the platform does, keep its code",
    both_ways=True,
    limit_seconds=180,
)
def stop_reaches_the_script(lab: Lab) -> str:
    seconds = _handler_seconds(lab, _HANDLER_SECONDS)
    opt_ml = lab.job(_HANDLER)
    container = lab.start(opt_ml, environ={"PROBE_SECONDS": str(seconds)})
    _require_ready(container, opt_ml)
    ran = container.stop(seconds + _SPARE_SECONDS)
    begun = opt_ml.read("checkpoints/begun").count("begun")
    require(begun > 0, f"the handler never ran; the container ended with {ran.code}")
    require(begun == 1, f"the handler was called {begun} times")
    done = opt_ml.read("checkpoints/done") == "done"
    require(done, f"the handler was cut off before its {seconds} s; exit code {ran.code}")
    require(ran.code == _CHOSEN_CODE, f"the script chose {_CHOSEN_CODE}, the code is {ran.code}")
    return f"the handler had {seconds} s and the exit code is the script's own"


@check(
    28,
    "SIGTERM reaches each torchrun process once",
    group="running",
    contract="The same stop with torchrun: each process receives it once and has the whole time.",
    source="guide, API (StopTrainingJob); torchrun's own limit is 30 s unless it is set",
    how="two processes per host with torch_distributed, docker stop; each handler notes its rank "
    "and takes 3 s, or 40 s where torchrun was not given 100 s or more "
    f"({_FULL_SECONDS} s with --full)",
    fix="signal torchrun only, not the group; set TORCH_ELASTIC_SHUTDOWN_TIMEOUT to about 100",
    both_ways=True,
    limit_seconds=240,
)
def stop_reaches_each_rank(lab: Lab) -> str:
    lab.require_python("torchrun is a Python program")
    seconds = _handler_seconds(lab, 3)
    opt_ml = lab.job(_RANKS, hyperparameters=_TORCHRUN)
    container = lab.start(opt_ml, environ={"PROBE_SECONDS": str(seconds)})
    _require_ranks(lab, container, opt_ml)
    ran = container.stop(max(seconds, 40) + _SPARE_SECONDS)
    begun = Counter(opt_ml.read("checkpoints/begun").split())
    require(begun == {"0": 1, "1": 1}, f"SIGTERM per rank: {dict(begun)}; code {ran.code}")
    done = sorted(opt_ml.read("checkpoints/done").split())
    require(done == ["0", "1"], f"only ranks {done} could finish; exit code {ran.code}")
    return f"both ranks received SIGTERM once and finished; exit code {ran.code}"


def _require_ranks(lab: Lab, container: Container, opt_ml: OptMl) -> None:
    """Waits for both ranks; looks for torch only if they do not come."""

    def came() -> list[str]:
        return sorted(opt_ml.read(_READY).split())

    if container.wait_until(lambda: came() == ["0", "1"] or "none" in came(), 90):
        if came() == ["0", "1"]:
            return
        require_torch(lab)
        raise Failed("the script runs once and without RANK: torch_distributed is ignored")
    require_torch(lab)
    raise Failed(f"two ranks were asked for, {came()} came: {container.logs().strip()[-400:]}")


@check(
    29,
    "A stop before the script starts is prompt and is not a failure",
    group="running",
    contract="SIGTERM may come while packages are installed or peers are awaited.",
    source="API (StopTrainingJob may be called at any time); our choice: prompt, no failure text",
    how="SIGTERM while pip builds a package that takes minutes, and while a host of the job is "
    f"not known to DNS; the container must end within {_PROMPT_SECONDS} s (without Python there "
    "is no pip to be stopped)",
    fix="listen for SIGTERM from the first moment, end what was started, write no failure file",
    both_ways=True,
    limit_seconds=150,
)
def early_stop_is_prompt(lab: Lab) -> str:
    waiting = lab.job(_QUITTER, resources=make_resources("algo-1", ["algo-1", "algo-2"]))
    stopped = {"while a host is awaited": (lab.start(waiting), waiting)}
    if lab.language == "python":
        stopped["during pip install"] = _start_installing(lab)
    _wait_for_quiet(*stopped["while a host is awaited"])
    for container, _ in stopped.values():
        container.signal("TERM")
    started = time.monotonic()
    codes = {when: _require_prompt(*job, when).code for when, job in stopped.items()}
    return f"ended within {time.monotonic() - started:.1f} s, with the codes {codes}"


def _start_installing(lab: Lab) -> tuple[Container, OptMl]:
    """A job that installs a package which takes minutes."""
    opt_ml = lab.job(_QUITTER)
    opt_ml.write("code/requirements.txt", "/opt/ml/code/slow\n")
    opt_ml.write("code/slow/pyproject.toml", _SLOW_PROJECT)
    opt_ml.write("code/slow/slow.py", _SLOW_BACKEND)
    pip = lab.start(opt_ml, environ={"PIP_NO_INDEX": "1"})
    begun = pip.wait_until(lambda: (opt_ml.root / "checkpoints/installing").exists(), 60)
    require(begun, f"requirements.txt was not installed: {pip.logs().strip()[-400:]}")
    return pip, opt_ml


def _wait_for_quiet(container: Container, opt_ml: OptMl) -> None:
    """Waits until the log is quiet: a launcher that waits for DNS prints little.

    An image that does not wait runs the script, which is as good: it ends at SIGTERM.
    """
    said, since, deadline = "", time.monotonic(), time.monotonic() + 10
    while time.monotonic() < deadline:
        require(container.is_running(), f"it ended by itself: {container.logs().strip()[-400:]}")
        now_said = container.logs()
        if now_said != said:
            said, since = now_said, time.monotonic()
        is_quiet = bool(said) and time.monotonic() - since > 1.5
        if is_quiet or (opt_ml.root / _READY).exists():
            return
        time.sleep(0.2)


def _require_prompt(container: Container, opt_ml: OptMl, when: str) -> Ran:
    ended = ends_within(container, _PROMPT_SECONDS)
    require(ended, f"{when}: it did not end within {_PROMPT_SECONDS} s of SIGTERM")
    failure = opt_ml.read("output/failure").strip()
    blameless = not failure or re.search(r"SIGTERM|stopp?|interrupt", failure, re.IGNORECASE)
    require(bool(blameless), f"{when}: the failure file blames the user: {failure[:300]!r}")
    return container.wait()


@check(
    30,
    "What was written before SIGKILL is kept",
    group="running",
    contract="SIGKILL follows 120 s after SIGTERM; what is in the synced folders is kept.",
    source="guide, API (StopTrainingJob)",
    how="docker stop --time 5 with a script that does not end; its files in the folders that "
    "SM_MODEL_DIR, SM_OUTPUT_DATA_DIR and SM_CHECKPOINT_DIR name are looked for",
    fix="let the script write to /opt/ml itself, not to a place that is copied at the end",
    limit_seconds=60,
)
def written_files_are_kept(lab: Lab) -> str:
    opt_ml = lab.job(_STUBBORN)
    container = lab.start(opt_ml)
    _require_ready(container, opt_ml)
    ran = container.stop(5)
    for folder in ("model", "output/data", "checkpoints"):
        text = opt_ml.read(f"{folder}/early")
        require(text == "whole" * 1000, f"the file in /opt/ml/{folder} is lost or cut")
    require(ran.code != 0, "a job that was killed ended with 0")
    late = all(opt_ml.read(f"{folder}/late") for folder in ("model", "checkpoints"))
    return f"all files are there{', also those of the handler' if late else ''}; code {ran.code}"


def _require_ready(container: Container, opt_ml: OptMl) -> None:
    ready = container.wait_until(lambda: (opt_ml.root / _READY).exists(), 60)
    require(ready, f"the script did not start: {container.logs().strip()[-400:]}")


def _handler_seconds(lab: Lab, usual: int) -> int:
    return _FULL_SECONDS if lab.full else usual
