"""The loss of a step, as one number."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stoker.debugging.step_tensors import SavedTensor


def mean_loss(losses: Sequence[SavedTensor]) -> float | None:
    """The mean over the losses of one step, over all workers; None where there is none."""
    if not losses:
        return None
    return sum(loss.reduction("mean") for loss in losses) / len(losses)


def lacking_modes(seen: Collection[str], *, start_step: int = 0) -> str:
    """Why losses of training and validation cannot be compared; empty if both were seen."""
    missing = [mode for mode in ("TRAIN", "EVAL") if mode not in seen]
    if not missing:
        return ""
    since = f" from start_step {start_step} on" if start_step else ""
    return (
        f"it compares the losses of TRAIN and EVAL steps, but none of {' or '.join(missing)} was "
        f"saved{since}; the mode follows from model.train() and model.eval()"
    )
