# An extra: where it is not installed, mypy knows nothing of it.
# mypy: disable-error-code="import-not-found, misc"
"""Lightning: a callback that saves and resumes through Stoker's checkpoints.

Needs `lightning` (pip install 'stoker[lightning]'). Its trainer may also be that of
`pytorch_lightning`, the same code under its older name.
"""

from __future__ import annotations

import importlib
import signal
from collections.abc import Iterator
from typing import Any, Literal

from lightning.pytorch import Callback, LightningModule, Trainer

from stoker.checkpoints.followed import FollowedLoop, follow
from stoker.checkpoints.interval import MEAN_HOURS_BETWEEN_INTERRUPTIONS
from stoker.checkpoints.session import Session
from stoker.contract.job import Job
from stoker.errors import CheckpointFailed

# By name: lightning.pytorch and pytorch_lightning have classes of their own for the same.
_UNSHARDED = {"SingleDeviceStrategy", "DDPStrategy"}
_TRAINER_MODULE = ".trainer.trainer"


class StokerCheckpoints(Callback):
    """Resumes from the newest valid checkpoint, saves in the background, leaves on SIGTERM.

    After a resume, also inside an epoch, the losses are those of a run without interruption.
    `trainer.fit` returns as usual when a signal or a rule has stopped it; `stopped` tells.

    Args:
        job: from `stoker.job()`.
        steps: save after each so many optimizer steps.
        minutes: save after so much time; "auto" weighs a save against an interruption.
        mean_hours: for "auto": the time between interruptions that is assumed.
        monitor: a logged metric; the best model by it is kept, too.
        mode: whether more of it is better, or less.
        options: of `stoker.checkpoints`: folder, keep, resume, if_changed, config, overlap.

    Example:
        >>> checkpoints = StokerCheckpoints(stoker.job(), monitor="val_loss", mode="min")
        >>> trainer = Trainer(callbacks=[checkpoints], enable_checkpointing=False)
        >>> trainer.fit(model, loader)
    """

    def __init__(
        self,
        job: Job,
        *,
        steps: int | None = None,
        minutes: float | Literal["auto"] | None = "auto",
        mean_hours: float = MEAN_HOURS_BETWEEN_INTERRUPTIONS,
        monitor: str | None = None,
        mode: Literal["max", "min"] = "min",
        **options: Any,  # noqa: ANN401 - each has its own type, see open_session
    ) -> None:
        self.stopped = False
        """Whether the last fit was left early, for a signal or a rule."""
        self._job = job
        self._schedule: dict[str, Any] = {"steps": steps, "minutes": minutes}
        self._schedule["mean_hours"] = mean_hours
        self._monitor, self._mode = monitor, mode
        self._options = options
        self._session: Session | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restores everything; optimizers and schedulers are made by now."""
        _check(trainer)
        self.stopped = False
        numbered = enumerate(trainer.optimizers)
        optimizers = {f"optimizer{number or ''}": optimizer for number, optimizer in numbered}
        self._session, self._loop = follow(
            self._job,
            options=self._options,
            model=pl_module,
            trainer=_TrainerState(trainer),
            **optimizers,
        )
        self._session.save_every(**self._schedule)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Puts the boundary between two steps where Lightning asks for the next batch."""
        # Lightning's own handler calls collectives, which may not be done in a handler, and
        # leaves without a checkpoint. The previous handler is ours, so we may restore it.
        before: Any = trainer._signal_connector._original_handlers.pop(signal.SIGTERM, None)
        if before is not None:
            signal.signal(signal.SIGTERM, before)
        fetcher: Any = trainer.fit_loop._data_fetcher
        if self._session is None or fetcher is None:
            return
        loader = _FollowedLoader(self, trainer, self._session, self._loop)
        # Both: the fetcher asks `iterator` for batches, and starts an epoch with
        # `_combined_loader`.
        fetcher._combined_loader = fetcher.iterator = loader
        if not loader.knows_its_place:
            iter(fetcher)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tells how good the model is."""
        if self._session is None or self._monitor is None or trainer.sanity_checking:
            return
        if self._monitor not in trainer.callback_metrics:
            raise CheckpointFailed(
                f"monitor={self._monitor!r} was not logged, but these were: "
                f"{', '.join(trainer.callback_metrics) or 'none'}",
                fix="log it in validation_step: self.log(…), or watch another",
            )
        self._session.best(float(trainer.callback_metrics[self._monitor]), mode=self._mode)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Saves the end, so that an interruption from here on repeats nothing."""
        if self._session is not None:
            _note_place(self._session, trainer)
        self.close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Ends the session without a last save: the state may be that of half a step."""
        self.close(exception)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends the session of a fit that had nothing left to do."""
        self.close()

    def close(self, error: BaseException | None = None) -> None:
        """Waits for what is being written, and ends the session."""
        session, self._session = self._session, None
        if session is not None:
            self.stopped = session.stopped
            session.__exit__(type(error) if error else None, error, None)


class _FollowedLoader:
    """Lightning's combined loader, begun when the first batch is asked for, and not before.

    By then all of the step before is done: optimizer, schedulers, validation, logs.
    """

    def __init__(
        self, callback: StokerCheckpoints, trainer: Trainer, session: Session, loop: FollowedLoop
    ) -> None:
        self._callback = callback
        self._trainer = trainer
        self._session = session
        self._loop = loop
        self._combined: Any = trainer.fit_loop._combined_loader
        self._last_step = session.step
        self.knows_its_place = _any_has_state(self._combined)
        """Whether Lightning has put it where it was already, with the iterator it has begun."""
        self._batches: Iterator[Any] | None = self._combined if self.knows_its_place else None

    def __iter__(self) -> _FollowedLoader:
        self._batches = None
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - a batch may be anything
        self._reach_boundary()
        if self._batches is None and self.knows_its_place:
            self._batches = iter(self._combined)
        elif self._batches is None:
            self._batches = self._loop.start(_Batches(self._combined))
        self._loop.catch_up()
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._combined)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever Lightning asks it for
        return getattr(self._combined, name)

    def _reach_boundary(self) -> None:
        step = self._trainer.global_step
        if step == self._last_step or self._is_inside_a_step():
            return
        self._last_step = step
        _note_place(self._session, self._trainer)
        if self._session.advance(step):
            self._callback.close()
            raise _way_out(self._trainer)

    def _is_inside_a_step(self) -> bool:
        """Between the batches whose gradients are added up."""
        done = self._trainer.fit_loop.epoch_loop.batch_progress.current.completed
        return bool(done % self._trainer.accumulate_grad_batches)


def _any_has_state(combined: Any) -> bool:  # noqa: ANN401 - lightning publishes no name for it
    return any(hasattr(loader, "state_dict") for loader in combined.flattened)


class _Batches:
    """A combined loader with the generators of the one loader in it."""

    def __init__(self, combined: Any) -> None:  # noqa: ANN401 - lightning publishes no name for it
        self._combined = combined
        loader = combined.flattened[0] if len(combined.flattened) == 1 else None
        self.generator = getattr(loader, "generator", None)
        self.sampler = getattr(loader, "sampler", None)
        self.batch_sampler = getattr(loader, "batch_sampler", None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._combined)


class _TrainerState:
    """What Lightning puts into its own checkpoints, except for the weights and the optimizers."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        state = self._trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        ours = {"state_dict", "optimizer_states"}
        # The arguments of a module are not state, and may be of any type.
        made_with = {name for name in state if "hparams" in name or "hyper_parameters" in name}
        return {name: value for name, value in state.items() if name not in ours | made_with}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        connector = self._trainer._checkpoint_connector
        connector._loaded_checkpoint = state
        connector.restore_datamodule()
        self._trainer.lightning_module.on_load_checkpoint(state)
        connector.restore_callbacks()
        connector.restore_precision_plugin_state()
        connector.restore_loops()
        connector.restore_lr_schedulers()
        connector._loaded_checkpoint = {}  # else Lightning restores it all a second time


def _note_place(session: Session, trainer: Trainer) -> None:
    session.progress.epoch = trainer.current_epoch
    session.progress.batch = trainer.fit_loop.epoch_loop.batch_progress.current.completed
    session.progress.step = trainer.global_step


def _way_out(trainer: Trainer) -> Exception:
    """The one exception that lets fit() return, of the package that the trainer is from."""
    modules = [kind.__module__ for kind in type(trainer).__mro__]
    own = next(name for name in modules if name.endswith(_TRAINER_MODULE))
    package = own.removesuffix(_TRAINER_MODULE)
    exceptions: Any = importlib.import_module(f"{package}.utilities.exceptions")
    return exceptions._TunerExitException()  # type: ignore[no-any-return] # it has no types


def _check(trainer: Trainer) -> None:
    if not _UNSHARDED & {kind.__name__ for kind in type(trainer.strategy).__mro__}:
        raise CheckpointFailed(
            f"{type(trainer.strategy).__name__} shards the model in its own way",
            fix="use Lightning's ModelCheckpoint(dirpath=job.checkpoint_dir) with it",
        )
