"""The `stoker` command.

Exit codes: 0 ok, 1 the user's job failed, 2 usage, 3 our fault or this machine's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from stoker import __version__
from stoker.cli.parser import Parser, VerbParser, module_name
from stoker.errors import StokerError
from stoker.machine.failures import UsageRefused

# Verb → help, in the order of `stoker --help`. A verb's arguments are in stoker.cli.arguments,
# what it does in stoker.cli.commands, in modules of its name; both are loaded on use.
_VERBS = {
    "build": "make the training image",
    "init": "write a small training project to begin with",
    "train": "run a training script on the local platform, or on SageMaker",
    "tune": "search hyperparameters of a script on the local platform",
    "rerun": "run a job again, with other parameters",
    "local": "the platform of this machine: up, down, env",
    "logs": "print the log of a job",
    "stop": "stop a job",
    "attach": "watch a job that runs already",
    "status": "all jobs, or one of them",
    "runs": "look at, compare, export and import tracked runs",
    "tensorboard": "show the curves and profiler traces of a job, live",
    "metric-definitions": "regexes for the metrics that a script logs",
    "report": "where the time and the money of a job went, as a page",
    "advise": "try the advice of a job's report in short experiments",
    "rules": "list and explain rules, evaluate saved tensors",
    "tensors": "look at the tensors that were saved of a run",
    "checkpoints": "look at, verify and prune checkpoints",
    "simulate-spot": "how often to save, and what spot machines cost a job",
    "smdebug": "smdebug on today's Python, NumPy, protobuf",
    "prices": "what instances cost, and AWS's price list",
    "doctor": "look for what would stop a job here",
    "check": "does an image keep SageMaker's contract?",
    "push": "put an image into ECR under an immutable tag",
    "completion": "print the shell's completion of this command line",
}
# 128 + SIGINT, as a shell reports a program that it ended.
_INTERRUPTED = 130
_CLOSED_PIPE = 141  # as a program that SIGPIPE ends
_EXAMPLES = """\
examples:
  stoker init my-training                     a small project to begin with
  stoker train src/train.py --channel train=./data --param lr=0.01
  stoker tune src/train.py --range lr=1e-5..1e-1:log --minimize loss='loss=([0-9.]+)'
  eval "$(stoker local env)"                  stock SageMaker code uses this machine
  stoker COMMAND --help                       the options of a command"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        argv: the arguments; those of the process when left out.

    Returns:
        The exit code.
    """
    _prepare_streams()
    try:
        args = make_parser().parse_args(argv)
    except SystemExit:  # --help, or a usage mistake
        _flush()
        raise
    except KeyboardInterrupt:
        return _INTERRUPTED
    try:
        # Only the module of this verb: `stoker --help` and Tab must not wait for NumPy or boto3.
        command = import_module(f"stoker.cli.commands.{module_name(args.verb)}")
        code = int(getattr(command, args.run)(args))
        # Here, not at exit: Python would print "Exception ignored … BrokenPipeError" and end with
        # 120.
        return code if _flush() else _CLOSED_PIPE
    except BrokenPipeError:  # `stoker … | head`
        _flush()
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        print("stoker: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except StokerError as error:
        if args.debug:
            import traceback  # 25 modules that only this case needs

            traceback.print_exc()
        print(f"stoker: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageRefused) else 3
    except Exception as error:
        if args.debug:
            raise
        if isinstance(error, OSError) and error.errno is not None:
            return _tell_os_error(error)
        print(
            f"stoker: internal error: {type(error).__name__}: {error}\n"
            "  fix: run it again as `stoker --debug …` and report what it prints",
            file=sys.stderr,
        )
        return 3


def _prepare_streams() -> None:
    """Make output that cannot fail: a job must not lose its watcher over a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed: `stoker … >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
        elif hasattr(stream, "reconfigure"):
            # Not every terminal and log is UTF-8, and a job may print anything.
            stream.reconfigure(errors="backslashreplace")


def _tell_os_error(error: OSError) -> int:
    """This machine refused something: a path without permission, a full disk, a long name."""
    from errno import ENAMETOOLONG, ENOSPC  # needed in this case only

    place = f": {error.filename}" if error.filename is not None else ""
    fixes = {
        ENOSPC: "free space on that disk (`df -h`), or set TMPDIR or --root to another one",
        ENAMETOOLONG: "use a shorter name",
    }
    fix = fixes.get(
        error.errno or 0, "look at that path: does it exist, and may this user use it?"
    )
    print(f"stoker: {error.strerror}{place}\n  fix: {fix}", file=sys.stderr)
    return 3


def _flush() -> bool:
    """False if stdout is a closed pipe, which is not an error: exit prints nothing either."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still in the buffer goes there when the interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def make_parser() -> argparse.ArgumentParser:
    """The command line with all verbs."""
    parser = Parser(
        prog="stoker",
        description="Training images for SageMaker, and a platform to run them.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"stoker {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    verbs = parser.add_subparsers(
        metavar="COMMAND", dest="verb", required=True, parser_class=VerbParser
    )
    for verb, about in _VERBS.items():
        verbs.add_parser(verb, help=about, verb=verb)
    return parser


if __name__ == "__main__":
    sys.exit(main())
