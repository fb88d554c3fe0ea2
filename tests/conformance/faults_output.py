"""Faults of the group `output`: one for each check (see faults.py).

`FAULTS` patches the launcher inside the container; `IMAGES` adds lines to the Dockerfile; `ALSO`
declares, with the reason, which other checks a fault fails (`make cross` tries it).
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time

from stoker.runtime import diagnosis, report  # who imports from them later gets the fault

CHECKPOINTS = "/opt/ml/checkpoints"


def full_disk_is_a_success():
    """38: exits 0 when the failure file cannot be written, as the stock toolkit does."""
    from stoker.runtime import guard

    guard._reserve_space = lambda folder: None  # with it, the file can be written
    write = report.write_failure

    def write_or_leave(path, reason):
        if write(path, reason):
            sys.exit(0)

    report.write_failure = write_or_leave


def reason_says_nothing():
    """39: the failure file holds the exit code, not the error."""
    diagnosis._compose = lambda *facts: f"the training script ended with exit code {facts[2]}"


def failed_job_marks_the_model():
    """40: a marker in the model folder after a failure."""
    _at_the_end(lambda outcome: outcome.kind == "failed" and _write("/opt/ml/model/FAILED", 1))


def log_goes_to_output_data():
    """41: a log of 3 MB in the folder that is uploaded."""
    _at_the_end(lambda outcome: _write("/opt/ml/output/data/launcher.log", 3_000_000))


def intermediate_is_made():
    """42: the folder is made for every job."""
    os.makedirs("/opt/ml/output/intermediate", exist_ok=True)


def old_checkpoints_are_removed():
    """43: keeps only the newest file of the folder, before the script has seen it."""
    names = sorted(name for name in os.listdir(CHECKPOINTS) if name.startswith("step-"))
    for name in names[:-1]:
        os.remove(f"{CHECKPOINTS}/{name}")


def scan_stumbles():
    """44: a look at the model folder that does not expect files to vanish."""
    threading.Thread(target=_scan, args=("/opt/ml/model",), daemon=True).start()


def events_are_cleaned_up():
    """45: removes the TensorBoard folder when the job is over."""
    _at_the_end(lambda outcome: shutil.rmtree("/opt/ml/output/tensorboard", ignore_errors=True))


def hook_is_needed():
    """46: cannot do without smdebug once its file is there."""
    if os.path.exists("/opt/ml/input/config/debughookconfig.json"):
        sys.exit("smdebug is not installed")


def stop_forgets_checkpoints():
    """47: clears the checkpoints of a stopped job."""
    _at_the_end(lambda outcome: outcome.kind == "stopped" and _clear(CHECKPOINTS))


def every_failure_is_1():
    """48: replaces every exit code but 0 by 1."""
    original = report.report
    report.report = lambda outcome, **rest: min(1, original(outcome, **rest))


def model_holds_the_code():
    """49: copies the code into the model folder where there is a model."""
    _at_the_end(lambda outcome: outcome.kind == "success" and _copy_code())


FAULTS = {
    38: full_disk_is_a_success,
    39: reason_says_nothing,
    40: failed_job_marks_the_model,
    41: log_goes_to_output_data,
    42: intermediate_is_made,
    43: old_checkpoints_are_removed,
    44: scan_stumbles,
    45: events_are_cleaned_up,
    46: hook_is_needed,
    47: stop_forgets_checkpoints,
    48: every_failure_is_1,
    49: model_holds_the_code,
}
IMAGES: dict[int, tuple[str, str]] = {}


def _at_the_end(action):
    """Does something more when the launcher reports how the job ended."""
    original = report.report

    def report_and_more(outcome, **rest):
        action(outcome)
        return original(outcome, **rest)

    report.report = report_and_more


def _write(path, size_bytes):
    with open(path, "wb") as file:
        file.write(b"x" * size_bytes)


def _clear(folder):
    shutil.rmtree(folder)
    os.mkdir(folder)


def _copy_code():
    if os.listdir("/opt/ml/model"):
        shutil.copytree("/opt/ml/code", "/opt/ml/model/code", dirs_exist_ok=True)


def _scan(folder):
    known = set()
    while known <= (known := set(os.listdir(folder))):
        time.sleep(0.001)
    os._exit(70)  # a file that was listed before is gone


ALSO: dict[int, dict[str, set[int]]] = {
    38: {"an ordinary user cannot write the failure file either": {6}},
    39: {"it is the failure file that has to tell": {32}},
    46: {"one of the files it puts there is debughookconfig.json": {15}},
    47: {"their scripts note among the checkpoints what they received": {27, 28}},
    48: {"the code that the script chose after SIGTERM is not 1": {27}},
}
