"""The page of a search, from what the API says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.cli.client.tuning_display import TrialRow
from stoker.platform.tuning.request import parse_tuning_request
from stoker.tuning.page import SearchedDefinition, render_page
from stoker.tuning.study import Study, Trial, TrialState

_STATES = {
    "Completed": TrialState.COMPLETED,
    "Stopped": TrialState.STOPPED,
    "Failed": TrialState.FAILED,
}


def render_search(description: Mapping[str, Any], rows: Sequence[TrialRow]) -> str:
    """One HTML file that opens offline."""
    # Describe's answer has the members of the request.
    request = parse_tuning_request(description)
    definitions = [
        SearchedDefinition(
            name=definition.name,
            metric=definition.metric,
            study=Study(
                space=definition.space,
                goal=definition.goal,
                strategy=request.strategy,
                seed=request.seed,
            ),
            trials=[_make_trial(row) for row in rows if row.definition == definition.name],
        )
        for definition in request.definitions
    ]
    return render_page(
        definitions,
        name=request.name,
        state=description["HyperParameterTuningJobStatus"],
        jobs={row.number: row.job for row in rows},
    )


def _make_trial(row: TrialRow) -> Trial:
    state = _STATES.get(row.state, TrialState.RUNNING)
    is_over = row.state in ("Completed", "Stopped")
    return Trial(
        number=row.number,
        parameters=row.parameters,
        state=state,
        curve=row.curve,
        objective=row.last if is_over else None,
    )
