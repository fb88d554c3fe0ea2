"""The arguments of `stoker advise`."""

from __future__ import annotations

import argparse

from stoker.cli.arguments.root_option import add_root_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("job", help="a job of the local platform that was profiled")
    parser.add_argument(
        "--try",
        dest="trials",
        metavar="NAME[=VALUE],…",
        default="",
        help="workers, prefetch, pin_memory, persistent_workers, batch_size, threads, amp, "
        "channels_last, compile, save_interval (default: what the job's report suggests)",
    )
    parser.add_argument(
        "--steps", type=int, default=30, metavar="N", help="of each experiment (30)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(instance_type=None, region=None)
    add_root_option(parser)
