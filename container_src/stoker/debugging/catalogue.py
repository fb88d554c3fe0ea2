"""A table of rules by name, whose modules are imported only when a rule is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

_Class = TypeVar("_Class", bound=type)


class Catalogue(Mapping[str, _Class], Generic[_Class]):
    """Name of a class → the class.

    Rules import NumPy and more; `stoker rules ls` and the checks of specs need names only.
    """

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        """Args:
        package: the one that holds the modules.
        modules: name of a class → module of the package.
        """
        self._package = package
        self._modules = modules

    def __getitem__(self, name: str) -> _Class:
        module = import_module(f"{self._package}.{self._modules[name]}")
        found: _Class = getattr(module, name)
        return found

    # Mapping's own would look the class up, and so import its module.
    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
