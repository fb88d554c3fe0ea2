"""The arguments of `stoker train`."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.arguments.cloud_options import add_cloud_options
from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("script", type=Path, help="the entry point, such as src/train.py")
    parser.add_argument("--source-dir", type=Path, help="folder of the code (default: script's)")
    parser.add_argument(
        "--channel",
        action="append",
        default=[],
        metavar="NAME=FOLDER|s3://…",
        help="data of the job, at /opt/ml/input/data/NAME",
    )
    parser.add_argument("--large-source", action="store_true", help="send code above 1 GB")
    add_parameter_options(parser)
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME=REGEX",
        help="a number in the log; job.log needs none",
    )
    parser.add_argument("--instances", type=int, metavar="N", help="how many hosts (default 1)")
    parser.add_argument("--instance-type", metavar="TYPE", help="such as ml.g5.xlarge")
    parser.add_argument("--volume", type=int, metavar="GB", help="size of each host's disk")
    parser.add_argument(
        "--spot", metavar="SPEC", help="interrupt it: after=30s | every=2m,times=3 | trace=FILE"
    )
    parser.add_argument(
        "--torchrun", action="store_true", help="start the script by torchrun on every host"
    )
    parser.add_argument(
        "--keep-alive",
        metavar="TIME",
        help="keep a container ready for the next job (default 10m; 0: none)",
    )
    parser.add_argument(
        "--tag", action="append", default=[], metavar="NAME=VALUE", help="of the job"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "docker", "process"),
        default="auto",
        help="containers, or processes of this machine (default: containers if Docker answers)",
    )
    add_job_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the request and stop")
    add_root_option(parser)
    add_cloud_options(parser)
    parser.usage = "stoker train [options] SCRIPT [-- --NAME VALUE …]"
    parser.epilog = (
        "What follows -- is the script's.\n"
        "Defaults: the table [train] of stoker.toml in the source folder or in this folder."
    )
    parser.set_defaults(script_arguments=[])


def add_parameter_options(parser: argparse.ArgumentParser) -> None:
    """What the script gets."""
    parser.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a hyperparameter"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable of the job",
    )


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """How the job is run and watched."""
    parser.add_argument("--image", metavar="IMG", help="(default stoker:cpu)")
    parser.add_argument("--max-run", metavar="TIME", help="stop it after 30m, 2h (default 1d)")
    parser.add_argument("--name", help="name of the job (default: from the script and the time)")
    parser.add_argument("--detach", action="store_true", help="return when it is submitted")
    parser.add_argument(
        "--json", action="store_true", help="print the job as JSON; the log goes to stderr"
    )
