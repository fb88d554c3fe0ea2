"""The input images are not centred around zero."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.tensor_choice import role_needs, union
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import RuleInvalid

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEED = Need(
    collection="input_image",
    of_model=True,
    side="input",
    position=0,
    fallback_regex=".*hybridsequential0_input_0",
)
_LEAST_AXES = 4  # samples, colours, height, width


class CheckInputImages(Rule):
    """The input images are not normalized: a colour channel's mean is far from zero.

    Fires when the mean of a channel, over all images seen so far, is further from zero than
    `threshold_mean`; not before there are `threshold_samples` images. Looks at the first input of
    the model, a batch (N, C, H, W).

    It happens when pixels are fed as they are, from 0 to 255 or from 0 to 1, and when images were
    normalized with the numbers of another data set.

    What usually helps: to subtract the mean of each channel and divide by its deviation
    (torchvision.transforms.Normalize).
    """

    threshold_mean: float = parameter(0.2, "how far from zero a channel's mean may be", minimum=0)
    threshold_samples: int = parameter(500, "images to see before it evaluates", minimum=1)
    regex: str = parameter(
        _NEED.fallback_regex, "names of the images; by default the first input of the model"
    )
    channel: int = parameter(
        1, "position of the colour axis: 1 for (N, C, H, W), 3 for (N, H, W, C)", minimum=1
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._seen: dict[str, _ChannelMeans] = {}
        self._steps = 0

    def needs(self) -> Sequence[Need]:
        return role_needs(_NEED, self.regex)

    def least_steps(self) -> int:
        """As many as the images take, once it is known how many a step has."""
        most = max((means.samples for means in self._seen.values()), default=0)
        return math.ceil(self.threshold_samples * self._steps / most) if most else 1

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        inputs = [(tensor, tensor.value()) for tensor in union(tensors, self.needs())]
        least_axes = max(_LEAST_AXES, self.channel + 1)
        images = [(tensor, batch) for tensor, batch in inputs if batch.ndim >= least_axes]
        if inputs and not images:
            # Ends the rule as an Error: it would otherwise be silent over a run that it never
            # looked at.
            raise self._no_images(*inputs[0])
        self._steps += bool(images)
        for tensor, batch in images:
            means = self._seen.setdefault(tensor.name, _ChannelMeans())
            means.add(np.moveaxis(batch, self.channel, 1))
        names = sorted({tensor.name for tensor, _ in images})
        findings = (self._evaluate(step, name, self._seen[name]) for name in names)
        return next(filter(None, findings), None)

    def _evaluate(self, step: int, name: str, seen: _ChannelMeans) -> Finding | None:
        if seen.samples < self.threshold_samples:
            return None
        means = seen.means()
        worst = int(np.abs(means).argmax())
        mean = float(means[worst])
        if abs(mean) <= self.threshold_mean:
            return None
        return Finding(
            message=f"the mean of channel {worst} of {name} is {mean:.4g} at step {step}, over "
            f"{seen.samples} images (limit ±{self.threshold_mean:g})",
            tensor=name,
            values={
                "mean": mean,
                "threshold_mean": self.threshold_mean,
                "channel": worst,
                "samples": seen.samples,
            },
            hint="subtract the mean of each channel and divide by its deviation",
        )

    def _no_images(self, tensor: SavedTensor, value: NDArray[np.generic]) -> RuleInvalid:
        return RuleInvalid(
            f"{tensor.name} has the shape {value.shape}: no batch of images with the colours on "
            f"axis {self.channel}",
            fix="name the images by the parameter regex, and their colour axis by channel",
        )


class _ChannelMeans:
    """Sums of the channels' means per image. Images with NaN or Inf in them are left out."""

    def __init__(self) -> None:
        self.samples = 0
        self._sums: NDArray[np.float64] = np.zeros(0)

    def add(self, batch: NDArray[np.generic]) -> None:
        if not batch.size:
            return
        with np.errstate(invalid="ignore"):  # infinities of both signs
            means = batch.reshape(*batch.shape[:2], -1).mean(axis=2, dtype=np.float64)
        means = means[np.isfinite(means).all(axis=1)]
        if self._sums.shape != means.shape[1:]:  # another number of colours: another data set
            self._sums, self.samples = np.zeros(means.shape[1]), 0
        self._sums += means.sum(axis=0)
        self.samples += len(means)

    def means(self) -> NDArray[np.float64]:
        return self._sums / self.samples
