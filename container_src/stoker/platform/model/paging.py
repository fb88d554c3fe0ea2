"""One page of a list: ordered, and continued by a token that holds the place of the last row."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from stoker.platform.model.faults import validation

_ROWS = 10  # the service's default

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[T]):
    """The rows of one answer, and how to get the next ones."""

    rows: Sequence[T]
    token: str

    @property
    def more(self) -> dict[str, str]:
        """The member that leads to the next page, if there is one."""
        return {"NextToken": self.token} if self.token else {}

    def answer(self, member: str) -> dict[str, Any]:
        """As the API returns it."""
        return {member: list(self.rows), **self.more}


def make_page(
    rows: Iterable[T], params: Mapping[str, Any], *, key: Callable[[T], Any], size: int = _ROWS
) -> Page[T]:
    """The rows that MaxResults, SortOrder and NextToken of a request select.

    Args:
        rows: all of them.
        params: the request.
        key: what they are ordered by, unique, and a tuple of plain values that JSON can hold.
        size: how many, without MaxResults.

    Raises:
        ApiFault: the token is not one of this list, or MaxResults is below 1.
    """
    is_falling = params.get("SortOrder", "Ascending") == "Descending"
    placed = [(key(row), row) for row in rows]
    placed.sort(key=lambda pair: pair[0], reverse=is_falling)
    # By the place of the last row, not by a number: rows that come or go between two pages neither
    # repeat a row nor leave one out.
    if "NextToken" in params:
        after = _read_token(params["NextToken"])
        try:
            placed = [p for p in placed if (p[0] < after if is_falling else p[0] > after)]
        except TypeError as error:  # a token of a list in another order
            raise validation(f"Invalid NextToken: {params['NextToken']}") from error
    size = params.get("MaxResults", size)
    if size < 1:  # the model of some operations has no least value
        raise validation(f"MaxResults must be 1 or more; it is {size}.")
    page = placed[:size]
    token = _make_token(page[-1][0]) if len(placed) > size else ""
    return Page(rows=[row for _, row in page], token=token)


def _make_token(place: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _read_token(token: str) -> tuple[Any, ...]:
    try:
        return tuple(json.loads(base64.urlsafe_b64decode(token)))
    except (ValueError, TypeError, binascii.Error) as error:
        raise validation(f"Invalid NextToken: {token}") from error
