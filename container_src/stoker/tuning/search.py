"""Which hyperparameters the next trial gets: a pure function of the study and its trials.

The same seed, trial number and trials give the same values, in any process: nothing is lost or
repeated when a search is killed and continued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from stoker.tuning.parameters import Categorical
from stoker.tuning.space import SearchSpace
from stoker.tuning.study import Strategy, Study, Trial

# So many misses in a row mean that little of the space is left.
_DRAWS = 200


def suggest(study: Study, number: int, trials: Sequence[Trial]) -> dict[str, str] | None:
    """The hyperparameters of the trial with this number (from 1).

    Args:
        study: what is searched.
        number: of the trial to start.
        trials: all trials with lower numbers, running and paused ones included.

    Returns:
        None when every combination of the space has been tried.
    """
    if study.strategy is Strategy.GRID:
        return _suggest_by_grid(study.space, number)
    tried = [trial.parameters for trial in trials]
    if study.strategy is Strategy.BAYESIAN:
        values = _suggest_by_model(study, number, trials)
        if values is not None:
            return values
    source = Random(f"{study.seed}/{number}")  # noqa: S311 - a search, not a secret
    return suggest_at_random(study.space, tried, source)


def find_strategy_mistakes(
    space: SearchSpace, strategy: Strategy, max_trials: int | None
) -> Iterator[str]:
    """Why a strategy cannot search this space, in the service's words where they are known."""
    count = space.combinations
    if strategy is Strategy.GRID:
        numbers = [p.name for p in space.parameters if not isinstance(p, Categorical)]
        if numbers:
            yield (
                "Grid search supports categorical hyperparameters only, but these have numeric"
                f" ranges: {', '.join(numbers)}. List their values as categories, or use another"
                " strategy."
            )
        elif max_trials is not None and max_trials != count:
            yield (
                f"MaxNumberOfTrainingJobs of a grid search must be its number of combinations,"
                f" {count}, but is {max_trials}. Leave it out, and it is inferred."
            )
    elif count is not None and max_trials is not None and max_trials > count:
        yield (
            "You don't have enough combinations of hyperparameter ranges. The number of"
            f" combinations [{float(count)}] must be equal or greater than the value of"
            f" MaxNumberOfJobs, [{max_trials}]."
        )


def suggest_at_random(
    space: SearchSpace, tried: Sequence[Mapping[str, str]], source: Random
) -> dict[str, str] | None:
    """Uniform in the unit cube, without values that were tried already."""
    known = {_key(space, values) for values in tried}
    for _ in range(_DRAWS):
        values = space.decode([source.random() for _ in space.parameters])
        if _key(space, values) not in known:
            return values
    # Almost everything was tried: choose among the combinations that are left.
    count = space.combinations or 0
    offset = source.randrange(count) if count else 0
    left = (_combination(space, (offset + index) % count) for index in range(count))
    return next((values for values in left if _key(space, values) not in known), None)


def _suggest_by_model(study: Study, number: int, trials: Sequence[Trial]) -> dict[str, str] | None:
    # NumPy takes longer to import than all the rest, and other strategies do not need it.
    from stoker.tuning.bayesian import rank_points, spread_evenly

    space = study.space
    known = {_key(space, trial.parameters) for trial in trials}
    points = rank_points(study, number, trials).tolist()
    points = points or [spread_evenly(study.seed, number, len(space.parameters))]
    decoded = (space.decode(point) for point in points)
    return next((values for values in decoded if _key(space, values) not in known), None)


def _suggest_by_grid(space: SearchSpace, number: int) -> dict[str, str] | None:
    count = space.combinations
    if count is None:
        raise ValueError("a grid needs parameters with a finite number of values")
    return _combination(space, number - 1) if number <= count else None


def _combination(space: SearchSpace, index: int) -> dict[str, str]:
    """One of all combinations; the last parameter changes fastest."""
    values = {}
    for parameter in reversed(space.parameters):
        index, place = divmod(index, parameter.count or 1)
        values[parameter.name] = parameter.value_at(place)
    return {parameter.name: values[parameter.name] for parameter in space.parameters}


def _key(space: SearchSpace, values: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(values.get(parameter.name) for parameter in space.parameters)
