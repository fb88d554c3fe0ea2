"""From steps to files: counts them, opens those that are saved, and hands them to the writer."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stoker.debugging.description import Description
from stoker.debugging.hook.arena import Pool
from stoker.debugging.hook.config import HookConfig
from stoker.debugging.hook.forms import Table
from stoker.debugging.hook.open_step import OpenStep
from stoker.debugging.hook.resume import (
    CheckpointWatch,
    Counts,
    read_counts,
    read_saved_counts,
)
from stoker.debugging.hook.wanted import (
    KNOWN_COLLECTIONS,
    LOSSES,
    OF_XGBOOST,
    Wanted,
    with_needs,
)
from stoker.debugging.need import Need
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.background import END_SECONDS, BackgroundWriter
from stoker.debugging.tensors.collection import write_collections
from stoker.debugging.tensors.folder_notes import read_descriptions, write_descriptions
from stoker.debugging.tensors.step_file import SavedStep

_NO_BOUND_BYTES = 1 << 62
"""The writer's queue: the pool of arenas is the bound."""


class Sink(Protocol):
    """Someone else who gets what is saved, such as TensorBoard. Called by the writer's thread."""

    def write(
        self, step: SavedStep, losses: Sequence[str], histograms: Mapping[str, Sequence[str]]
    ) -> None:
        """
        Args:
            step: its arrays are gone afterwards.
            losses: the tensors among them that are one.
            histograms: tensors that want one → the collections they want it for.
        """


class TensorRecorder:
    """Saves what is due, for one worker."""

    def __init__(
        self,
        config: HookConfig,
        folder: str,
        *,
        needs: Iterable[Need] = (),
        worker: str = "worker_0",
        workers: int = 1,
        checkpoint_dir: str | None = None,
        is_first: bool = True,
        sink: Sink | None = None,
        warn: Callable[[str], None],
    ) -> None:
        self._folder, self._worker, self._workers = folder, worker, workers
        self._table = Table(with_needs(config.wanted, needs, config.schedules))
        self._when_full, self._limit_bytes = config.when_full, config.limit_bytes
        self._pool = Pool(config.limit_bytes, config.when_full)
        self._sink = sink
        self._warn = warn
        self._said: set[str] = set()
        for text in (*config.warnings, *map(_words_for_nameless, self._table.nameless())):
            warn(text)
        self._dropped = 0
        self._descriptions: dict[str, Description] = {}
        self._writer = BackgroundWriter(folder, worker, limit_bytes=_NO_BOUND_BYTES, report=warn)
        counts = read_counts(checkpoint_dir) if checkpoint_dir else Counts()
        if counts.step < 0:
            counts = self._go_on()
        # All workers continue from the same step; one of them keeps the count.
        self._checkpoints = (
            CheckpointWatch(checkpoint_dir) if checkpoint_dir and is_first else None
        )
        self._run = counts.run
        self.step = counts.step
        """The global one, over all modes."""
        self.mode_steps = dict(counts.mode_steps)
        self.last_saved_step = counts.last_saved_step
        self.open: OpenStep | None = None
        """The step that runs now, if it is saved."""

    @property
    def has_failed(self) -> bool:
        """Files cannot be written: saving more is pointless."""
        return self._writer.has_failed

    def _go_on(self) -> Counts:
        """A script may train in one process and again in another: steps of both are kept."""
        counts = read_saved_counts(self._folder, self._worker)
        if counts.step >= 0:
            self._warn(
                f"{self._folder} has steps of an earlier process, up to {counts.step}: those of"
                " this one are counted on from there"
            )
            for tensor in read_descriptions(self._folder, self._worker):
                self._table.enlist(tensor)
                self._descriptions[tensor.name] = tensor
        return counts

    def next_step(self, mode: Mode) -> OpenStep | None:
        """Ends the step before and begins one."""
        self.end_step()
        self._note_checkpoints()
        # Every step counts, saved or not, so that numbers agree with smdebug's and over a resume.
        self.step += 1
        mode_step = self.mode_steps[mode] = self.mode_steps.get(mode, -1) + 1
        forms = self._table.due(mode, mode_step)
        if forms is None:
            return None
        arena = self._pool.take(forms.size_bytes)
        if self._pool.waited:
            self._say_full()
        if arena is None:
            self._dropped += 1
            return None
        self.open = OpenStep(
            self.step, mode, mode_step, forms, arena, limit_bytes=self._limit_bytes
        )
        return self.open

    def end_step(self) -> None:
        """Hands the open step over, if there is one."""
        step, self.open = self.open, None
        if step is None:
            return
        step.end()
        # For the pool, when the same is due again: it then hands out an arena that fits.
        step.forms.size_bytes = max(step.forms.size_bytes, step.arena.used_bytes)
        if step.is_cut:
            self._say_cut(step.step)
        self.last_saved_step = step.step
        self._enlist(step.described)

        def make() -> SavedStep:
            made = step.make()
            self._show(made, step)
            return made

        self._writer.write(
            make,
            size_bytes=step.arena.size_bytes,
            on_done=lambda: self._pool.give_back(step.arena),
        )

    def drop_step(self) -> None:
        """Forgets the open step: what it holds may be half of it."""
        step, self.open = self.open, None
        if step is not None:
            self._pool.give_back(step.arena)

    def _show(self, made: SavedStep, step: OpenStep) -> None:
        if self._sink is None:
            return
        losses = [name for name, of in step.described.items() if of.kind == "loss"]
        try:
            self._sink.write(made, losses, step.histograms)
        except Exception as error:  # another folder, perhaps another disk: tensors are saved still
            self._sink = None
            self._warn(f"TensorBoard gets none of the saved tensors any more: {error}")

    def flush(self) -> None:
        """Waits for the writer."""
        self._writer.flush()

    def leave(self, then: Callable[[], None]) -> Callable[[], object]:
        """Saves nothing more. What was handed over is still written, without waiting for it.

        Args:
            then: done afterwards, by the writer's thread.

        Returns:
            What waits for all that.
        """
        self.drop_step()
        self._writer.end(then)
        return self._writer.close

    def close(self, timeout_seconds: float = END_SECONDS) -> None:
        """Writes all that is left, within a bound, and says what was never seen."""
        self.end_step()
        self._note_checkpoints(is_last=True)
        self._writer.close(timeout_seconds)
        if self._dropped:
            self._warn(f"{self._dropped} steps were not saved: the disk was too slow for them")
        for wanted in self._table.unmet():
            self._warn(_words_for_unmet(wanted))

    def _note_checkpoints(self, *, is_last: bool = False) -> None:
        checkpoints = self._checkpoints  # the writer's thread may give it up just now
        if checkpoints is None:
            return
        write = checkpoints.note(self._counts, is_last=is_last)
        if write is not None:
            self._writer.run(lambda: self._keep_counts(write))

    def _keep_counts(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:  # of the checkpoints' disk: the tensors may have another
            self._checkpoints = None
            self._warn(f"a resumed run will not know its step: {error.strerror}")

    def _counts(self) -> Counts:
        return Counts(
            step=self.step,
            mode_steps=self.mode_steps,
            last_saved_step=self.last_saved_step,
            run=self._run,
        )

    def _enlist(self, described: Mapping[str, Description]) -> None:
        new = {n: d for n, d in described.items() if self._descriptions.get(n) != d}
        if not new and self._descriptions:
            return
        for name, description in new.items():
            if name not in self._descriptions:
                self._table.enlist(description)
        self._descriptions |= new
        collections, descriptions = self._table.collections(), list(self._descriptions.values())

        def write() -> None:
            write_collections(self._folder, self._worker, collections, num_workers=self._workers)
            write_descriptions(self._folder, self._worker, descriptions)

        self._writer.run(write)

    def _say_full(self) -> None:
        does = "training waits for it" if self._when_full == "wait" else "steps are left out"
        self._say_once(
            "full",
            f"tensors come faster than {self._folder} takes them: {does}; save fewer tensors,"
            " less often, or their reductions",
        )

    def _say_cut(self, step: int) -> None:
        self._say_once(
            "cut",
            f"step {step} has more inputs and outputs than the {self._limit_bytes >> 20} MiB that"
            " one may take: the rest of them is left out; save fewer of them, or allow for more"
            " by STOKER_DEBUG=memory=4GB",
        )

    def _say_once(self, topic: str, text: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            self._warn(text)


def _words_for_unmet(wanted: Wanted) -> str:
    if wanted.collection == LOSSES:
        return (
            "no loss was saved: it is neither a module nor a function of torch.nn.functional; "
            "call one of those, or save its parts by include_regex"
        )
    what = f"matches {' or '.join(wanted.regexes)}" if wanted.regexes else "is what a rule needs"
    return (
        f"collection {wanted.collection} is empty: no tensor {what}; "
        "save_all=true (or STOKER_DEBUG=collections=all) for one step shows all names"
    )


def _words_for_nameless(collection: str) -> str:
    if collection in OF_XGBOOST:
        return f"collection {collection} stays empty: it is for XGBoost, and this is PyTorch"
    near = difflib.get_close_matches(collection, KNOWN_COLLECTIONS, n=1)
    hint = f"did you mean {near[0]}?" if near else "give it an include_regex"
    return f"collection {collection} stays empty, for it names no tensors: {hint}"
