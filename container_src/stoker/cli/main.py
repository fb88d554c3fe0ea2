"""The `stoker` command.

Exit codes: 0 ok, 1 the user's job failed, 2 usage, 3 our fault or this machine's.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence

from stoker import __version__
from stoker.cli.commands import (
    build,
    check,
    checkpoints,
    doctor,
    local,
    logs,
    metric_definitions,
    push,
    rules,
    simulate_spot,
    smdebug,
    status,
    stop,
    tensorboard,
    tensors,
    train,
)
from stoker.errors import StokerError
from stoker.machine.failures import UsageRefused

_COMMANDS = (
    *(build, train, local, logs, stop, status, tensorboard, metric_definitions),
    *(rules, tensors, checkpoints, simulate_spot, smdebug, doctor, check, push),
)
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        argv: the arguments; those of the process when left out.

    Returns:
        The exit code.
    """
    args = make_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        print("stoker: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except StokerError as error:
        if args.debug:
            traceback.print_exc()
        print(f"stoker: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageRefused) else 3
    except Exception as error:
        if args.debug:
            raise
        print(
            f"stoker: a mistake of ours: {type(error).__name__}: {error}\n"
            "  fix: run it again as `stoker --debug …` and report what it prints",
            file=sys.stderr,
        )
        return 3


def make_parser() -> argparse.ArgumentParser:
    """The command line with all verbs."""
    parser = argparse.ArgumentParser(
        prog="stoker", description="Training images for SageMaker, and a platform to run them."
    )
    parser.add_argument("--version", action="version", version=f"stoker {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())
