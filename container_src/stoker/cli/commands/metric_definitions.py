"""`stoker metric-definitions`: what an estimator or tuner needs to read `job.log`'s metrics."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from stoker.bus.metric_line import LONGEST_REGEX, MOST_DEFINITIONS, make_definitions
from stoker.cli.arguments.metric_definitions import LAPTOP_FILE
from stoker.machine.failures import UsageRefused


def run(args: argparse.Namespace) -> int:
    """Print the definitions."""
    names = list(dict.fromkeys(args.names)) or read_names(args.file)
    definitions = make_definitions(names)
    for definition in definitions:
        if len(definition["Regex"]) > LONGEST_REGEX:
            raise UsageRefused(
                f"the regex of {definition['Name']!r:.60} has {len(definition['Regex'])} "
                f"characters, but SageMaker takes {LONGEST_REGEX}",
                fix="give the metric a shorter name",
            )
    if len(definitions) > MOST_DEFINITIONS:
        print(
            f"stoker: a job takes {MOST_DEFINITIONS} definitions, these are {len(definitions)}: "
            "choose some by name",
            file=sys.stderr,
        )
    print(json.dumps(definitions, indent=2) if args.json else render(definitions))
    return 0


def read_names(file: Path | None) -> list[str]:
    """The names in a metrics.jsonl, in the order of their first line.

    Raises:
        UsageRefused: there is no such file, or nothing in it.
    """
    # Names on the command line need no reader of files, which takes a quarter of the start.
    from stoker.metrics.jsonl import read_metrics

    try:
        names = dict.fromkeys(
            n for _, metrics in read_metrics(file or LAPTOP_FILE) for n in metrics
        )
    except OSError as error:
        raise UsageRefused(
            f"{file or LAPTOP_FILE} cannot be read: {error.strerror}"
            if file
            else "which metrics?",
            fix="name them: `stoker metric-definitions train/loss val/accuracy`; "
            "or run the script once here and give --from metrics.jsonl",
        ) from None
    if not names:
        raise UsageRefused(f"{file or LAPTOP_FILE} names no metrics", fix="log one with job.log")
    return list(names)


def render(definitions: list[dict[str, str]]) -> str:
    """The keyword argument, to be pasted into Python."""
    entries = [f"    {json.dumps(definition)}," for definition in definitions]
    return "\n".join(["metric_definitions=[", *entries, "]"])
