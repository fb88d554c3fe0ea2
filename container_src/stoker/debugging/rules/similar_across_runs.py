"""Two runs that should be the same are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.rules.tensor_choice import (
    COLLECTIONS_HELP,
    REGEX_HELP,
    chosen_or_all_needs,
    union,
)
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import RuleInvalid, TensorMissing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stoker.debugging.tensors import SavedTensors

# What is compared where only reductions were saved: each that both runs have.
_REDUCTIONS = ("mean", "std", "variance", "min", "max", "sum", "l1_norm", "l2_norm", "abs_mean")

_Difference = tuple[str, float]
"""In words, and how far apart."""


class SimilarAcrossRuns(Rule):
    """The tensors of two runs differ at a step, though the runs should be the same.

    Fires when there is a difference, whatever the name says: a tensor that both runs saved at the
    same step is not numpy.allclose (rtol 1e-5, atol 1e-8). Steps and tensors that only one of them
    saved are not compared.

    It happens with another seed or order of the data, operations that are not deterministic, and
    other versions of libraries or hardware.

    What usually helps: torch.manual_seed, torch.use_deterministic_algorithms(True), equal
    libraries.
    """

    other_trials: str = parameter("", "folders of the other runs' tensors, separated by commas")
    collection_names: str | None = parameter(None, f"{COLLECTIONS_HELP}; not set: all")
    tensor_regex: str | None = parameter(None, f"{REGEX_HELP}; not set: all")

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._others: dict[str, SavedTensors] = {}
        self._compared: set[str] = set()
        """Folders that had a tensor to compare."""

    def validate(self) -> None:
        if not self._folders():
            raise RuleInvalid(
                "SimilarAcrossRuns has no other run to compare with",
                fix="set other_trials, or in the SDK other_trials_s3_input_paths=[…]",
            )
        self.needs()  # refuses expressions that cannot be understood

    def needs(self) -> Sequence[Need]:
        return chosen_or_all_needs(self.collection_names, self.tensor_regex)

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        own = union(tensors, self.needs())
        for folder in self._folders():
            other = self._at(folder, step)
            theirs = union(other, self.needs()) if other else []
            by_key = {(tensor.name, tensor.worker): tensor for tensor in theirs}
            for tensor in own:
                twin = by_key.get((tensor.name, tensor.worker))
                if twin is None:
                    continue
                self._compared.add(folder)
                difference = _difference(tensor, twin)
                if difference is not None:
                    return self._finding(step, tensor.name, folder, difference)
        return None

    def lacks(self) -> str:
        never = [folder for folder in self._folders() if folder not in self._compared]
        if not never:
            return ""
        return f"no tensor was saved at the same step, under the same name, in {', '.join(never)}"

    def _folders(self) -> list[str]:
        return [folder.strip() for folder in self.other_trials.split(",") if folder.strip()]

    def _at(self, folder: str, step: int) -> StepTensors | None:
        """The other run's step; None where it did not save it, or not yet."""
        if folder not in self._others:
            from stoker.debugging.tensors import SavedTensors  # loads NumPy

            self._others[folder] = SavedTensors(folder)
        saved = self._others[folder]
        saved.refresh()
        try:
            return saved.at(step)
        except TensorMissing:
            return None

    def _finding(self, step: int, name: str, folder: str, difference: _Difference) -> Finding:
        what, distance = difference
        return Finding(
            message=f"{name} is not the same in {folder} at step {step}: {what}",
            tensor=name,
            values={"largest_difference": distance},
            hint="look for another seed, order of the data or version; "
            "torch.use_deterministic_algorithms(True) finds operations that vary",
        )


def _difference(tensor: SavedTensor, twin: SavedTensor) -> _Difference | None:
    """In words and as a number; None if there is none."""
    for name, left, right in _comparable(tensor, twin):
        if left.shape != right.shape:
            return f"the shape is {left.shape} here and {right.shape} there", float("inf")
        if left.dtype.kind not in "iufcb" or right.dtype.kind not in "iufcb":
            if not np.array_equal(left, right):
                return f"{name} differ", float("nan")
        elif (distance := _distance(left, right)) is not None:
            return f"{name} differ by up to {distance:.3g}", distance
    return None


def _distance(left: NDArray[Any], right: NDArray[Any]) -> float | None:
    """None if they are close."""
    with np.errstate(all="ignore"):  # the largest floats are further apart than floats go
        if np.allclose(left, right):
            return None
        # In float64 at least: whole numbers without a sign would wrap around.
        kind = np.result_type(left, right, np.float64)
        return float(np.max(np.abs(np.subtract(left, right, dtype=kind))))


def _comparable(
    tensor: SavedTensor, twin: SavedTensor
) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    try:
        yield "the values", tensor.value(), twin.value()
    except TensorMissing:
        for reduction in _REDUCTIONS:
            try:
                pair = tensor.reduction(reduction), twin.reduction(reduction)
            except TensorMissing:
                continue
            yield f"the values of {reduction}", np.array(pair[0]), np.array(pair[1])
