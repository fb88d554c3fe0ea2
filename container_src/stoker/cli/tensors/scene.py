"""All that the 3-D view shows: which tensors, which steps, and how much of them fits a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stoker.cli.tensors.listing import choose_names, show_shape
from stoker.cli.tensors.planes import Planes, Sample, cut_planes, quantise, read_sample, shrink
from stoker.cli.tensors.series import show_kind
from stoker.debugging.description import Description
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors import SavedTensors, Tensor
from stoker.debugging.thinning import thin
from stoker.errors import TensorsUnreadable
from stoker.machine.failures import UsageRefused
from stoker.machine.units import show_size

MOST_TENSORS = 32
MOST_PLANES = 64
"""Of a tensor."""
MOST_BYTES = 3 << 20
"""Of all levels together; in base64 a third more."""
_SIDES = (64, 48, 32, 24, 16, 12, 8, 4)
"""Pictures become as small as it takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """One tensor over all frames."""

    name: str
    about: str
    role: Role
    frames: tuple[Planes | None, ...]
    """None where it was not saved, or has another shape there."""
    texts: tuple[str, ...] = ()
    """Of a prediction of classes, one a frame."""
    plane_count: int
    """Of the tensor; those drawn may be fewer."""
    size: tuple[int, int]
    """Height and width, before it was made smaller."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What the page gets."""

    actors: tuple[Actor, ...]
    steps: tuple[int, ...]
    mode: str
    sample: Sample
    has_ended: bool
    notes: tuple[str, ...]
    """What was left out, and why."""


def make_scene(
    saved: SavedTensors,
    *,
    regex: str,
    label_regex: str,
    prediction_regex: str,
    sample: str,
    most_steps: int,
    mode: Mode | None,
) -> Scene:
    """Reads the tensors and makes them fit.

    Raises:
        UsageRefused: nothing is to be shown.
    """
    which = read_sample(sample)
    if most_steps < 1:
        raise UsageRefused(f"--steps {most_steps} shows nothing", fix="--steps 10")
    if mode is None and saved.steps("TRAIN"):
        mode = "TRAIN"  # a batch of the evaluation in between would only flicker
    roles = choose_roles(saved, regex, label_regex, prediction_regex)
    casting = _Casting(saved, roles, which)
    casting.read(mode, most_steps)
    if not casting.drafts:
        raise UsageRefused(
            f"of the {len(roles)} tensors that match, no values can be shown",
            fix="the collection has to save values (save_raw_tensor), and the sample has to exist;"
            " `stoker tensors ls` shows shapes",
        )
    return casting.finish(mode)


class _Draft:
    def __init__(self, planes: NDArray[Any], frames: int) -> None:
        self.shape = planes.shape
        self.about = ""
        self.frames: list[NDArray[Any] | None] = [None] * frames
        self.texts = [""] * frames


class _Casting:
    """Collects the frames of every tensor, then makes them fit."""

    def __init__(self, saved: SavedTensors, roles: dict[str, Role], sample: Sample) -> None:
        self._saved, self._sample = saved, sample
        self._roles = dict(list(roles.items())[:MOST_TENSORS])
        self.drafts: dict[str, _Draft] = {}
        self.steps: list[int] = []
        self.notes: list[str] = []
        if len(roles) > MOST_TENSORS:
            left_out = len(roles) - MOST_TENSORS
            self.notes.append(
                f"{left_out:,} of {len(roles):,} tensors are left out: a page shows"
                f" {MOST_TENSORS} at most; narrow it by --name"
            )

    def read(self, mode: Mode | None, most_steps: int) -> None:
        self.steps = thin(self._find_steps(mode), most_steps)
        for frame, step in enumerate(self.steps):
            at = self._saved.at(step)
            for name in self._roles:
                tensor = at.find(name)
                if tensor is not None and tensor.has_value:
                    self._add(tensor, frame)

    def _find_steps(self, mode: Mode | None) -> list[int]:
        """Those at which any of the tensors was saved."""
        found = []
        for step in self._saved.steps(mode):
            try:
                if not self._roles.keys().isdisjoint(self._saved.at(step).names):
                    found.append(step)
            except TensorsUnreadable as error:
                self.notes.append(error.message)
        return found

    def _add(self, tensor: Tensor, frame: int) -> None:
        role = self._roles[tensor.name]
        # The input is a picture to look at: the mean of a batch of them is none.
        sample = 0 if role == "input" and self._sample in ("mean", "all") else self._sample
        try:
            value = tensor.value()
            if value.dtype.kind not in "biufc" or not value.size:
                return
            planes = cut_planes(value, tensor.description, sample)
        except TensorsUnreadable as error:
            self.notes.append(error.message)
            return
        except IndexError:
            note = f"{tensor.name} has no sample {sample} at some steps: its batch is smaller"
            self.notes += [note] if note not in self.notes else []
            return
        draft = self.drafts.setdefault(tensor.name, _Draft(planes, len(self.steps)))
        if planes.shape != draft.shape:
            note = f"{tensor.name} has another shape at some steps, which are left empty"
            self.notes += [note] if note not in self.notes else []
            return
        # Shrunk at once: a run may be larger than the memory.
        draft.frames[frame] = shrink(planes[:MOST_PLANES], _SIDES[0])
        draft.about = f"{show_kind(tensor.description)}, {show_shape(value.shape)} {value.dtype}"
        if role == "prediction" and value.ndim == 2:
            draft.texts[frame] = _predicted(value, sample)

    def finish(self, mode: Mode | None) -> Scene:
        most_planes, side = self._fit()
        actors = tuple(
            self._make_actor(name, draft, most_planes, side)
            for name, draft in sorted(
                self.drafts.items(), key=lambda item: list(self._roles).index(item[0])
            )
        )
        return Scene(
            actors=actors,
            steps=tuple(self.steps),
            mode=mode or "all modes",
            sample=self._sample,
            has_ended=self._saved.has_ended,
            notes=tuple(self.notes),
        )

    def _fit(self) -> tuple[int, int]:
        """How many planes of a tensor, and how large, so that the page stays small."""
        for most_planes in (MOST_PLANES, 32, 16, 8):
            # Fewer planes are tried before pictures of less than 16 pixels a side, which show
            # little.
            for side in _SIDES if most_planes == 8 else _SIDES[:5]:
                if self._size_bytes(most_planes, side) <= MOST_BYTES:
                    self._note_fit(most_planes, side)
                    return most_planes, side
        raise UsageRefused(
            f"{len(self.drafts)} tensors at {len(self.steps)} steps are too many for a page of"
            f" {show_size(MOST_BYTES)}",
            fix="narrow it by --name, or fewer --steps",
        )

    def _size_bytes(self, most_planes: int, side: int) -> int:
        def each(shape: tuple[int, ...]) -> int:
            count, height, width = shape
            most_width = side * side if height == 1 else side
            return min(count, most_planes) * min(height, side) * min(width, most_width)

        return len(self.steps) * sum(each(draft.shape) for draft in self.drafts.values())

    def _note_fit(self, most_planes: int, side: int) -> None:
        many = [n for n, d in self.drafts.items() if d.shape[0] > most_planes]
        large = [
            n
            for n, d in self.drafts.items()
            if d.shape[1] > side or d.shape[2] > (side if d.shape[1] > 1 else side * side)
        ]
        if many:
            self.notes.append(
                f"of {_some(many)} the first {most_planes} planes are shown, not all"
            )
        if large:
            self.notes.append(
                f"{_some(large)} made smaller, to {side} pixels a side: a pixel is the mean of"
                " several values"
            )

    def _make_actor(self, name: str, draft: _Draft, most_planes: int, side: int) -> Actor:
        frames = tuple(
            None if planes is None else quantise(shrink(planes[:most_planes], side))
            for planes in draft.frames
        )
        return Actor(
            name=name,
            about=draft.about,
            role=self._roles[name],
            frames=frames,
            texts=tuple(draft.texts) if any(draft.texts) else (),
            plane_count=draft.shape[0],
            size=(draft.shape[1], draft.shape[2]),
        )


def _predicted(value: NDArray[Any], sample: Sample) -> str:
    scores = value[sample] if isinstance(sample, int) else value[0]
    if not np.isfinite(scores).any():
        return "No class: NaN"
    return f"Predicted class {int(np.nanargmax(scores))}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


Role = Literal["input", "layer", "prediction"]
_DIGITS = re.compile(r"([0-9]+)")


def choose_roles(
    saved: SavedTensors, regex: str, label_regex: str, prediction_regex: str
) -> dict[str, Role]:
    """Name → role, in the order in which data flow through the network."""
    names = in_flow_order(saved)
    describe = saved.chooser.describe
    labels = choose_names(names, label_regex, "--label")[:1] if label_regex else []
    predicted = choose_names(names, prediction_regex, "--prediction")[:1]
    if not prediction_regex:
        predicted = [n for n in names if _is_of_model(describe(n), "output")][:1]
    if not label_regex:
        labels = [n for n in names if _is_of_model(describe(n), "input")][:1]
    layers = choose_names(names, regex) if regex else _default_layers(saved, names)
    roles: dict[str, Role] = dict.fromkeys(labels, "input")
    roles |= {name: "layer" for name in layers if name not in {*labels, *predicted}}
    return roles | dict.fromkeys(predicted, "prediction")


def in_flow_order(saved: SavedTensors) -> list[str]:
    """As the hook met them; files without descriptions only have their names."""
    order = {name: place for place, name in enumerate(saved.descriptions)}
    return sorted(saved.names(), key=lambda name: (order.get(name, len(order)), _natural(name)))


def _natural(name: str) -> list[tuple[int, str]]:
    """So that layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(name)]


def _is_of_model(description: Description, kind: str) -> bool:
    is_first = description.is_model and not description.position
    return is_first and description.kind == kind


def _default_layers(saved: SavedTensors, names: Sequence[str]) -> list[str]:
    """Activations where they were saved; parameters otherwise."""
    described = [(name, saved.chooser.describe(name)) for name in names]
    # A block's output is that of its last part once more.
    blocks = {d.module.rpartition(".")[0] for _, d in described if d.module}
    outputs = [
        n
        for n, d in described
        if d.kind == "output" and not (d.is_of_loss or (d.module and d.module in blocks))
    ]
    return outputs or [n for n, d in described if d.kind in ("weight", "bias")] or list(names)
