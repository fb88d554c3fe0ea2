"""The price of an instance type, and the table that has it.

The table is a CSV file with the columns region, instance_type, usd_per_hour, published and source.
Stoker brings a short one; `stoker prices update` writes the user's own, whose rows come first.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from stoker.contract.files import write_atomically
from stoker.errors import HostError

BUILT_IN = Path(__file__).with_name("prices.csv")


class PriceTableInvalid(HostError):
    """A file is not a table of prices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What one instance of a training job costs on demand, in one region."""

    region: str
    instance_type: str
    """As the API spells it: ml.g5.xlarge."""
    usd_per_hour: float
    published: str
    """The day of the price list or bill that has the figure: 2026-09-25."""
    source: str

    def cost_of(self, seconds: float, *, count: int = 1) -> float:
        """US dollars for so many seconds on so many instances."""
        return self.usd_per_hour / 3600 * seconds * count

    def show_source(self) -> str:
        """Where the figure comes from, in one line."""
        return f"${self.usd_per_hour:g}/h in {self.region} on {self.published}: {self.source}"


_COLUMNS = tuple(field.name for field in fields(Price))


def find_price(
    instance_type: str, region: str, *, tables: Sequence[Path] | None = None
) -> Price | None:
    """The price of an instance type; None if no table has it: no other figure replaces it.

    Args:
        instance_type: such as ml.g5.xlarge.
        region: such as us-east-1.
        tables: the files to look in, the first one wins; the user's and the built-in one if None.
    """
    for price in read_prices(tables):
        if (price.instance_type, price.region) == (instance_type, region):
            return price
    return None


def read_prices(tables: Sequence[Path] | None = None) -> list[Price]:
    """All prices, each once, sorted by region and type; those of an earlier table win."""
    found: dict[tuple[str, str], Price] = {}
    for table in [updated_table(), BUILT_IN] if tables is None else tables:
        if table.is_file():
            for price in _read_table(table):
                found.setdefault((price.region, price.instance_type), price)
    return [found[key] for key in sorted(found)]


def write_prices(prices: Iterable[Price], table: Path) -> None:
    """Write a table; prices that it has and that are not given again stay."""
    given = {(price.region, price.instance_type): price for price in prices}
    if table.is_file():
        given = {(p.region, p.instance_type): p for p in _read_table(table)} | given
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(given[key]) for key in sorted(given))
    table.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(str(table), text.getvalue())


def updated_table() -> Path:
    """The table that `stoker prices update` writes; it need not exist."""
    return Path.home() / ".stoker/prices.csv"


def is_price(usd: float) -> bool:
    """Whether it can be what a machine costs: neither below 0 nor NaN nor infinite."""
    return 0 < usd < math.inf


def _read_table(table: Path) -> Iterable[Price]:
    try:
        with table.open(newline="", encoding="utf-8") as lines:
            yield from map(_read_row, csv.DictReader(lines))
    # KeyError, TypeError: a column is missing in the head, or in one row.
    except (csv.Error, KeyError, TypeError, ValueError, OSError) as error:
        raise PriceTableInvalid(
            f"{table} is not a table of prices: {type(error).__name__}: {error}",
            fix=f"remove it, then: stoker prices update (columns: {', '.join(_COLUMNS)})",
        ) from error


def _read_row(row: dict[str, str]) -> Price:
    usd = float(row["usd_per_hour"])
    if not is_price(usd):
        raise ValueError(f"usd_per_hour is {usd:g}")
    texts = {name: row[name] for name in _COLUMNS if name != "usd_per_hour"}
    return Price(usd_per_hour=usd, **{name: _printable(text) for name, text in texts.items()})


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())
