"""AWS's own price list: index.csv of the offer AmazonSageMaker, one file for each region.

The file is public and needs no account. It begins with a few lines about itself ("Publication
Date", …), then comes a table with one row for each price of each usage type.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator

from stoker.cost.price import Price, is_price
from stoker.errors import HostError

ADDRESS = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonSageMaker/current"
    "/{region}/index.csv"
)
_MOST_HEAD_LINES = 20  # AWS's files begin with five lines about themselves
# Spot (TrSpt:), warm pools and clusters have usage types of their own.
_TRAINING = re.compile(r"(?:[A-Z0-9]+-)?Train:(ml\.[a-z0-9-]+\.[a-z0-9]+)")


class OfferFileInvalid(HostError):
    """A file is not AWS's price list of SageMaker."""


def read_offer_file(lines: Iterable[str], *, name: str, region: str = "") -> Iterator[Price]:
    """The on-demand prices of training in the price list.

    Args:
        lines: the lines of index.csv.
        name: of the file, for messages.
        region: for files without the column "Region Code".

    Raises:
        OfferFileInvalid: it is another file.
    """
    rows = csv.reader(lines)
    about, columns = _read_head(rows, name)
    published = about.get("Publication Date", "")[:10]
    for values in _read_rows(rows, name):
        row = dict(zip(columns, values, strict=False))
        kind = _training_type(row)
        usd = _hourly_usd(row)
        place = row.get("Region Code") or region
        if kind and usd and place:
            yield Price(
                region=place,
                instance_type=kind,
                usd_per_hour=usd,
                published=published or row.get("EffectiveDate", ""),
                source=f"AWS price list AmazonSageMaker, version {about.get('Version', '?')}",
            )


def _read_rows(rows: Iterator[list[str]], name: str) -> Iterator[list[str]]:
    try:
        yield from rows
    except csv.Error as error:
        raise OfferFileInvalid(
            f"{name} is damaged: {error}",
            fix=f"download index.csv again: {ADDRESS.format(region='REGION')}",
        ) from error


def _read_head(rows: Iterator[list[str]], name: str) -> tuple[dict[str, str], list[str]]:
    about: dict[str, str] = {}
    try:
        for row in itertools.islice(rows, _MOST_HEAD_LINES):
            if "SKU" in row and "PricePerUnit" in row:
                return about, row
            if len(row) > 1:
                about[row[0].lstrip("\ufeff")] = row[1]
    except (csv.Error, UnicodeDecodeError):
        pass  # binary, or something else that is not this file
    raise OfferFileInvalid(
        f"{name} is not a price list: no line with the columns SKU and PricePerUnit",
        fix=f"download index.csv (not .json): {ADDRESS.format(region='REGION')}",
    )


def _training_type(row: dict[str, str]) -> str:
    """The instance type of a row for training on demand; else an empty text."""
    # Not the column "Instance Type": most rows leave it empty.
    usage = _TRAINING.fullmatch(row.get("usageType", ""))
    return usage[1] if usage and row.get("TermType") == "OnDemand" else ""


def _hourly_usd(row: dict[str, str]) -> float:
    if row.get("Unit") not in ("Hrs", "Hours") or row.get("Currency", "USD") != "USD":
        return 0.0
    try:
        usd = float(row.get("PricePerUnit", ""))
    except ValueError:
        return 0.0
    return usd if is_price(usd) else 0.0
