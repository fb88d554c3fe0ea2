"""NumPy, loaded when a rule first uses it.

Rules are imported to list and explain them, by people who wait for the answer; only evaluating one
needs NumPy, whose import takes longer than all their others.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["np"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy as np
else:

    class _NumPy:
        def __getattr__(self, name: str) -> object:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)  # the next use finds it here
            return value

    np = _NumPy()
