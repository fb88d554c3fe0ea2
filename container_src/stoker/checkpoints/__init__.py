"""Checkpoints: saved whole, in the background; resumed from the newest that is valid.

The package itself is the call of scripts, `stoker.checkpoints(job, model=…)`; see
`stoker.checkpoints.session.open_session`. `Store` looks at a folder and needs no torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.checkpoints.session import Session, open_session
    from stoker.checkpoints.store import Checkpoint, Store

__all__ = ["Checkpoint", "Session", "Store", "open_session"]

_HOMES = {"Checkpoint": "store", "Session": "session", "Store": "store", "open_session": "session"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'stoker.checkpoints' has no attribute {name!r}")
    # Only who asks for a Session pays for torch.
    return getattr(import_module(f"stoker.checkpoints.{_HOMES[name]}"), name)


class _Callable(ModuleType):
    def __call__(self, *args: object, **objects: object) -> object:
        return import_module("stoker.checkpoints.session").open_session(*args, **objects)


# One public word per idea: the same name opens a session and holds the rest.
sys.modules[__name__].__class__ = _Callable
