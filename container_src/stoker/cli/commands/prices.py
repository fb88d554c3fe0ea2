"""`stoker prices`: what an instance costs an hour, and where the figure comes from."""

from __future__ import annotations

import argparse
import difflib
import io
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from stoker.cost.offer_file import ADDRESS, read_offer_file
from stoker.cost.price import Price, read_prices, updated_table, write_prices
from stoker.machine.aws_settings import read_region
from stoker.machine.environment import read_environment
from stoker.machine.failures import StorageFailed, UsageRefused
from stoker.machine.terminal import make_table

_TIMEOUT_SECONDS = 60
_URL = ("https://", "http://")


def run_ls(args: argparse.Namespace) -> int:
    """List the prices that are known."""
    prices = read_prices()
    chosen = [
        price
        for price in prices
        if args.region in (None, price.region)
        and (not args.types or price.instance_type in args.types)
    ]
    if not chosen:
        raise _nothing_found(prices, args.types, args.region)
    if args.json:
        print(json.dumps([asdict(price) for price in chosen], indent=2))
        return 0
    rows = [
        (p.region, p.instance_type, f"${p.usd_per_hour:g}/h", p.published, p.source)
        for p in chosen
    ]
    head = ("REGION", "TYPE", "ON DEMAND", "PUBLISHED", "SOURCE")
    print("\n".join(make_table([head, *rows])))
    return 0


def run_update(args: argparse.Namespace) -> int:
    """Read AWS's price list into the user's table."""
    region = args.region or read_region(read_environment())
    source = args.source or ADDRESS.format(region=_need(region))
    with _open(source) as lines:
        prices = list(read_offer_file(lines, name=source, region=region or ""))
    if not prices:
        raise UsageRefused(
            f"{source} has no price of a training instance",
            fix="use index.csv of the offer AmazonSageMaker, and pass --region if it names none",
        )
    write_prices(prices, updated_table())
    regions = ", ".join(sorted({price.region for price in prices}))
    print(f"{len(prices)} prices of {regions}, published {prices[0].published}: {updated_table()}")
    return 0


def _nothing_found(prices: list[Price], types: list[str], region: str | None) -> UsageRefused:
    known = sorted({price.instance_type for price in prices})
    near = difflib.get_close_matches(types[0], known, n=3) if types else []
    what = " ".join(types) or "any type"
    return UsageRefused(
        f"no price is known of {what}{f' in {region}' if region else ''}"
        + (f"; there is one of {', '.join(near)}" if near else ""),
        fix=f"stoker prices update --region {region or 'REGION'}",
    )


@contextmanager
def _open(source: str) -> Iterator[TextIO]:
    if not source.startswith(_URL):
        if not Path(source).is_file():
            raise UsageRefused(f"{source} is not a file", fix="name index.csv, or its address")
        with Path(source).open(newline="", encoding="utf-8", errors="replace") as lines:
            yield lines
        return
    try:
        with urllib.request.urlopen(source, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - http only, see above
            yield io.TextIOWrapper(answer, encoding="utf-8", errors="replace", newline="")
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise StorageFailed(
            f"{source} cannot be read: {error}",
            fix="download it on another machine, then: stoker prices update FILE",
        ) from error


def _need(region: str | None) -> str:
    if not region:
        raise UsageRefused("no region is configured", fix="pass --region, such as us-east-1")
    return region
