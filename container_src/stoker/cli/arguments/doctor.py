"""The arguments of `stoker doctor`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.cloud_options import PLACES
from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("--image", metavar="IMG", help="(default stoker:cpu)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_root_option(parser)
    parser.add_argument(
        "--on", choices=PLACES, default="local", help="look at an account of AWS (default local)"
    )
    group = parser.add_argument_group("with --on sagemaker (default: [train] in stoker.toml)")
    group.add_argument("--region", metavar="R", help="(default: as AWS is configured)")
    group.add_argument("--role", metavar="ARN|NAME", help="of the jobs")
    group.add_argument("--output", metavar="s3://…", help="of the jobs")
    group.add_argument("--instance-type", metavar="TYPE", help="(default ml.m5.xlarge)")
    group.add_argument("--repository", metavar="NAME", help="of ECR, for a local image")
    group.add_argument("--subnet", action="append", default=[], metavar="ID", help="of the jobs")
    group.add_argument("--use-spot", action="store_true", help="jobs will use spot instances")
