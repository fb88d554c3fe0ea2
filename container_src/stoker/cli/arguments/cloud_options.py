"""The options of SageMaker itself: of `train` and `tune`, and of the verbs for their jobs."""

from __future__ import annotations

import argparse

PLACES = ("local", "sagemaker")


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Where the job is."""
    parser.add_argument(
        "--on",
        choices=PLACES,
        help="this machine's platform, or SageMaker (default: where the job was sent from here)",
    )
    parser.add_argument("--region", metavar="R", help="of SageMaker (default: as configured)")


def add_cloud_options(parser: argparse.ArgumentParser) -> None:
    """What `--on sagemaker` accepts in addition."""
    group = parser.add_argument_group("with --on sagemaker")
    group.add_argument("--on", choices=PLACES, default="local", help="(default local)")
    group.add_argument("--region", metavar="R", help="(default: as AWS is configured)")
    group.add_argument(
        "--role", metavar="ARN|NAME", help="(default: the one that trusts SageMaker)"
    )
    group.add_argument("--output", metavar="s3://…", help="(default: the SDKs' bucket)")
    group.add_argument("--repository", metavar="NAME", help="of ECR, for a local image")
    group.add_argument("--use-spot", action="store_true", help="spot instances of SageMaker")
    group.add_argument("--max-wait", metavar="TIME", help="waiting and training on spot")
    group.add_argument("--max-pending", metavar="TIME", help="give up when no machine is found")
    group.add_argument(
        "--instance-group",
        action="append",
        default=[],
        metavar="NAME=TYPE:COUNT",
        help="one of several groups, in place of --instance-type",
    )
    group.add_argument("--prefer", metavar="TYPE,TYPE", help="take the first type that is free")
    group.add_argument("--training-plan", metavar="ARN", help="reserved machines")
    group.add_argument(
        "--subnet",
        action="append",
        default=[],
        metavar="ID",
        help="of a VPC; several times for several",
    )
    group.add_argument(
        "--security-group", action="append", default=[], metavar="ID", help="of the VPC"
    )
    group.add_argument("--kms-key", metavar="KEY", help="encrypts what the job leaves")
    group.add_argument("--volume-kms-key", metavar="KEY", help="encrypts the machines' disks")
    group.add_argument(
        "--remote-debug", action="store_true", help="allow a shell in the container"
    )
    group.add_argument("--queue", metavar="NAME", help="submit it through this queue of AWS Batch")
    group.add_argument("--priority", type=int, metavar="N", help="in the queue")
    group.add_argument("--share", metavar="NAME", help="of a fair-share queue")
    group.add_argument("--allow-secrets", action="store_true", help="send .env, keys and the like")
    group.add_argument(
        "--steps", type=int, metavar="N", help="estimate the cost of N steps from local jobs"
    )
