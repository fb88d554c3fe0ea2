# An extra: where it is not installed, mypy knows nothing of it.
# mypy: disable-error-code="import-not-found, import-untyped, misc"
"""Keras 3: a callback that saves and resumes through Stoker's checkpoints.

Works with TensorFlow and with torch as Keras's backend, and needs no torch with TensorFlow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

import keras
import numpy as np

from stoker.checkpoints.arrays import Array, read_arrays, write_arrays
from stoker.checkpoints.group import Group
from stoker.checkpoints.interval import MEAN_HOURS_BETWEEN_INTERRUPTIONS, Schedule
from stoker.checkpoints.log import say, warn
from stoker.checkpoints.manifest import Manifest, Metric
from stoker.checkpoints.progress import Progress, differences, is_better, make_config
from stoker.checkpoints.stopping import Stopping
from stoker.checkpoints.store import Checkpoint, Store
from stoker.contract.files import now_text
from stoker.contract.job import Job
from stoker.errors import CheckpointFailed, CheckpointMismatch

# Their fit() calls model.train_function(data) for each batch. JAX's hands its state through it as
# well: there an epoch is started over.
_SKIPPING_BACKENDS = ("tensorflow", "torch")
# Without "metrics": their variables are made late, and are put back by _SkippingFunction.
_STRICT = ("model", "optimizer")


class StokerCheckpoints(keras.callbacks.Callback):
    """Resumes from the newest valid checkpoint, saves in the background, leaves on SIGTERM.

    `fit` returns as usual when a signal or a rule has stopped it; `stopped` tells. One object is
    for one `fit`: give a second one a folder of its own.

    Args:
        job: from `stoker.job()`.
        steps: save after each so many batches.
        minutes: save after so much time; "auto" weighs a save against an interruption.
        mean_hours: for "auto": the time between interruptions that is assumed.
        monitor: a logged metric, such as "val_loss"; the best model by it is kept, too.
        mode: whether more of it is better, or less.
        folder: instead of the job's own, which is synced with S3.
        keep: how many of the newest checkpoints to keep, in addition to the best.
        resume: False starts from scratch, whatever is there.
        if_changed: what to do about a checkpoint of other hyperparameters.

    Example:
        >>> checkpoints = StokerCheckpoints(stoker.job(), monitor="val_loss")
        >>> model.fit(x, y, epochs=10, callbacks=[checkpoints])
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
        folder: str | None = None,
        keep: int = 3,
        resume: bool = True,
        if_changed: Literal["warn", "refuse"] = "warn",
    ) -> None:
        super().__init__()
        self.stopped = False
        """Whether the last fit was left early, for a signal or a rule."""
        self.store = Store(folder or job.checkpoint_dir)
        self._job = job
        self._schedule = Schedule(steps=steps, minutes=minutes, mean_hours=mean_hours)
        self._monitor, self._mode = monitor, mode
        self._keep, self._resume, self._if_changed = keep, resume, if_changed
        self._config = make_config(job.hyperparameters.user())
        # Each host has the same state: the leader's is saved, and all hosts read it.
        self._is_leader = job.cluster.current_host == job.leader
        self._progress = Progress()
        self._epoch_random: Array | None = None
        self._saved_place: tuple[int, int, int] | None = None
        self._checkpoint_step = -1
        self._metrics: list[Array] = []
        self._random: dict[str, Array] = {}
        """Of a checkpoint that is being taken up: "epoch" as it was begun, and "now"."""

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ANN401 - Keras's own
        """Restores everything. The optimizer is built here where fit has not built it yet."""
        model = self.model
        if not model.built:
            raise CheckpointFailed(
                f"the model {model.name} has no weights yet, so none can be restored",
                fix="begin it with keras.Input(shape), or call model.build(input_shape) before "
                "fit()",
            )
        if not model.optimizer.built:
            # Its variables exist only from here on, and a checkpoint has values for them.
            model.optimizer.build(model.trainable_variables)
        self.stopped = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stoker-checkpoint")
        self._pending: Future[tuple[int, float]] | None = None
        self._stopping = Stopping(self._job, Group())
        swept = self.store.sweep() if self._is_leader else []
        if swept:
            say(f"removed {len(swept)} half-written checkpoint{'s' * (len(swept) > 1)}")
        newest = self.store.newest() if self._resume else None
        if newest is not None:
            self._take_up(newest)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401
        """Puts the sums of this epoch's metrics back, which Keras has just set to zero."""
        self._progress.epoch = epoch
        random, self._random = self._random, {}
        # The order of this epoch's batches is drawn after this.
        _restore_random(random.get("epoch" if self._progress.batch else "now"))
        self._epoch_random = _read_random()
        if self._progress.batch:
            self.model.train_function = _SkippingFunction(
                self.model, self._progress.batch, self._metrics, random.get("now")
            )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401
        """The boundary between two steps: saves if it is due, and leaves if asked to."""
        before = self._progress.batch
        if batch < before:  # one of those that were done before the interruption
            return
        self._progress.batch = batch + 1
        self._progress.step += batch + 1 - before
        if self._pending is not None and self._pending.done():
            self._flush()
        is_time, is_stop = self._stopping.agree(self._schedule.is_time)
        if is_stop:
            self._save()
            self._flush()
            self.stopped = self.model.stop_training = True
        elif is_time or self._schedule.is_due_at(self._progress.step):
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401
        """Counts the epoch, and saves it if it is the best so far."""
        if self.stopped:  # in the middle: the checkpoint of the last batch continues from there
            return
        self._progress.epoch, self._progress.batch = epoch + 1, 0
        if self._monitor is None:
            return
        if self._monitor not in (logs or {}):
            raise CheckpointFailed(
                f"monitor={self._monitor!r} was not logged, but these were: "
                f"{', '.join(logs or {}) or 'none'}",
                fix="pass validation_data= to fit() for val_… metrics, or watch another",
            )
        value = float(logs[self._monitor])
        if is_better(value, self._progress.best, self._mode):
            self._progress.best = value
            self._save(Metric(value=value, mode=self._mode, is_best=True))

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ANN401
        """Saves the end, so that an interruption from here on repeats nothing."""
        self.model._initial_epoch = None  # a second fit begins where it says
        try:
            self._save()
            self._flush()
        finally:
            self._thread.shutdown()
            if self.stopped:
                self._stopping.leave(self._progress.step, checkpoint=self._checkpoint_step)
            self._stopping.rest()

    def _save(self, metric: Metric | None = None) -> None:
        self._flush()
        if not self._is_leader or (self._saved_place == self._progress.place and metric is None):
            return
        progress = self._progress
        about = Manifest(
            step=progress.step,
            epoch=progress.epoch,
            batch=progress.batch,
            world_size=1,
            shards=(),
            checksum="",
            parts=("model", "optimizer", "metrics"),
            metric=metric,
            config=self._config,
            job=self._job.name,
            saved_at=now_text(),
        )
        # A copy: training continues while it is written.
        arrays = {name: np.array(_read(variable)) for name, variable in _variables(self.model)}
        for name, state in (("epoch", self._epoch_random), ("now", _read_random())):
            arrays |= {f"random.00000.{name}": state} if state is not None else {}
        self._pending = self._thread.submit(self._write, arrays, progress.to_json(), about)
        self._saved_place = progress.place
        self._schedule.saved()

    def _write(
        self, arrays: dict[str, Array], loop: dict[str, Any], about: Manifest
    ) -> tuple[int, float]:
        started = time.monotonic()
        write_arrays(self.store, arrays, {"loop": loop}, about, keep=self._keep)
        return about.step, time.monotonic() - started

    def _flush(self) -> None:
        """Waits for what is being written. Raises CheckpointFailed: it went wrong."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._checkpoint_step, seconds = pending.result()
            if told := self._schedule.learn(seconds):
                say(told)

    def _take_up(self, checkpoint: Checkpoint) -> None:
        arrays, state = read_arrays(checkpoint)
        about = checkpoint.manifest
        if changed := differences(about.config if about else {}, self._config):
            text = (
                f"checkpoint {checkpoint.name} is of other hyperparameters: {', '.join(changed)}"
            )
            if self._if_changed == "refuse":
                raise CheckpointMismatch(
                    text, fix='use another checkpoint_s3_uri, or if_changed="warn" to continue'
                )
            warn(text)
        _assign(self.model, arrays, checkpoint.name)
        progress = self._progress
        progress.continue_from(state["loop"], world_size=1)
        # Private, but Keras's own BackupAndRestore sets it, too: fit() has no other way in.
        self.model._initial_epoch = progress.epoch
        self._random = {
            name.rpartition(".")[2]: array
            for name, array in arrays.items()
            if name.startswith("random.")
        }
        if progress.batch and keras.backend.backend() in _SKIPPING_BACKENDS:
            metrics = sorted(name for name in arrays if name.startswith("metrics."))
            self._metrics = [arrays[name] for name in metrics]
        else:
            progress.batch = 0
        self._checkpoint_step, self._saved_place = progress.step, progress.place
        say(f"resumed from step {progress.step} ({checkpoint.name})")


class _SkippingFunction:
    """Takes the batches of an epoch that are done, without training, then trains as before."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - keras has no types
        done: int,
        metrics: list[Array],
        random: Array | None,
    ) -> None:
        self._model = model
        self._left = done
        self._metrics = metrics
        self._random = random
        self._train: Any = model.train_function

    def __call__(self, data: Any) -> Any:  # noqa: ANN401 - an iterator, or a list of batches
        if self._left <= 0:
            self._model.train_function = self._train
            _restore_random(self._random)
            return self._train(data)
        for _ in range(self._model.steps_per_execution):
            # TensorFlow's loop hands an iterator over, torch's the batches themselves.
            batch = next(data) if keras.backend.backend() == "tensorflow" else data[0]
            self._left -= 1
        self._restore_metrics(batch)
        return self._model.get_metrics_result()

    def _restore_metrics(self, batch: Any) -> None:  # noqa: ANN401
        # TensorFlow's trainer makes metrics when it first trains: now they are needed before.
        if len(self._model.metrics_variables) < len(self._metrics):
            self._model._symbolic_build(data_batch=batch)
        for variable, value in zip(self._model.metrics_variables, self._metrics, strict=False):
            variable.assign(value)
        self._metrics = []


def _read_random() -> Array | None:
    """torch's generator, which its backend draws from; TensorFlow's seeds are variables."""
    if keras.backend.backend() != "torch":
        return None
    import torch

    state: Array = torch.get_rng_state().numpy()
    return state


def _restore_random(state: Array | None) -> None:
    if state is not None and keras.backend.backend() == "torch":
        import torch

        torch.set_rng_state(torch.from_numpy(state.copy()))


def _variables(model: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - keras has no types
    """All that changes while a model is trained, under names a person can read."""
    metrics = {id(variable) for variable in model.metrics_variables}
    own = [variable for variable in model.variables if id(variable) not in metrics]
    for part, variables in (
        ("model", own),
        ("optimizer", model.optimizer.variables),
        ("metrics", model.metrics_variables),
    ):
        for number, variable in enumerate(variables):
            yield f"{part}.{number:05d}.{variable.path}", variable


def _read(variable: Any) -> Array:  # noqa: ANN401
    value: Array = keras.ops.convert_to_numpy(variable)
    return value


def _assign(model: Any, arrays: dict[str, Array], name: str) -> None:  # noqa: ANN401
    """Raises CheckpointMismatch: the checkpoint is of another model."""
    now = {key: var for key, var in _numbered(_variables(model)) if key[0] in _STRICT}
    saved = {key: value for key, value in _numbered(arrays.items()) if key[0] in _STRICT}
    wrong = [key for key in now if key not in saved or saved[key].shape != tuple(now[key].shape)]
    if wrong or len(now) != len(saved):
        part = wrong[0][0] if wrong else "optimizer"
        detail = f"{len(saved)} variables are saved, and there are {len(now)} now"
        if wrong and wrong[0] in saved:
            variable = now[wrong[0]]
            detail = f"{variable.path} was {saved[wrong[0]].shape}, and is {tuple(variable.shape)}"
        raise CheckpointMismatch(
            f"checkpoint {name} does not fit the {part}: {detail}",
            fix="the code has changed since it was saved: use another checkpoint folder, or "
            "StokerCheckpoints(…, resume=False) to start over",
        )
    for key, variable in now.items():
        variable.assign(saved[key])


def _numbered(named: Any) -> Iterator[tuple[tuple[str, int], Any]]:  # noqa: ANN401
    # By number: the paths of layers have counters that differ when a model is made twice.
    for name, value in named:
        part, number, _ = name.split(".", 2)
        yield (part, int(number)), value
