"""Lets the SageMaker SDKs find the platform's role, in every Python that the shell starts.

`stoker local env` puts this folder first into PYTHONPATH. `get_execution_role()` of both SDKs asks
a fixed address of AWS, unless a file says that this is a notebook instance: then the instance's
role is asked for by the session's own client. So the SDKs are shown such a file. A session with
the platform gets the platform's role; AWS does not know the instance, and the SDK continues as if
there were no file. Nothing outside of this process is changed.

Standard library only, and old syntax: it runs in the user's Python, where Stoker need not be.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_VARIABLE = "STOKER_NOTEBOOK_METADATA"
_MODULES = ("sagemaker.session", "sagemaker.core.helper.session_helper")  # SDK v2, SDK v3
_CONSTANT = "NOTEBOOK_METADATA_FILE"


def show_metadata_file(file: str) -> None:
    """Name the file to the SDKs, loaded already or later."""
    for name in _MODULES:
        if name in sys.modules:
            setattr(sys.modules[name], _CONSTANT, file)
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if type(finder).__name__ != "_SdkFinder"
    ]
    sys.meta_path.insert(0, _SdkFinder(file))


class _SdkFinder:
    """Finds the two modules as they would be found anyway, and sets the constant in them."""

    def __init__(self, file: str) -> None:
        self._file = file

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _MODULES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_set(module: ModuleType) -> None:
                run(module)
                setattr(module, _CONSTANT, self._file)

            spec.loader.exec_module = run_and_set  # type: ignore[method-assign]
        return spec


def _import_the_next() -> None:
    """The sitecustomize that would have been imported if this one were not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    mine = sys.modules.pop(__name__)
    try:
        import_module(__name__)
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules[__name__] = mine


if __name__ == "sitecustomize":
    _file = os.environ.get(_VARIABLE)  # noqa: TID251 - Stoker's own reading need not be here
    if _file:
        show_metadata_file(_file)
    _import_the_next()
