"""A rule of one's own: what to look at, and when it is too much."""

from collections.abc import Sequence

from stoker import Finding, Need, Rule, parameter


class LargeGradient(Rule):
    """A gradient is too large."""

    threshold: float = parameter(100.0, "largest mean of |gradient|", minimum=0)

    def needs(self) -> Sequence[Need]:
        return [Need(collection="gradients", reductions=("abs_mean",))]

    def check(self, step, tensors) -> Finding | None:
        for tensor in tensors.needed("gradients"):
            mean = tensor.reduction("abs_mean")
            if not mean <= self.threshold:  # NaN is too much, too
                return Finding(
                    message=f"mean of |{tensor.name}| is {mean:.3g}, above {self.threshold:g}",
                    tensor=tensor.name,
                    values={"abs_mean": mean, "threshold": self.threshold},
                    hint="lower the learning rate, or clip gradients",
                )
        return None
