"""Which tensors are wanted: declared once, for the hook that saves and the rule that reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stoker.debugging.description import Description, Kind
from stoker.errors import RuleInvalid

# smdebug's own collections, by what a tensor is instead of how it is called.
COLLECTION_KINDS: dict[str, tuple[Kind, ...]] = {
    "weights": ("weight",),
    "biases": ("bias",),
    "gradients": ("gradient",),
    "losses": ("loss",),
    "inputs": ("input",),
    "outputs": ("output",),
    "layers": ("input", "output"),
    "scalars": ("scalar",),
}
ALL = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """A set of tensors. The hook saves them as a collection; a rule gets them by its name.

    Of the ways to say which tensors, the first that is set counts: `regex`, then
    `module_classes`, `of_model` or `of_loss`, then the collection's name itself.

    Example:
        >>> Need(collection="gradients", reductions=("abs_mean",))
        >>> Need(collection="relu_output", module_classes=("ReLU",), side="output")
        >>> Need(collection="images", of_model=True, side="input", position=0)
    """

    collection: str
    """One of smdebug's (`weights`, `gradients`, `losses`, …, `all`) or a name of its own."""
    regex: str = ""
    """What the user asked for by name: tensors whose name it is found in (`re.search`)."""
    module_classes: tuple[str, ...] = ()
    of_model: bool = False
    of_loss: bool = False
    side: Literal["input", "output"] = "output"
    position: int | None = None
    """Which input or output; None means each."""
    reductions: tuple[str, ...] = ()
    """These numbers are enough (smdebug's names: `abs_mean`, `l2_norm`, …); the hook then need
    not save the tensor itself. Empty: the values are needed."""
    fallback_regex: str = ""
    """Tried by the reader where nothing matched, such as over files that smdebug wrote."""
    is_optional: bool = False
    """A rule works without it; otherwise a need that was never met is an error."""
    save_interval: int | None = None
    """Every how many steps; None leaves it to the hook's configuration."""

    @property
    def is_by_collection(self) -> bool:
        """Nothing but the collection's name says which tensors."""
        return not (self.regex or self.module_classes or self.of_model or self.of_loss)

    def matches(self, tensor: Description) -> bool:
        """Whether a tensor is one of those."""
        if self.regex:
            return re.search(self.regex, tensor.name) is not None
        if self.module_classes:
            return tensor.module_class in self.module_classes and self._is_at_side(tensor)
        if self.of_model:
            return tensor.is_model and self._is_at_side(tensor)
        if self.of_loss:
            return tensor.is_of_loss and self._is_at_side(tensor)
        if self.collection == ALL:
            return True
        return tensor.kind in COLLECTION_KINDS.get(self.collection, ())

    def _is_at_side(self, tensor: Description) -> bool:
        # The output of a loss is of the kind `loss`.
        sides = ("input",) if self.side == "input" else ("output", "loss")
        return tensor.kind in sides and self.position in (None, tensor.position)


def check_needs(needs: object) -> tuple[Need, ...]:
    """What a rule's `needs` returned: of a user's own it may be anything.

    Raises:
        RuleInvalid: something else than needs, or an expression that cannot be understood.
    """
    found = tuple(needs) if isinstance(needs, Iterable) else (needs,)
    for need in found:
        if not isinstance(need, Need):
            raise RuleInvalid(
                f"its needs() returns {need!r:.80}, but a list of Need is expected",
                fix='such as [Need(collection="losses")]; [] for a rule that needs nothing',
            )
        try:
            re.compile(need.regex)
        except re.error as error:
            raise RuleInvalid(
                f"it needs tensors named like {need.regex!r:.80}: {error}",
                fix="write a regular expression of Python's",
            ) from None
    return found
