"""What is saved of which tensors, and when: one entry for each request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.debugging.description import Description
from stoker.debugging.need import ALL, COLLECTION_KINDS, Need
from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors.collection import Schedule

LOSSES = "losses"
GRADIENTS = "gradients"
DEFAULT = "default"
"""smdebug's collection of what `include_regex` of the whole hook names."""

# smdebug's own, so that its names match ours; `inputs` and the like it has only by name.
REGEXES: dict[str, tuple[str, ...]] = {
    "weights": ("^(?!gradient).*weight",),
    "biases": ("^(?!gradient).*bias",),
    GRADIENTS: ("^gradient",),
    LOSSES: ("[Ll]oss_(?!input).*output",),
    "inputs": (r"_input_\d+$",),
    "outputs": (r"^(?!.*[Ll]oss_output).*_output_\d+$",),
    "layers": (r"_(input|output)_\d+$",),
    "scalars": ("^scalar/",),
    ALL: (".*",),
}
KNOWN_COLLECTIONS = (*COLLECTION_KINDS, ALL, DEFAULT)
# smdebug's for XGBoost. The SDK's rules for it add them to any estimator's configuration.
OF_XGBOOST = (
    *("metrics", "hyperparameters", "predictions", "labels", "feature_importance"),
    *("average_shap", "full_shap", "trees"),
)

Schedules = Mapping[Mode, Schedule]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Some tensors of one collection in one form, at some steps."""

    collection: str
    regexes: tuple[str, ...] = ()
    """Tensors whose name one of these is found in …"""
    need: Need | None = None
    """… and those a rule asks for."""
    schedules: Mapping[Mode, Schedule] = field(default_factory=dict)
    reductions: tuple[str, ...] = ()
    has_values: bool = True
    """The tensors themselves are wanted."""
    has_shapes: bool = False
    has_histogram: bool = False
    is_content_with_values: bool = False
    """The reader can compute the reductions from the values, if those are saved anyway."""

    @property
    def names_tensors(self) -> bool:
        """Not where the collection has a name and nothing else, as in XGBoost's settings."""
        return self.need is not None or bool(self.regexes)

    def matches(self, tensor: Description) -> bool:
        """Whether a tensor is one of those."""
        if self.need is not None and self.need.matches(tensor):
            return True
        return any(re.search(regex, tensor.name) for regex in self.regexes)

    def is_due(self, mode: Mode, mode_step: int) -> bool:
        """Whether it is to be saved at a step; gradients have none but in training."""
        if self.collection == GRADIENTS and mode in ("EVAL", "PREDICT"):
            return False
        schedule = self.schedules.get(mode)
        return schedule is not None and is_due(schedule, mode_step)


def is_due(schedule: Schedule, step: int) -> bool:
    """Whether a step is one of a schedule's: `save_steps` come on top of the interval."""
    if step in schedule.save_steps:
        return True
    is_within = step >= schedule.start_step and (
        schedule.end_step is None or step < schedule.end_step
    )
    return is_within and step % schedule.save_interval == 0


def with_needs(
    wanted: Sequence[Wanted], needs: Iterable[Need], default: Schedules
) -> tuple[Wanted, ...]:
    """Adds what rules need to what is configured.

    A need that names no interval follows the collection of its name, where one is configured:
    a user who sets `gradients` to every 10 steps expects rules about gradients to see those.
    """
    # Reversed, so that the first of several entries of a collection decides.
    schedules = {entry.collection: entry.schedules for entry in reversed(wanted)}
    added = [_of_need(need, schedules.get(need.collection, default)) for need in needs]
    return (*wanted, *dict.fromkeys(added))


def _of_need(need: Need, schedules: Schedules) -> Wanted:
    if need.save_interval is not None:
        schedules = dict.fromkeys(MODES, Schedule(save_interval=need.save_interval))
    return Wanted(
        collection=need.collection,
        need=need,
        schedules=_Hashable(schedules),
        reductions=need.reductions,
        has_values=not need.reductions,
        is_content_with_values=True,
    )


class _Hashable(dict[Mode, Schedule]):
    """A mapping that is never changed, so that equal needs of several rules are found."""

    def __hash__(self) -> int:  # type: ignore[override] # that is the point
        return hash(tuple(self.items()))
