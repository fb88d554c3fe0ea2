"""The evaluator as a process: `python -m stoker.debugging.evaluate [--prepare] --code-dir DIR`.

The launcher runs it twice: before the worker with `--prepare`, and then while it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stoker.contract.debugger import CHECK_VARIABLE, tensors_dir
from stoker.contract.job import Job, read_job
from stoker.debugging.evaluate.evaluator import Evaluator
from stoker.debugging.evaluate.preparation import prepare_rules, read_prepared_rules, summarize
from stoker.debugging.evaluate.resource_limits import limit_resources
from stoker.debugging.evaluate.signals import EvaluatorSignals
from stoker.debugging.evaluate.watched import WatchedRule
from stoker.debugging.tensors import SavedTensors
from stoker.errors import StokerError

CHECK_SECONDS = 300.0
"""What one rule may take for one step. A large model, a slow disk and a busy machine take their
time; a rule that hangs must not keep the others from stopping a bad run."""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; a mistake in the rules is two lines on stderr and its own code."""
    parser = argparse.ArgumentParser(prog="stoker.debugging.evaluate")
    parser.add_argument("--prepare", action="store_true", help="check the rules and leave them")
    parser.add_argument("--code-dir", type=Path, default=Path(), help="the source directory")
    arguments = parser.parse_args(argv)
    try:
        job = read_job()
        if arguments.prepare:
            specs = prepare_rules(job, arguments.code_dir, longest_seconds=_check_seconds(job))
            print(f"[stoker] rules: {summarize(specs)}", flush=True)
        else:
            evaluate(job, arguments.code_dir)
    except StokerError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"the rules cannot be prepared or evaluated: {error}", file=sys.stderr)
        return os.EX_IOERR
    return 0


def evaluate(job: Job, code_dir: Path) -> None:
    """Evaluates the run of a job from its first step to its end."""
    signals = EvaluatorSignals()
    signals.listen()
    limit_resources()
    longest_seconds = _check_seconds(job)

    def limit() -> float:
        return signals.answer_seconds(longest_seconds)

    specs = read_prepared_rules(job, code_dir)
    rules = [WatchedRule(spec, code_dir=code_dir, longest_seconds=limit) for spec in specs]
    saved = SavedTensors(tensors_dir(job.paths, job.services.debug_hook))
    Evaluator(job, rules, saved, signals=signals, say=_say).run()


def _check_seconds(job: Job) -> float:
    text = job.environ.get(CHECK_VARIABLE, "")
    if text.isascii() and text.isdigit() and int(text):
        return float(text)
    if text:
        _say(f"warning: {CHECK_VARIABLE} is {text!r:.80}: use whole seconds")
    return CHECK_SECONDS


def _say(text: str) -> None:
    for line in text.splitlines():
        # One write for a whole line: the training's own lines are not cut by it.
        with suppress(OSError):  # a user's rule has closed it: the other rules continue
            os.write(1, f"[stoker] {line}\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())
