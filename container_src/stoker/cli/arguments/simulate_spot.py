"""The arguments of `stoker simulate-spot`."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--trace", metavar="FILE", type=Path, help="recorded interruptions")
    source.add_argument(
        "--mean-time-between", metavar="HOURS", type=float, help="interruptions without memory"
    )
    parser.add_argument(
        "--step-time", metavar="SECONDS", required=True, help="duration of one step"
    )
    parser.add_argument(
        "--steps", metavar="N", type=int, required=True, help="of the whole training"
    )
    parser.add_argument(
        "--save-cost", metavar="SECONDS", required=True, help="what one save costs the loop"
    )
    parser.add_argument(
        "--restart-cost", metavar="SECONDS", default="3m", help="start to first step (3m)"
    )
    parser.add_argument(
        "--mean-downtime",
        metavar="HOURS",
        type=float,
        default=0.4,
        help="hours until the next machine (0.4)",
    )
    parser.add_argument(
        "--instances", metavar="N", type=int, default=1, help="number of instances of a trace (1)"
    )
    parser.add_argument("--price", type=float, help="price of a spot instance per hour")
    parser.add_argument(
        "--on-demand-price", type=float, help="on-demand price per hour, for comparison"
    )
    parser.add_argument(
        "--intervals", metavar="30s,1m,…", default="auto", help="saving intervals to try (auto)"
    )
    parser.add_argument("--runs", type=int, default=2000, help="simulated trainings (2000)")
    parser.add_argument("--seed", type=int, default=0, help="the same interruptions again (0)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--plot", metavar="FILE.svg|.png", type=Path, help="also draw a picture")
