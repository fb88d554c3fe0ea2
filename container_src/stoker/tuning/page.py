"""The page of a study: one file that opens offline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.pages.shell import make_page
from stoker.tuning.importance import estimate_importance
from stoker.tuning.parameters import Categorical, Parameter, resolve_scaling
from stoker.tuning.study import Study, Trial, find_best

MOST_VALUES = 200
"""Of a learning curve; more would not be seen."""
_TEMPLATE = Path(__file__).with_suffix(".html")


def render_page(
    study: Study,
    trials: Sequence[Trial],
    *,
    name: str,
    metric: str,
    state: str = "",
    jobs: Mapping[int, str] | None = None,
) -> str:
    """The whole page as HTML.

    Args:
        study: what was searched.
        trials: in any state.
        name: of the search.
        metric: name of the objective.
        state: of the search, in words.
        jobs: the training job of each trial, by number.
    """
    best, jobs = find_best(study.goal, trials), jobs or {}
    facts = {
        "metric": metric,
        "isMaximized": study.goal == "Maximize",
        "strategy": study.strategy.value,
        "state": state,
        "best": best.number if best else None,
        "parameters": [_parameter_to_json(parameter) for parameter in study.space.parameters],
        "trials": [_trial_to_json(study, t) | {"job": jobs.get(t.number)} for t in trials],
        "importance": [
            {"name": one.name, "share": one.share, "low": one.low, "high": one.high}
            for one in estimate_importance(study, trials)
        ],
    }
    return make_page(_TEMPLATE, title=name, facts=facts)


def _parameter_to_json(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter, Categorical):
        return {"name": parameter.name, "values": [_unquote(value) for value in parameter.values]}
    return {
        "name": parameter.name,
        "low": parameter.low,
        "high": parameter.high,
        "scaling": resolve_scaling(parameter).value,
    }


def _trial_to_json(study: Study, trial: Trial) -> dict[str, Any]:
    epochs = range(1, len(trial.curve) + 1)
    every = math.ceil(len(trial.curve) / MOST_VALUES) or 1
    kept = [e for e in epochs if e % every == 0 or e == len(trial.curve)]
    return {
        "number": trial.number,
        "state": trial.state.value,
        "values": {n: _unquote(v) for n, v in trial.parameters.items()},
        "places": [
            parameter.encode(trial.parameters.get(parameter.name, ""))
            for parameter in study.space.parameters
        ],
        "objective": _finite(trial.objective),
        "epochs": len(trial.curve),
        "curve": [[epoch, _finite(trial.curve[epoch - 1])] for epoch in kept],
    }


def _unquote(text: str) -> str:
    """Categories as people wrote them: SDK v2 puts JSON quotes around them."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
