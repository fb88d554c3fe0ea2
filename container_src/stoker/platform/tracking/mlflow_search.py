"""MLflow's searches: filters, orders and pages, refused where an MLflow server refuses them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from stoker.platform.model.faults import ApiFault
from stoker.platform.tracking.tracked import Params
from stoker.tracking.run_filter import (
    Condition,
    Facts,
    FilterInvalid,
    parse_filter,
    parse_key,
)

T = TypeVar("T")
_MOST_ROWS = 1000  # MLflow's default
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_OF_TEXTS = ("=", "!=", "LIKE", "ILIKE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Searchable:
    """The attributes of one kind of thing, as filters and orders name them."""

    numbers: tuple[str, ...]
    texts: tuple[str, ...]
    listable: tuple[str, ...] = ("run_id",)
    """The texts that IN and NOT IN fit."""

    most: int = _MOST_ROWS
    """In one answer, unless the request has another number."""

    def search(
        self, rows: Iterable[tuple[Facts, T]], params: Params
    ) -> tuple[list[T], dict[str, str]]:
        """One page of what a request matches, and the member that leads to the next page.

        Args:
            rows: everything, in the order without `order_by`.
            params: the request.

        Raises:
            ApiFault: the filter, the order or the token is not valid.
        """
        kept = list(self.filter(rows, params))
        # From the last criterion to the first: sorting keeps the order of equals.
        for criterion in reversed(params.get("order_by", ())):
            group, key, is_falling = self._read_criterion(criterion)
            is_number = group == "metrics" or (group == "attributes" and key in self.numbers)
            kept = _sort(kept, group, key, is_number=is_number, is_falling=is_falling)
        page, more = make_rows(kept, params, self.most)
        return [row for _, row in page], more

    def filter(self, rows: Iterable[tuple[Facts, T]], params: Params) -> Iterable[tuple[Facts, T]]:
        """All that a request matches."""
        try:
            conditions = parse_filter(params.get("filter", ""), (*self.numbers, *self.texts))
        except FilterInvalid as error:
            raise invalid(f"{error.message}; fix: {error.fix}") from error
        for condition in conditions:
            self._check(condition)
        return (row for row in rows if all(each.holds(row[0]) for each in conditions))

    def _check(self, condition: Condition) -> None:
        """
        Raises:
            ApiFault: an MLflow server would not compare this with that.
        """
        name = f"{condition.group}.{condition.key}"
        is_number = condition.group == "metrics" or condition.key in self.numbers
        if condition.group in ("params", "tags"):
            is_number, allowed = False, (*_OF_TEXTS, "IS NULL", "IS NOT NULL")
        else:
            is_listable = condition.group == "datasets" or condition.key in self.listable
            of_lists = ("IN", "NOT IN") if is_listable else ()
            allowed = _COMPARISONS if is_number else (*_OF_TEXTS, *of_lists)
        if condition.operator not in allowed:
            raise invalid(
                f"{condition.operator} does not fit {name}; it has: {', '.join(allowed)}"
            )
        if is_number and (condition.is_quoted or not _is_number(condition.values[0])):
            raise invalid(f"{name} is compared with a number, without quotes")
        if not is_number and not condition.is_quoted:
            raise invalid(f"{name} is compared with a text in quotes: {name} = 'a'")

    def _read_criterion(self, criterion: Any) -> tuple[str, str, bool]:  # noqa: ANN401 - JSON
        """Of runs `metrics.loss DESC`; of logged models an object with `field_name`."""
        if isinstance(criterion, dict):
            text = str(criterion.get("field_name", ""))
            is_falling = not criterion.get("ascending", True)
        else:
            text = str(criterion).strip()
            way = re.search(r"\s(asc|desc)$", text, re.IGNORECASE)
            is_falling = way is not None and way[1].lower() == "desc"
            text = text[: way.start()].rstrip() if way else text
        try:
            group, key = parse_key(text, (*self.numbers, *self.texts))
        except FilterInvalid as error:
            raise invalid(f"order_by: {error.message}; fix: {error.fix}") from error
        if group == "datasets":
            raise invalid(f"order_by: {text} may be several values, which have no order")
        return group, key, is_falling


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _sort(
    rows: list[tuple[Facts, T]], group: str, key: str, *, is_number: bool, is_falling: bool
) -> list[tuple[Facts, T]]:
    """NaN comes behind the numbers, and what has no value last, whichever the direction.

    Parameters are texts, as in every MLflow server: '10' comes before '9'.
    """

    def value(row: tuple[Facts, T]) -> Any:  # noqa: ANN401 - a number or a text
        return row[0].get(group, {}).get(key)

    absent = [row for row in rows if value(row) is None]
    present = [row for row in rows if value(row) is not None]
    odd = [row for row in present if value(row) != value(row)]
    present = [row for row in present if value(row) == value(row)]
    present.sort(key=lambda row: (float if is_number else str)(value(row)), reverse=is_falling)
    return [*present, *odd, *absent]


def make_rows(rows: list[T], params: Params, most: int) -> tuple[list[T], dict[str, str]]:
    """The rows of one page, and the member that leads to the next one.

    Raises:
        ApiFault: the token is not one of this platform.
    """
    token = str(params.get("page_token") or "0")
    if not re.fullmatch("[0-9]{1,18}", token):
        raise invalid(f"page_token '{token}' is not one that this platform gave")
    start, size = int(token), int(params.get("max_results") or most)
    more = {"next_page_token": str(start + size)} if len(rows) > start + size else {}
    return rows[start : start + size], more


def require(params: Params, name: str) -> str:
    """A parameter that must be there. Raises ApiFault."""
    if not params.get(name):
        raise invalid(f"Missing value for required parameter '{name}'")
    return str(params[name])


def invalid(text: str) -> ApiFault:
    """What MLflow answers to a wrong parameter."""
    return ApiFault("INVALID_PARAMETER_VALUE", text)


def missing(text: str) -> ApiFault:
    """What MLflow answers where there is no such thing."""
    return ApiFault("RESOURCE_DOES_NOT_EXIST", text, status=404)


def exists(text: str) -> ApiFault:
    """What MLflow answers to a name that is taken."""
    return ApiFault("RESOURCE_ALREADY_EXISTS", text)


def is_wanted(view: str, *, is_deleted: bool) -> bool:
    """Whether a `view_type` shows it."""
    return view == "ALL" or is_deleted == (view == "DELETED_ONLY")
