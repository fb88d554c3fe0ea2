"""How a saved reduction is called, and of which tensor it is."""

from __future__ import annotations

_PREFIX = "smdebug/reductions/"
_NORMS = {"l1_norm": "l1", "l2_norm": "l2", "abs_l1_norm": "abs_l1", "abs_l2_norm": "abs_l2"}
_NORMS_BACK = {on_file: name for name, on_file in _NORMS.items()}


def reduction_name(reduction: str, tensor: str) -> str:
    """The name of its record: `smdebug/reductions/abs_mean/Net_fc.weight`.

    The norms lose their suffix there: smdebug's settings say `l2_norm`, its files `l2`.
    """
    return f"{_PREFIX}{_NORMS.get(reduction, reduction)}/{tensor}"


def parse_reduction_name(name: str) -> tuple[str, str] | None:
    """Reduction and tensor; None for the name of a tensor itself."""
    if not name.startswith(_PREFIX):
        return None
    reduction, slash, tensor = name.removeprefix(_PREFIX).partition("/")
    return (_NORMS_BACK.get(reduction, reduction), tensor) if slash else None
