"""Does something once a module is imported, and nothing if it never is."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def call_after_import(name: str, action: Callable[[], None]) -> None:
    """Calls `action` right after a module was imported for the first time.

    Args:
        name: of the module, which has not been imported yet.
        action: must not raise; the import would fail.
    """
    sys.meta_path.insert(0, _Watch(name, action))


class _Watch:
    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # It may have been removed by now, but still be in a copy of the list being iterated.
        if name != self._name or self not in sys.meta_path:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(name, path, target) for finder in behind)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._tell_when_loaded(spec.loader)
        return spec

    def _tell_when_loaded(self, loader: Loader) -> None:
        load = loader.exec_module

        def load_and_tell(module: ModuleType) -> None:
            # Not before: libraries look for torch without importing it (importlib.util.find_spec).
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            load(module)
            self._action()

        # A loader belongs to the one module it was found for.
        loader.exec_module = load_and_tell  # type: ignore[method-assign] # that is the point
