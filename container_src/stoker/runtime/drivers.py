"""SDK v3's door: its bash and drivers replace `train`; this process stands in front of them.

`bash_env.sh` starts it instead of the shell that `ModelTrainer` names as the entry point. It
forwards signals, reaps orphans, keeps lines whole, and puts the script's own error where the
drivers write theirs.
"""

from __future__ import annotations

import os
import signal

from stoker.contract.crash import FOLDER_VARIABLE
from stoker.contract.files import remove_file
from stoker.contract.job import Job, read_job
from stoker.contract.outcome import read_failure
from stoker.contract.paths import read_paths
from stoker.contract.secrets import Masker
from stoker.errors import StokerError
from stoker.runtime.crashes import CrashFolder
from stoker.runtime.distribution import TORCHRUN_SHUTDOWN_SECONDS
from stoker.runtime.finish import make_outcome
from stoker.runtime.folders import make_folders
from stoker.runtime.log import Log
from stoker.runtime.report import outcome_of_error, report
from stoker.runtime.signals import Signals
from stoker.runtime.step import WORKER_GRACE_SECONDS, WORKER_VARIABLE, Step
from stoker.runtime.watch import Ended, Watch

# What the drivers themselves write to the failure file; the cause is never in it.
_DRIVER_VERDICT = "Command failed with exit code"
_DRIVER_TEXTS = ("/sm_drivers/common/utils.py", "Training Execution failed.")


def main(argv: list[str]) -> int:
    """Runs the shell command of the drivers and reports how it ended."""
    signals = Signals()
    signals.install()
    try:
        job = read_job()
    except StokerError as error:
        outcome = outcome_of_error(error)
        return report(outcome, failure_file=read_paths().failure_file, log=Log())
    log = Log(level=job.log_level, mask=Masker(job.environ, job.hyperparameters.raw))
    make_folders(job, log)
    with CrashFolder(job.environ.get("TMPDIR", "/tmp")) as crash_dir:  # noqa: S108 - private
        step = _make_step(job, argv[0], crash_dir)
        ended = _without_driver_noise(Watch(signals, log).run(step))
        outcome = make_outcome(
            job,
            ended,
            stop_signal=signals.stop_signal,
            crash_dir=crash_dir,
            launcher="drivers",
        )
    _forget_driver_text(job.paths.failure_file)
    return report(outcome, failure_file=job.paths.failure_file, log=log)


def _make_step(job: Job, command: str, crash_dir: str) -> Step:
    environ = {
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(TORCHRUN_SHUTDOWN_SECONDS),
        "SM_CHECKPOINT_DIR": job.services.checkpoint_dir,
        "SM_TENSORBOARD_DIR": job.services.tensorboard_dir,
        **job.environ,
        WORKER_VARIABLE: "1",
        FOLDER_VARIABLE: crash_dir,
    }
    return Step(
        name="the SDK's driver",
        argv=("/bin/bash", "-c", command),
        environ=environ,
        folder=os.getcwd(),
        grace_seconds=WORKER_GRACE_SECONDS,
    )


def _without_driver_noise(ended: Ended) -> Ended:
    """What the script said and how it ended: the drivers merge its two streams into stdout."""
    return ended.replace(
        exit_code=_unwrapped(ended.exit_code),
        stdout_tail=ended.stdout_tail.partition(_DRIVER_VERDICT)[0],
        stderr_tail="",  # bash -x
    )


def _unwrapped(code: int) -> int:
    """The drivers exit with Python's -n for a signal, which the kernel makes 256 - n."""
    return 128 + 256 - code if 256 - code in set(signal.Signals) else code


def _forget_driver_text(failure_file: str) -> None:
    text = read_failure(failure_file)
    if any(mark in text for mark in _DRIVER_TEXTS):
        remove_file(failure_file)
