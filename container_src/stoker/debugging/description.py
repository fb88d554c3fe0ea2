"""What a saved tensor is: which part of the network it comes from, and in which role."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = Literal["weight", "bias", "gradient", "input", "output", "loss", "scalar", "other"]
"""`weight` and `bias` are parameters; `input` and `output` belong to a module or to a loss."""

# The names that smdebug gives, for tensors that were saved without a description.
_KINDS_BY_NAME: tuple[tuple[str, Kind], ...] = (
    (r"^gradient/", "gradient"),
    (r"^scalar/", "scalar"),
    (r"[Ll]oss_(?!input).*output", "loss"),
    (r"_input_\d+$", "input"),
    (r"_output_\d+$", "output"),
    (r"weight", "weight"),
    (r"bias", "bias"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """One tensor, as the hook knows it. The name alone is all that smdebug's own files tell."""

    name: str
    kind: Kind = "other"
    module: str = ""
    """Qualified name of the module in its model; empty for the model itself and for losses."""
    module_class: str = ""
    """`ReLU`, `CrossEntropyLoss`, `cross_entropy`; empty where it is not known."""
    position: int = 0
    """Which of the inputs or outputs."""
    is_model: bool = False
    """It is an input or output of an outermost model."""
    is_of_loss: bool = False
    """It is an input or output of a loss: input 0 holds predictions, input 1 the labels."""
    is_frozen: bool = False
    """A parameter that does not ask for gradients: it will never change."""


def changed_values(record: DataclassInstance) -> dict[str, Any]:
    """Field → value, of those that differ from their defaults or have none: what files hold."""
    values = {each: getattr(record, each.name) for each in fields(record)}
    return {each.name: value for each, value in values.items() if value != each.default}


def describe_by_name(name: str) -> Description:
    """What smdebug's naming alone reveals."""
    found = (kind for pattern, kind in _KINDS_BY_NAME if re.search(pattern, name))
    position = re.search(r"_(?:in|out)put_(\d+)$", name)
    return Description(
        name=name,
        kind=next(found, "other"),
        position=int(position[1]) if position else 0,
        is_of_loss=bool(re.search(r"[Ll]oss_(in|out)put", name)),
    )
