"""What will be run, decided before anything is: pure functions from a Job to Steps."""

from __future__ import annotations

import os
import sys

from stoker.bus.crash import FOLDER_VARIABLE
from stoker.contract.environment import drop_oversized, make_environment
from stoker.contract.hyperparameters import make_arguments
from stoker.contract.paths import OPT_ML, ROOT_VARIABLE
from stoker.contract.record import Record
from stoker.contract.secrets import Masker
from stoker.contract.services import name_moved_files
from stoker.errors import ConfigInvalid
from stoker.runtime.distribution import (
    Distribution,
    choose_distribution,
    make_network_environment,
    make_torchrun,
)
from stoker.runtime.requirements import make_install_steps
from stoker.runtime.step import HELPERS, WORKER_GRACE_SECONDS, WORKER_VARIABLE, LaunchStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.code import Code
    from stoker.contract.job import Job
    from stoker.runtime.program import Program

PEER_LIMIT_SECONDS = 600
PEER_LIMIT_VARIABLE = "STOKER_PEER_LIMIT_SECONDS"
# What the toolkit's own `train` does; that name on the path is ours.
_TOOLKIT = "from sagemaker_training.cli.train import main; main()"


class LaunchPlan(Record):
    """Everything between the code being there and the user's first line."""

    distribution: Distribution
    preparation: tuple[LaunchStep, ...]
    worker: LaunchStep
    left_out: tuple[str, ...] = ()
    """Variables too long for any process; the script reads the config file instead."""


def make_fetch_step(job: Job, code: Code, mask: Masker) -> LaunchStep | None:
    """How the code gets to /opt/ml/code; None when it can run where it is."""
    if code.source.kind == "folder" and not _is_read_only_channel(code):
        return None
    with_boto3 = code.source.kind == "s3"
    return LaunchStep(
        name="fetch code",
        argv=(
            sys.executable,
            # -S: Python starts quicker without site-packages, which only boto3 needs.
            "-I" if with_boto3 else "-IS",
            HELPERS,
            "fetch",
            code.source.location,
            job.paths.code_dir,
        ),
        environ=job.environ,
        folder="/",
        mask=mask,
    )


def make_plan(job: Job, program: Program, *, crash_dir: str, mask: Masker) -> LaunchPlan:
    """The steps of one launch.

    Raises:
        ConfigInvalid: a distribution this image cannot launch.
    """
    distribution = choose_distribution(job)
    environ, left_out = _worker_environ(job, program, distribution, crash_dir)
    worker = LaunchStep(
        name=program.target,
        argv=(*_command(program, distribution), *make_arguments(job.hyperparameters.values())),
        environ=environ,
        folder=program.folder,
        grace_seconds=WORKER_GRACE_SECONDS,
    )
    preparation = (*make_install_steps(job, program, mask), *_peer_steps(job, distribution))
    return LaunchPlan(
        distribution=distribution,
        preparation=preparation,
        worker=worker,
        left_out=tuple(left_out),
    )


def make_toolkit_plan(job: Job, *, crash_dir: str, mask: Masker) -> LaunchPlan:
    """The whole job handed to the bundled toolkit: MPI, plug-in modules, or because asked."""
    environ = {
        **job.environ,
        WORKER_VARIABLE: "1",
        FOLDER_VARIABLE: crash_dir,
        "SM_CHECKPOINT_DIR": job.services.checkpoint_dir,
        "SM_TENSORBOARD_DIR": job.services.tensorboard_dir,
    }
    if job.paths.root != OPT_ML:
        # The toolkit's own name for another root.
        environ["SAGEMAKER_BASE_DIR"] = job.paths.root
    worker = LaunchStep(
        name="the stock toolkit",
        mask=mask,  # it prints all hyperparameters
        argv=(sys.executable, "-c", _TOOLKIT),
        environ=environ,
        folder=job.paths.code_dir if os.path.isdir(job.paths.code_dir) else "/",
        grace_seconds=WORKER_GRACE_SECONDS,
    )
    return LaunchPlan(distribution=choose_distribution(job), preparation=(), worker=worker)


def _is_read_only_channel(code: Code) -> bool:
    # FastFile: no package can be built there, and no bytecode kept.
    return code.source.origin == "code channel" and not os.access(code.source.location, os.W_OK)


def _command(program: Program, distribution: Distribution) -> list[str]:
    if distribution.launcher == "torchrun":
        return make_torchrun(distribution, program)
    if program.kind == "script":
        return [sys.executable, program.target]
    if program.kind == "module":
        return [sys.executable, "-m", program.target]
    if program.kind == "shell":
        return [*program.interpreter, program.target]
    return [f"./{program.target}"]


def _worker_environ(
    job: Job, program: Program, distribution: Distribution, crash_dir: str
) -> tuple[dict[str, str], list[str]]:
    arguments = make_arguments(job.hyperparameters.values())
    variables, left_out = drop_oversized(
        make_environment(job, entry_point=program.entry_point, code_dir=program.folder),
        other_strings=[*arguments, *job.environ, *job.environ.values()],
    )
    # In rising order: the user's values win over those for smdebug, the contract's over the
    # user's. make_network_environment() leaves out what the user has set.
    environ = {
        **name_moved_files(job.paths),
        **job.environ,
        **make_network_environment(job, distribution),
        **variables,
        WORKER_VARIABLE: "1",
        FOLDER_VARIABLE: crash_dir,
        # Not the launcher's sys.path, as the toolkit has it: that breaks a virtual environment.
        "PYTHONPATH": _joined(program.folder, job.environ.get("PYTHONPATH")),
    }
    if job.paths.root != OPT_ML:
        environ[ROOT_VARIABLE] = job.paths.root
    if program.kind in ("shell", "executable"):
        # It may start a Python that is not ours and so knows nothing of autoload.
        environ.setdefault("PYTHONUNBUFFERED", "1")
    return environ, left_out


def _peer_steps(job: Job, distribution: Distribution) -> tuple[LaunchStep, ...]:
    # Studio's local mode sets the variable to skip this wait.
    if len(distribution.hosts) == 1 or job.environ.get("SM_STUDIO_LOCAL_MODE") == "true":
        return ()
    limit = job.environ.get(PEER_LIMIT_VARIABLE) or str(PEER_LIMIT_SECONDS)
    if not (limit.isascii() and limit.isdigit()):
        raise ConfigInvalid(
            f"{PEER_LIMIT_VARIABLE} is {limit!r:.80}", fix="use a whole number of seconds"
        )
    return (
        LaunchStep(
            name="find peers",
            argv=(sys.executable, "-IS", HELPERS, "peers", limit, *distribution.hosts),
            environ=job.environ,
            folder="/",
            fix="the hosts of a job start together: look at the other hosts' logs; security "
            "groups must let the hosts reach each other",
        ),
    )


def _joined(folder: str, existing: str | None) -> str:
    return f"{folder}:{existing}" if existing else folder
