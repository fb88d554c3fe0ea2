"""Frozen, keyword-only records: dataclasses without their start-up cost.

`import dataclasses` alone takes as long as everything else the launcher does before the user's
first line (docs/decisions/0003). Type checkers see these classes as frozen dataclasses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_):  # noqa: ANN003, ANN201 - replaces typing's, unseen by mypy
        return lambda cls: cls


# By the annotations' texts: with `from __future__ import annotations` they are nothing else.
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,)}


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """A named set of values that never changes.

    Example:
        >>> class Point(Record):
        ...     x: int
        ...     y: int = 0
        >>> Point(x=1)
        Point(x=1, y=0)
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _unshown: ClassVar[tuple[str, ...]] = ()
    """Fields that `repr` leaves out: they may hold secrets, and reprs end up in logs."""

    def __init_subclass__(cls) -> None:
        annotations = vars(cls).get("__annotations__", {})
        own = (name for name in annotations if not name.startswith("_"))
        cls._fields = (*cls._fields, *own)

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - each field has its own type
        cls = type(self)
        missing = [n for n in cls._fields if n not in values and not hasattr(cls, n)]
        unknown = [n for n in values if n not in cls._fields]
        if missing or unknown:
            raise TypeError(f"{cls.__name__}: {missing=} {unknown=}")
        for name in cls._fields:
            value = values[name] if name in values else getattr(cls, name)
            # Past our own __setattr__. A default belongs to the class, and becomes the object's
            # here, so that __dict__ has all fields: equality, replace() and the JSON files rely on
            # it.
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make a new one with replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        shown = [name for name in self._fields if name not in self._unshown]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"

    @classmethod
    def read(cls, fields: Any) -> Self:  # noqa: ANN401 - whatever was in a file
        """A record of what another process wrote, for fields that are texts and numbers.

        Raises:
            TypeError: other names than ours, or a value of another type than its field's.
        """
        record = cls(**fields)
        for name, kind in cls.__annotations__.items():
            value = getattr(record, name)
            # True is an int for Python, but not a step number.
            is_flag = isinstance(value, bool)
            if not isinstance(value, _KINDS.get(kind, str)) or is_flag != (kind == "bool"):
                raise TypeError(f"{cls.__name__}: {name} is {value!r:.80}, expected {kind}")
        return record

    def replace(self, **changes: object) -> Self:
        """Returns a copy with some values changed."""
        return type(self)(**{**self.__dict__, **changes})
