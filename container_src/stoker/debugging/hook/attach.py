"""Attaches the hook to this process."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch
from torch import distributed

from stoker.contract.process_end import Stage, at_end, finish_in_child
from stoker.debugging.hook.capture import Capture
from stoker.debugging.hook.config import HookConfig
from stoker.debugging.hook.recorder import Sink, TensorRecorder
from stoker.debugging.need import Need
from stoker.debugging.tensors.background import END_SECONDS
from stoker.debugging.tensors.end_marker import Claim, mark_end, unmark_end


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where the hook runs, as far as torch does not tell."""

    rank: int = 0
    ranks: int = 1
    checkpoint_dir: str | None = None
    """Where the count of steps is kept for a resumed run; None: nowhere."""
    is_job: bool = False
    """A training job: the launcher marks its end, and not the hook."""


def attach(
    config: HookConfig,
    folder: str | os.PathLike[str],
    *,
    needs: Sequence[Need] = (),
    place: Place | None = None,
    sink: Sink | None = None,
) -> Hook:
    """Saves tensors of all models that this process trains from now on.

    Args:
        config: what to save, and when.
        folder: where to; smdebug's readers and `stoker tensors` read it.
        needs: what rules want in addition.
        place: which of several processes this is, and the like.
        sink: gets the same steps.

    Example:
        >>> with attach(default_config("gradients", every=10), "tensors"):
        ...     train(model)
    """
    hook = Hook(config, os.fspath(folder), needs, place or Place(), sink)
    # Scripts that train load it anyway: their first optimizer does.
    importlib.import_module("torch._dynamo")
    hook.shield()
    return hook


class Hook:
    """Is there until it is closed, or the process ends. Never raises into the training."""

    def __init__(
        self,
        config: HookConfig,
        folder: str,
        needs: Sequence[Need],
        place: Place,
        sink: Sink | None,
    ) -> None:
        # The script may change its working folder before the first step, or between two.
        self._config, self._folder = config, os.path.abspath(folder)
        self._needs, self._place, self._sink = needs, place, sink
        self._recorder: TensorRecorder | None = None
        self._claim: Claim | None = None
        self._is_closed = False
        self._wait: Callable[[], object] = _nothing
        """Where the hook has given up: for what was handed over before."""
        self.capture = Capture(self._start, guard=self._guarded)
        at_end(self.close, forget=self._forget, stage=Stage.SOURCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, timeout_seconds: float = END_SECONDS) -> None:
        """Ends the last step, writes all that is left within a bound and takes the hook off."""
        if self._is_closed:
            self._wait()
            return
        self._take_off()
        if self._recorder is not None:
            try:
                self._recorder.close(timeout_seconds)
                self._leave_folder(is_end=not self._recorder.has_failed)
            except Exception as error:  # a full disk, say: the training has succeeded anyway
                _warn(f"the last tensors are not saved: {error}")
        if self._claim is not None:
            self._claim.release()

    def shield(self) -> None:
        """Called once torch's compiler is loaded, which must not look into the hook."""
        if not self._is_closed:
            self.capture.calls.shield()

    def flush(self) -> None:
        """Waits until all steps that have ended are on file."""
        if self._recorder is not None:
            self._recorder.flush()

    def _take_off(self) -> None:
        self._is_closed = True
        self.capture.close()

    def _give_up(self, *, is_end: bool) -> None:
        """Removes the hook during the training, which does not wait for the last writes.

        Args:
            is_end: no other process will save in the folder, as far as we know.
        """
        self._take_off()
        recorder, self._recorder = self._recorder, None  # its memory goes with it
        if recorder is not None:
            self._wait = recorder.leave(lambda: self._leave_folder(is_end=is_end))
        elif self._claim is not None:
            self._claim.release()

    def _leave_folder(self, *, is_end: bool) -> None:
        try:
            if is_end:
                mark_end(self._folder, is_job=self._place.is_job)
        finally:
            if self._claim is not None:
                self._claim.release()

    def _start(self) -> TensorRecorder | None:
        """Before each step: who saves it. None also takes the hook off."""
        if _has_smdebug_hook():
            _warn(
                "the script has a hook of smdebug: Stoker's is off, so that nothing is saved twice"
            )
            if self._recorder is not None:
                self._recorder.end_step()
            self._give_up(is_end=False)
        elif self._recorder is None:
            self._recorder = self._make_recorder()
            if self._recorder is None:
                self._give_up(is_end=False)
        elif self._recorder.has_failed:
            _warn("the debugger's hook is off now; the training continues")
            self._give_up(is_end=False)
        return self._recorder

    def _make_recorder(self) -> TensorRecorder | None:
        """Now and not before: a process may import torch and never train."""
        rank, ranks = self._place.rank, self._place.ranks
        if distributed.is_available() and distributed.is_initialized():
            rank, ranks = distributed.get_rank(), distributed.get_world_size()
        is_one_of_many = rank > 0 and self._config.include_workers == "one"
        # A DataLoader's worker may call a model, too, but does not train it.
        if is_one_of_many or torch.utils.data.get_worker_info() is not None:
            return None
        worker = f"worker_{rank}"
        if not self._claim_folder(worker):
            return None
        recorder = TensorRecorder(
            self._config,
            self._folder,
            needs=self._needs,
            worker=worker,
            workers=ranks if self._config.include_workers == "all" else 1,
            checkpoint_dir=self._place.checkpoint_dir,
            is_first=rank == 0,
            sink=self._sink,
            warn=_warn,
        )
        finish_in_child()
        return recorder

    def _claim_folder(self, worker: str) -> bool:
        try:
            self._claim = Claim(self._folder, worker)
            unmark_end(self._folder, is_job=self._place.is_job)
        except OSError as error:
            _warn(
                f"tensors cannot be saved in {self._folder}: {error.strerror};"
                " the debugger's hook is off now"
            )
            return False
        if not self._claim.is_ours:
            self._claim.forget()
            _warn(f"another process saves its tensors in {self._folder}: this one saves none")
        return self._claim.is_ours

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own
            if self._is_closed:
                return None
            try:
                return function(*args, **kwargs)
            except Exception as error:  # saved tensors are never worth a training
                _warn(
                    "the debugger's hook has failed and is off now; the training continues:"
                    f" {type(error).__name__}: {error}"
                )
                self._give_up(is_end=True)
                return None
            except BaseException:
                # A signal handler of the script's ends it here, in the middle of a copy.
                if self._recorder is not None:
                    self._recorder.drop_step()
                raise

        return guarded

    def _forget(self) -> None:
        """In a forked child: what was begun is the parent's; else the child may be the one."""
        if self._claim is not None:
            self._claim.forget()
        if self._recorder is not None and not self._is_closed:
            self._take_off()


def _nothing() -> None:
    """There is nothing to wait for."""


def _has_smdebug_hook() -> bool:
    """Whether the script made one: smdebug keeps the last here."""
    module = sys.modules.get("smdebug.core.singleton_utils")
    return module is not None and getattr(module, "_ts_hook", None) is not None


def _warn(text: str) -> None:
    print(f"[stoker] warning: {text}", file=sys.stderr, flush=True)
