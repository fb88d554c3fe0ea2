"""Every error Stoker raises, with its fix.

StokerError
├── ConfigInvalid        a file under /opt/ml/input/config cannot be used
├── ParamsInvalid        hyperparameters do not fit what the script declares
├── ChannelMissing       a channel was asked for that this job does not have
├── CodeMissing          no entry point, or no code where the job says it is
├── ArchiveUnsafe        a source archive would write outside its folder
├── PreparationFailed    fetching code, installing requirements or finding peers failed
├── LaunchFailed         the user's program could not be started
├── CheckpointFailed     a checkpoint could not be written or read
├── CheckpointMismatch   the checkpoint that was found belongs to something else
├── RuleInvalid          a rule that does not exist, or settings it cannot work with
├── ActionFailed         what a rule's finding should have brought about did not happen
├── TensorMissing        a tensor or step was asked for that was not saved
├── TensorsUnreadable    a folder holds no saved tensors, or damaged ones
├── SearchInvalid        a hyperparameter search that cannot be run as it was described
└── HostError            something on the user's own machine (engine, build, push)
"""

from __future__ import annotations


class StokerError(Exception):
    """What happened and what was expected; `fix` says what to do about it."""

    exit_code = 70
    """The container's exit code when this error ends a job (sysexits.h; 70 = our own fault)."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.fix}" if self.fix else self.message


class ConfigInvalid(StokerError):
    """A file under /opt/ml/input/config cannot be used."""

    exit_code = 78  # EX_CONFIG


class ParamsInvalid(StokerError):
    """Hyperparameters do not fit what the script declares."""

    exit_code = 78  # EX_CONFIG


class ChannelMissing(StokerError):
    """A channel was asked for that this job does not have."""

    exit_code = 66  # EX_NOINPUT


class CodeMissing(StokerError):
    """No entry point, or no code where the job says it is."""

    exit_code = 66  # EX_NOINPUT


class ArchiveUnsafe(StokerError):
    """A source archive would write outside its folder."""

    exit_code = 65  # EX_DATAERR


class PreparationFailed(StokerError):
    """Fetching code, installing requirements or finding peers failed."""

    exit_code = 69  # EX_UNAVAILABLE


class LaunchFailed(StokerError):
    """The user's program could not be started."""

    exit_code = 71  # EX_OSERR


class CheckpointFailed(StokerError):
    """A checkpoint could not be written or read."""

    exit_code = 74  # EX_IOERR


class CheckpointMismatch(StokerError):
    """The checkpoint that was found belongs to something else: other parameters, another model."""

    exit_code = 78  # EX_CONFIG


class RuleInvalid(StokerError):
    """A rule that does not exist, or settings it cannot work with."""

    exit_code = 78  # EX_CONFIG


class ActionFailed(StokerError):
    """What a rule's finding should have brought about did not happen: a stop, a message."""

    exit_code = 69  # EX_UNAVAILABLE


class TensorMissing(StokerError):
    """A tensor or step was asked for that was not saved."""

    exit_code = 66  # EX_NOINPUT


class TensorsUnreadable(StokerError):
    """A folder holds no saved tensors, or damaged ones."""

    exit_code = 66  # EX_NOINPUT


class SearchInvalid(StokerError):
    """A hyperparameter search that cannot be run; `mistakes` has one text for each reason."""

    exit_code = 78  # EX_CONFIG

    def __init__(self, *mistakes: str) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


class HostError(StokerError):
    """Something on the user's own machine: the engine, a build, a push."""
