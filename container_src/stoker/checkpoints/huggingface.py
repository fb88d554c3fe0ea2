# An extra: where it is not installed, mypy knows nothing of it.
# mypy: disable-error-code="import-not-found, misc"
"""Hugging Face: a Trainer callback that saves and resumes through Stoker's checkpoints.

Needs `transformers` and `accelerate` (pip install 'stoker[huggingface]').
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Literal

from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import ExportableState

from stoker.checkpoints.followed import follow
from stoker.checkpoints.interval import MEAN_HOURS_BETWEEN_INTERRUPTIONS
from stoker.checkpoints.session import Session
from stoker.checkpoints.shards import parse_head
from stoker.checkpoints.store import Checkpoint, Store
from stoker.checkpoints.tree import decode
from stoker.contract.job import Job
from stoker.errors import CheckpointFailed

_STATE_FILE = "trainer_state.json"


class StokerCheckpoints(TrainerCallback):
    """Resumes from the newest valid checkpoint, saves in the background, leaves on SIGTERM.

    After a resume, also inside an epoch, the losses are those of a run without interruption,
    as long as the data collator draws no random numbers. `train` returns as usual when a signal
    or a rule has stopped it; `stopped` tells.

    Args:
        job: from `stoker.job()`.
        steps: save after each so many optimizer steps.
        minutes: save after so much time; "auto" weighs a save against an interruption.
        mean_hours: for "auto": the time between interruptions that is assumed.
        options: of `stoker.checkpoints`: folder, keep, resume, if_changed, config, overlap.

    Example:
        >>> trainer = Trainer(model, TrainingArguments(save_strategy="no"), train_dataset=data)
        >>> StokerCheckpoints(stoker.job()).train(trainer)
    """

    def __init__(
        self,
        job: Job,
        *,
        steps: int | None = None,
        minutes: float | Literal["auto"] | None = "auto",
        mean_hours: float = MEAN_HOURS_BETWEEN_INTERRUPTIONS,
        **options: Any,  # noqa: ANN401 - each has its own type, see open_session
    ) -> None:
        self.stopped = False
        """Whether the last training was left early, for a signal or a rule."""
        self._job = job
        self._schedule: dict[str, Any] = {"steps": steps, "minutes": minutes}
        self._schedule["mean_hours"] = mean_hours
        self._options = options
        self._session: Session | None = None
        self._trainer: Trainer | None = None

    def train(self, trainer: Trainer) -> Any:  # noqa: ANN401 - what the trainer returns
        """`trainer.train()`, from where the newest valid checkpoint is."""
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        _check(trainer)
        self._trainer = trainer
        store = Store(self._options.get("folder") or self._job.checkpoint_dir)
        newest = store.newest() if self._options.get("resume", True) else None
        try:
            with tempfile.TemporaryDirectory(prefix="stoker-resume-") as folder:
                return trainer.train(resume_from_checkpoint=_prepare(trainer, newest, folder))
        except BaseException as error:
            self._close(error)
            raise
        finally:
            self._trainer = None
            # The next training may be resumed by the trainer's own means.
            vars(trainer).pop("_load_from_checkpoint", None)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **objects: Any,  # noqa: ANN401 - the trainer's model, optimizer, scheduler …
    ) -> None:
        """Restores everything but the trainer's counters, which the trainer has read itself."""
        trainer = self._trainer
        if trainer is None:
            raise CheckpointFailed(
                "the trainer was started by itself, and would begin at the beginning",
                fix="StokerCheckpoints(job).train(trainer) instead of trainer.train()",
            )
        optimizer = objects["optimizer"]
        self._session, self._loop = follow(
            self._job,
            options=self._options,
            model=objects["model"],
            optimizer=getattr(optimizer, "optimizer", optimizer),  # out of accelerate's wrapper
            scheduler=objects["lr_scheduler"],
            scaler=trainer.accelerator.scaler,
            trainer=_TrainerState(trainer),
        )
        self._session.save_every(**self._schedule)
        # _prepare() looked at this disk alone; the session takes what all ranks have.
        if self._session.step != state.global_step:
            raise CheckpointFailed(
                f"the trainer begins at step {state.global_step}, but the newest checkpoint that "
                f"all ranks have is of step {self._session.step}",
                fix="remove the damaged ones: stoker checkpoints verify DIR",
            )

    def on_epoch_begin(self, *_: object, **__: object) -> None:
        """The loader is about to be started: its order depends on the random numbers now."""
        if self._session is not None:
            self._loop.begin_epoch()

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> TrainerControl:
        """The boundary: logs, evaluation and all else of the step before are done by now."""
        session = self._session
        if session is None:
            return control
        self._loop.catch_up()
        if state.global_step != session.step and not session.stopped:
            session.progress.epoch = int(state.epoch)
            # The trainer ends after one more step; what counts is the checkpoint before it.
            control.should_training_stop |= session.advance(state.global_step)
        return control

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Saves the end, so that an interruption from here on repeats nothing."""
        if self._session is not None and not self._session.stopped:
            self._session.progress.step = state.global_step
        self._close()

    def _close(self, error: BaseException | None = None) -> None:
        session, self._session = self._session, None
        if session is not None:
            self.stopped = session.stopped
            session.__exit__(type(error) if error else None, error, None)


class _TrainerState:
    """The trainer's counters, logs and the states of its callbacks."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        callbacks = [*trainer.callback_handler.callbacks, trainer.control]
        exportable: list[Any] = [c for c in callbacks if isinstance(c, ExportableState)]
        fresh = TrainerState(stateful_callbacks=exportable).stateful_callbacks
        return {**asdict(trainer.state), "stateful_callbacks": fresh}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing: the trainer has read it from the file `_prepare` made."""


def _prepare(trainer: Trainer, newest: Checkpoint | None, folder: str) -> str | None:
    """The folder of a checkpoint as the trainer wants it, with its counters alone."""
    if newest is None:
        return None
    with Path(newest.path, "rank00000.safetensors").open("rb") as file:
        content = mmap(file.fileno(), 0, access=ACCESS_READ)
    _, rest = parse_head(memoryview(content))
    # Before the session is made: the trainer reads its counters from a file when it starts.
    state = decode(rest["state"]["trainer"], _no_tensor)
    TrainerState(**state).save_to_json(str(Path(folder, _STATE_FILE)))
    # Weights come from the store, in on_train_begin; here it would miss a file of them.
    vars(trainer)["_load_from_checkpoint"] = lambda *_, **__: None
    return folder


def _no_tensor(name: str) -> Any:  # noqa: ANN401 - as decode wants it; never returns
    raise CheckpointFailed(
        f"the trainer's state holds a tensor: {name}", fix="keep plain numbers in callbacks"
    )


def _check(trainer: Trainer) -> None:
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        raise CheckpointFailed(
            "DeepSpeed and FSDP shard the model in their own way",
            fix="use the trainer's own checkpoints with them: output_dir=job.checkpoint_dir",
        )
