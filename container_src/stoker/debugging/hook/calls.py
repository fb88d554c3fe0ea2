"""Which module call is an outermost one: torch tells of each call, so we listen only outside."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle


class Visit(Protocol):
    """What happens at the end of an outermost call."""

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
    ) -> None: ...


Enter = Callable[[nn.Module], Visit | None]
"""Told of each outermost call as it begins. None: the modules inside are outermost, too."""


class Temporary:
    """A hook that is on a module for one call, or until an interruption of that is noticed.

    A copy or pickle of the module that is made in between has a hook that does nothing, and
    loading it does not need Stoker.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, *given: object) -> None:
        self._function(*given)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class OutermostCalls:
    """Listens to calls of modules by torch's public hooks.

    While an outermost call runs, the global hook is not there: the modules inside cost nothing,
    and a compiler that looks at them finds none of our code. What is put on the module itself for
    that time goes with the end of the call, so that copies and pickles of it stay clean.

    Only one thread is followed: two that train at a time would make one step of both.
    """

    def __init__(self, enter: Enter) -> None:
        self._enter = enter
        self._is_open = True
        self._global: RemovableHandle | None = None
        self._visit: Visit | None = None
        self._own: list[RemovableHandle] = []
        """On the module that is called."""
        self._number = self._depth = 0
        self._error_before = 0
        """What the script was handling when the call began; itself it would hold tensors."""
        self._thread: threading.Thread | None = None
        self._choice = threading.RLock()
        self._is_shielded = False
        self._begin_hook: Callable[..., None] = self._begin
        self._again_hook: Callable[..., None] = self._again
        self._end_hook: Callable[..., None] = self._end
        _ignore_warning_of_compile()
        self.shield()
        self._listen()

    def close(self) -> None:
        """Listens no more. Also from within a call."""
        self._is_open = False
        self._pause()
        self._clear()

    def shield(self) -> None:
        """Keeps torch's compiler out of our functions. Loading it takes long, so not before."""
        if self._is_shielded or "torch._dynamo" not in sys.modules:
            return
        self._is_shielded = True
        disable = torch.compiler.disable
        self._begin_hook = _unseen_by_compiler(self._begin)
        self._again_hook = disable(self._again)  # type: ignore[no-untyped-call]
        self._end_hook = disable(self._end)  # type: ignore[no-untyped-call]
        if self._global is not None:
            self._pause()
            self._listen()

    def is_followed(self) -> bool:
        """Whether this is the thread whose calls are reported."""
        return self._thread is threading.current_thread()

    def make_hook(self, function: Callable[..., None]) -> Temporary:
        """For a module inside, which other threads may call, too."""

        def hook(*given: object) -> None:
            if self.is_followed():
                function(*given)

        return Temporary(hook)

    def _listen(self) -> None:
        if self._is_open and self._global is None:
            self._global = register_module_forward_pre_hook(self._begin_hook)

    def _pause(self) -> None:
        if self._global is not None:
            self._global.remove()
            self._global = None

    def _clear(self) -> None:
        for handle in self._own:
            handle.remove()
        self._own.clear()

    def _begin(self, module: nn.Module, args: object) -> None:
        if torch.compiler.is_compiling():
            return
        with self._choice:
            if self.is_followed() or self._may_follow():
                self._thread = threading.current_thread()
                self._begin_here(module)

    def _begin_here(self, module: nn.Module) -> None:
        self.shield()
        self._clear()  # an error left them in the call before
        visit = self._enter(module)
        if visit is None or not self._is_open:
            return
        self._number += 1
        if isinstance(module, torch.jit.ScriptModule):
            return  # it takes no hooks, and calls nothing in Python
        self._visit, self._depth = visit, 1
        self._error_before = _current_error()
        self._pause()
        again = functools.partial(self._again_hook, self._number)
        self._own = [
            # Not run for the call that is beginning, but for those of the module within itself.
            module.register_forward_pre_hook(Temporary(again)),
            module.register_forward_hook(
                Temporary(self._end_hook), with_kwargs=True, always_call=True
            ),
        ]

    def _may_follow(self) -> bool:
        """Whether this thread may be followed from now on.

        Namely if the one before has ended, or was the main one and made no more than a trial run.
        """
        if self._thread is None:
            return True
        was_trial = self._thread is threading.main_thread() and self._number < 2
        has_left = was_trial or not self._thread.is_alive()
        return has_left and self._visit is None and not _is_inner_call()

    def _again(self, number: int, module: nn.Module, args: object) -> None:
        # One that an error left on the module is still run by the next call.
        self._depth += number == self._number and self.is_followed()

    def _end(self, module: nn.Module, args: tuple[Any, ...], *more: Any) -> None:  # noqa: ANN401
        if not self.is_followed():
            return  # it calls the same module, and may find one of our hooks half removed
        self._depth -= 1
        visit = self._visit
        if self._depth or visit is None:
            return
        # torch runs this after an error, too, and then does not bear that a hook is removed.
        if _current_error() == self._error_before:
            self._clear()
            visit(module, args, *more)
        self._visit = None
        self._listen()


def _unseen_by_compiler(begin: Callable[..., None]) -> Callable[..., None]:
    """A compiled function has no place for us, and need not be cut in pieces for it."""
    compiler = torch.compiler
    seen_by_itself = compiler.disable(begin)  # type: ignore[no-untyped-call]
    is_one_graph = compiler.assume_constant_result(_is_one_graph)  # type: ignore[no-untyped-call]

    def listener(module: nn.Module, args: object) -> None:
        if not torch.compiler.is_compiling():
            begin(module, args)
        # Compiled in place, the call of the module is in the graph: that can be cut before it.
        elif module._compiled_call_impl is not None and not is_one_graph():
            seen_by_itself(module, args)

    return listener


def _is_one_graph() -> bool:
    """Asked while the compiler works: whether its user forbids to cut the graph."""
    try:
        translator = sys.modules["torch._dynamo.symbolic_convert"].InstructionTranslator
        return bool(translator.current_tx().one_graph)
    except (KeyError, AttributeError):  # not public: another torch may not have it
        return True


def _current_error() -> int:
    return id(sys.exc_info()[1])


def _is_inner_call() -> bool:
    """Whether another module's call is below this one on the stack."""
    frame = sys._getframe()
    calls = 0
    while frame.f_back is not None:
        frame = frame.f_back
        calls += frame.f_code is nn.Module._call_impl.__code__
    return calls > 1


def _ignore_warning_of_compile() -> None:
    # It says that global hooks fire once more for a compiled module: ours do not.
    warnings.filterwarnings("ignore", message=r".*torch\.compile.* when there are global hooks")
