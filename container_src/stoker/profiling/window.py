"""Which steps of a training are recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Place = Literal["tensorboard", "output"]

VARIABLE = "STOKER_PROFILE"
"""Asks for traces of a script that was not changed: `steps=10-13`, or `steps=10-13,to=output`.

The words `auto` and `off` are about another profile: contract.profiler."""

MOST_STEPS = 50
"""Of one trace: all events of a window are held in memory until its end."""

MOST_WINDOWS = 20
"""Of one profile: a loop that runs for days must not fill the disk."""

FIRST_SEEN_STEP = 2
"""Of an unchanged script: step 0 is over at the first sign of it, step 1 warms the profiler up."""

_PLACES: dict[str, Place] = {"tensorboard": "tensorboard", "output": "output"}
_STEPS = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?")
_EXAMPLE = f'set it like {VARIABLE}="steps=10-13" or "steps=10-13,to=output"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Steps to wait, to warm up and to record, some times over, as torch's own schedule has it."""

    wait: int = 1
    warmup: int = 1
    active: int = 3
    repeat: int = 1
    """How many traces; 0 takes as many as there are, up to `MOST_WINDOWS`."""

    skip_first: int = 0
    """Steps before all of that."""

    def first_recorded(self, step: int) -> int:
        """The first step of the trace that holds a step."""
        cycle = self.wait + self.warmup + self.active
        rounds = max(0, step - self.skip_first) // cycle
        return self.skip_first + rounds * cycle + self.wait + self.warmup

    @property
    def last_recorded(self) -> int:
        """The last step of the last trace."""
        cycle = self.wait + self.warmup + self.active
        return self.skip_first + cycle * self.repeat - 1


def make_window(*, wait: int, warmup: int, active: int, repeat: int) -> Window:
    """A window within bounds.

    Raises:
        ValueError: there are no such numbers of steps.
    """
    if min(wait, warmup, repeat) < 0 or active < 1:
        raise ValueError(
            "wait, warmup and repeat must be 0 or more and active at least 1, "
            f"but got {wait=}, {warmup=}, {active=}, {repeat=}"
        )
    return Window(
        wait=wait,
        warmup=warmup,
        active=min(active, MOST_STEPS),
        repeat=min(repeat or MOST_WINDOWS, MOST_WINDOWS),
    )


def read_request(text: str) -> tuple[Window, Place]:
    """What `STOKER_PROFILE` asks for.

    Raises:
        ConfigInvalid: the text says something else.
    """
    asked = [word for word in re.split(r"[,;\s]+", text.strip()) if word != "auto"]
    pairs = [pair.partition("=") for pair in asked]
    words = {name: value for name, _, value in pairs}
    steps = _STEPS.fullmatch(words.get("steps", ""))
    first, last = (int(steps[1]), int(steps[2] or steps[1])) if steps else (1, 0)
    if first > last or words.keys() - {"steps", "to"}:
        raise ConfigInvalid(f"{VARIABLE}={text!r} names no steps", fix=_EXAMPLE)
    place = _PLACES.get(words.get("to", "tensorboard"))
    if place is None:
        raise ConfigInvalid(f"{VARIABLE}={text!r}: `to` is {' or '.join(_PLACES)}", fix=_EXAMPLE)
    first = max(first, FIRST_SEEN_STEP)
    active = min(max(last - first + 1, 1), MOST_STEPS)
    return Window(skip_first=first - 1, wait=0, warmup=1, active=active), place
