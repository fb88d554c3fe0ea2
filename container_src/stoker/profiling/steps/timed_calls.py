"""The calls that save checkpoints or log, in torch and around it: public functions, timed.

Imports nothing: this is loaded before the script, in each process of a profiled job.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.profiling.steps.recorder import StepRecorder

_TRAINER = ("Trainer", ("save_checkpoint",), "checkpoint")
_CALLS = {
    "lightning.pytorch.trainer.trainer": _TRAINER,
    "mlflow.tracking.client": ("MlflowClient", ("log_",), "logging"),
    "pytorch_lightning.trainer.trainer": _TRAINER,
    "safetensors.torch": ("", ("save_file", "save_model"), "checkpoint"),
    # A thread does the saving: what the training waits for is the copy, and the save before.
    "stoker.checkpoints.recorder": ("CheckpointRecorder", ("save", "finish"), "checkpoint"),
    "stoker.worker.script_job": ("Job", ("log",), "logging"),
    "torch.distributed.checkpoint.state_dict_saver": ("", ("save", "async_save"), "checkpoint"),
    "torch.utils.tensorboard.writer": ("SummaryWriter", ("add_",), "logging"),
    # Hugging Face's trainer saves by it, whatever the file's format.
    "transformers.modeling_utils": ("PreTrainedModel", ("save_pretrained",), "checkpoint"),
}
"""Module → class, if any; names, or beginnings of names that end with `_`; the part of a step."""

MODULES = tuple(_CALLS)


class TimedCalls:
    """Times the calls of the modules that the script has imported, once steps are recorded."""

    def __init__(self) -> None:
        self._recorder: StepRecorder | None = None
        self._loaded: list[str] = []
        """Before there was a recorder."""

    def after_import(self, module: str) -> None:
        """The module is there. Never raises."""
        if self._recorder is None:
            self._loaded.append(module)
        else:
            _time(self._recorder, module)

    def start(self, recorder: StepRecorder) -> None:
        """Steps are recorded from now on."""
        self._recorder = recorder
        for module in self._loaded:
            _time(recorder, module)


def _time(recorder: StepRecorder, module: str) -> None:
    import sys

    from stoker.profiling.steps.step_timer import PARTS

    class_name, names, part = _CALLS[module]
    loaded = sys.modules.get(module)
    owner: Any = getattr(loaded, class_name, None) if class_name else loaded
    for name in list(vars(owner)) if owner is not None else ():
        if any(name == one or (one[-1] == "_" and name.startswith(one)) for one in names):
            function = getattr(owner, name)
            setattr(owner, name, recorder.timed(PARTS.index(part), function))
