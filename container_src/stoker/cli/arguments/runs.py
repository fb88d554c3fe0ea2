"""The arguments of `stoker runs`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.arguments.cloud_options import add_place_options
from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    verbs = parser.add_subparsers(
        metavar="ls|show|diff|lineage|export|tag|rm|import|page", required=True
    )
    listed = _add_verb(verbs, "ls", "a table of runs, the newest first")
    _add_choice(listed)
    listed.add_argument("--all", action="store_true", help="all runs, not the first 50")
    shown = _add_verb(verbs, "show", "one run: parameters, metrics, artifacts, lineage")
    shown.add_argument("name", metavar="RUN", help="name, job, title or beginning of the id")
    compared = _add_verb(verbs, "diff", "how runs differ: parameters, metrics, code, data")
    compared.add_argument("names", nargs="+", metavar="RUN")
    traced = _add_verb(verbs, "lineage", "what a run was made from, and what was made of it")
    traced.add_argument("name", metavar="RUN")
    _add_export(verbs)
    tagged = _add_verb(verbs, "tag", "set and remove tags of a run")
    tagged.add_argument("name", metavar="RUN")
    tagged.add_argument("tags", nargs="*", metavar="KEY=VALUE")
    tagged.add_argument(
        "--remove", action="append", default=[], metavar="KEY", help="a tag to remove"
    )
    removed = _add_verb(verbs, "rm", "remove runs with their metrics; jobs and results stay")
    removed.add_argument("names", nargs="+", metavar="RUN")
    imported = _add_verb(verbs, "import", "runs of jobs from elsewhere, by their run.json")
    imported.add_argument(
        "places",
        nargs="+",
        metavar="DIR|FILE|s3://…|JOB",
        help="output of jobs, or output.tar.gz; a job on SageMaker",
    )
    add_place_options(imported)
    imported.add_argument("--experiment", default="", metavar="NAME", help="put them into it")
    drawn = _add_verb(verbs, "page", "all runs as one page that opens offline")
    _add_choice(drawn)
    drawn.add_argument(
        "--html", type=Path, default=Path("runs.html"), metavar="FILE", help="(default runs.html)"
    )


def _add_export(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add_verb(verbs, "export", "runs as CSV, Parquet, or on an MLflow server")
    parser.add_argument("names", nargs="*", metavar="RUN", help="all that fit, if none is named")
    _add_choice(parser)
    targets = parser.add_mutually_exclusive_group(required=True)
    targets.add_argument("--csv", metavar="FILE|-", help="a row for each run; - prints it")
    targets.add_argument("--parquet", type=Path, metavar="FILE", help="the same; needs pyarrow")
    targets.add_argument("--mlflow", metavar="URI", help="http(s)://… or an ARN; with all points")
    parser.add_argument(
        "--points", action="store_true", help="a row for each point of each metric instead"
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--experiment", default="", metavar="NAME", help="only its runs")
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="such as 'params.lr < 0.01 and metrics.loss < 1'",
    )
    parser.add_argument(
        "--sort",
        default="created",
        metavar="KEY",
        help="metric:NAME, metric:NAME.min, param:NAME, created, duration, name; largest first",
    )
    parser.add_argument("--reverse", action="store_true", help="smallest first")


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_root_option(parser)
    parser.set_defaults(run=f"run_{name}")
    return parser
