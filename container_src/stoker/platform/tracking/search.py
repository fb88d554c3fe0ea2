"""Search: filters, nested filters and sub-expressions over what the other operations describe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from stoker.platform.model.faults import validation
from stoker.platform.model.paging import make_page
from stoker.platform.tracking.experiments import newest_first, show_experiment, show_trial
from stoker.platform.tracking.tracked import Answer, Operation, Params, show_tags
from stoker.platform.tracking.trial_components import show_run
from stoker.tracking.memberships import Memberships
from stoker.tracking.records import Experiment, Run, Trial
from stoker.tracking.store import RunStore

Documents = Callable[[], Iterable[Mapping[str, Any]]]
_PAGE = 100
_RUNS = "ExperimentTrialComponent"
_MOST_DEPTH = 20  # no request may reach Python's recursion limit


class SearchOperations:
    """Searches runs, trials and experiments, and whatever documents others provide."""

    def __init__(self, store: RunStore, others: Mapping[str, Documents]) -> None:
        """Args: others: resource, such as `TrainingJob` → its documents."""
        self._store = store
        self._resources: dict[str, tuple[str, Documents]] = {
            _RUNS: ("TrialComponent", self._components),
            "ExperimentTrial": ("Trial", self._trials),
            "Experiment": ("Experiment", self._experiments),
            **{name: (name, documents) for name, documents in others.items()},
        }
        self._found: tuple[object, list[tuple[Any, Mapping[str, Any]]]] | None = None
        self._components_known: tuple[object, list[Answer]] | None = None

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {"Search": self.search}

    def search(self, params: Params) -> Answer:
        """One page of what an expression matches."""
        resource = params["Resource"]
        if resource not in self._resources:
            known = ", ".join(self._resources)
            raise validation(f"Search of {resource} is not emulated; this platform has: {known}.")
        member, documents = self._resources[resource]
        expression = params.get("SearchExpression", {})
        path = params.get("SortBy", "LastModifiedTime")
        found = self._find(resource, expression, path, documents)
        page = make_page(found, newest_first(params), key=lambda pair: pair[0], size=_PAGE)
        hits = {"Value": len(found), "Relation": "EqualTo"}
        results = [{member: each} for _, each in page.rows]
        return {"Results": results, "TotalHits": hits, **page.more}

    def _find(
        self, resource: str, expression: Mapping[str, Any], path: str, documents: Documents
    ) -> list[tuple[Any, Mapping[str, Any]]]:
        """What matches, with its place; of runs kept for the next page of the same search."""
        asked = (self._store.version(), json.dumps(expression, sort_keys=True, default=str), path)
        if resource == _RUNS and self._found is not None and self._found[0] == asked:
            return self._found[1]
        key = _make_key(path)
        found = [(key(each), each) for each in documents() if matches(expression, each)]
        if resource == _RUNS:
            self._found = (asked, found)
        return found

    def _components(self) -> list[Answer]:
        # A client that reads 10,000 runs asks for a hundred pages: made once for all of them.
        version = self._store.version()
        if self._components_known is None or self._components_known[0] != version:
            self._components_known = (version, list(self._make_components()))
        return self._components_known[1]

    def _make_components(self) -> Iterator[Answer]:
        members, summaries = Memberships(self._store), self._store.summaries()
        for run in self._store.read_all(Run):
            if not run.is_deleted:
                yield {
                    **show_run(run, summaries.get(run.name.lower(), [])),
                    "Tags": show_tags(run.tags),
                    "Parents": members.parents(run.name),
                }

    def _trials(self) -> Iterator[Answer]:
        for trial in self._store.read_all(Trial):
            yield {**show_trial(trial), "Tags": show_tags(trial.tags)}

    def _experiments(self) -> Iterator[Answer]:
        for each in self._store.read_all(Experiment):
            if not each.is_deleted:
                yield {**show_experiment(each), "Tags": show_tags(each.tags)}


def _make_key(path: str) -> Callable[[Mapping[str, Any]], tuple[int, float | str, str]]:
    def key(document: Mapping[str, Any]) -> tuple[int, float | str, str]:
        """Numbers before texts before what is missing; the name decides between equals."""
        values = find_values(document, path)
        value = values[0] if values else None
        name = str(next(iter(document.values())))
        try:
            number = float(value)  # type: ignore[arg-type]  # refused below
        except (TypeError, ValueError):
            return (2, "", name) if value is None else (1, str(value), name)
        return (0, number, name) if number == number else (2, "", name)

    return key


def matches(expression: Mapping[str, Any], document: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a document fits an expression; an empty one fits everything.

    Raises:
        ApiFault: a filter has no value where it needs one, or the nesting is too deep.
    """
    if depth > _MOST_DEPTH:
        raise validation(f"SearchExpression is nested deeper than {_MOST_DEPTH} levels.")
    results = [
        *(_fits(each, document, "") for each in expression.get("Filters", ())),
        *(_fits_nested(each, document) for each in expression.get("NestedFilters", ())),
        *(matches(each, document, depth + 1) for each in expression.get("SubExpressions", ())),
    ]
    if not results:
        return True
    return any(results) if expression.get("Operator") == "Or" else all(results)


def _fits_nested(nested: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Whether one item of a list fits all filters; they name it by the whole path."""
    prefix = nested["NestedPropertyName"]
    items = find_values(document, prefix)
    return any(
        isinstance(item, Mapping)
        and all(_fits(each, item, f"{prefix}.") for each in nested["Filters"])
        for item in items
    )


def _fits(each: Mapping[str, str], document: Mapping[str, Any], prefix: str) -> bool:
    operator = each.get("Operator", "Equals")
    values = find_values(document, each["Name"].removeprefix(prefix))
    if operator in ("Exists", "NotExists"):
        return bool(values) == (operator == "Exists")
    if "Value" not in each:
        raise validation(f"The filter on '{each['Name']}' needs a Value for {operator}.")
    # Of several values (tags, say) none may be equal; for all other operators one is enough.
    if operator == "NotEquals":
        return not any(_OPERATORS["Equals"](value, each["Value"]) for value in values)
    return any(_OPERATORS[operator](value, each["Value"]) for value in values)


def find_values(document: Any, path: str) -> list[Any]:  # noqa: ANN401 - JSON
    """The values under a path such as `Parameters.lr`, `metrics.loss.max`, `Parents.TrialName`.

    Keys are found whatever their case, and may contain dots.
    """
    if path == "":
        return [_unwrap(document)]
    if isinstance(document, list):
        named = _name_items(document)
        if named is not None:
            found = find_values(named, path)
            if found:
                return found
        return [value for item in document for value in find_values(item, path)]
    if not isinstance(document, Mapping):
        return []
    if path.startswith("Metrics.") and "FinalMetricDataList" in document:  # of a training job
        path = path.replace("Metrics", "FinalMetricDataList", 1)
    low = path.lower()
    for key, value in document.items():
        if low == key.lower():
            return value if isinstance(value, list) else [_unwrap(value)]
        if low.startswith(f"{key.lower()}."):
            found = find_values(value, path[len(key) + 1 :])
            if found:
                return found
    return []


def _name_items(items: list[Any]) -> dict[str, Any] | None:
    """Tags and metrics are lists whose items have a name; filters name them by it."""
    for key in ("MetricName", "Key"):
        if items and all(isinstance(item, Mapping) and key in item for item in items):
            return {item[key]: item["Value"] if key == "Key" else item for item in items}
    return None


def _unwrap(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The value of a parameter or artifact itself."""
    if isinstance(value, Mapping):
        for key in ("NumberValue", "StringValue", "Value"):
            if key in value:
                return value[key]
    return value


def _compare(value: Any, text: str) -> int | None:  # noqa: ANN401 - JSON
    """Negative, 0 or positive; None for what cannot be compared."""
    # To Python a bool is a number, too.
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
        other = _read_number(text)
    except (TypeError, ValueError):
        return None
    return (number > other) - (number < other) if number == number else None


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()


def _equals(value: Any, text: str) -> bool:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return value == text
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    return _compare(value, text) == 0


_OPERATORS: Mapping[str, Callable[[Any, str], bool]] = {
    "Equals": _equals,
    "In": lambda value, text: any(_equals(value, each.strip()) for each in text.split(",")),
    "Contains": lambda value, text: text.lower() in str(value).lower(),
    "GreaterThan": lambda value, text: (_compare(value, text) or 0) > 0,
    "LessThan": lambda value, text: (_compare(value, text) or 0) < 0,
    "GreaterThanOrEqualTo": lambda value, text: (
        (c := _compare(value, text)) is not None and c >= 0
    ),
    "LessThanOrEqualTo": lambda value, text: (c := _compare(value, text)) is not None and c <= 0,
}
