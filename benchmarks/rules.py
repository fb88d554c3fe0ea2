"""What rules cost: to the training they watch, and per step, compared with loops over smdebug.

Usage: python benchmarks/rules.py [--rounds 7] [--json]

Training: a net of 25 million parameters runs on one thread of the CPU and saves what ten rules
need every 10 steps. Meanwhile the evaluator runs as the launcher starts it (a process of its own,
nice 10, one thread), but in every second round of 10 steps it is halted, by SIGSTOP. The figure is
the time per step of the others by that of these, in one process, as two differ by more; it is
a bound, since the evaluator does the work of two rounds in one. It needs a spare core, and its
note says how many steps the evaluator got round to, since one that is starved slows nothing.

Findings: the same training, with the ten rules and some that fire at a step that was named: the
longest time from a step's file being there to its finding being there, by the clock of the files,
compared with the two seconds that are promised.

Evaluation: the same ten questions about the same files, asked by our rules and by a
straightforward loop over smdebug's `trial.tensor(name).value(step)`, as a custom rule for the
service would. The figure is the time per saved step.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from figures import CannotMeasure, Figure, run, say
from stoker.bus.rule_plan import write_rule_plan
from stoker.contract.paths import Paths

_PACKAGES = Path(__file__).resolve().parents[1] / "container_src"
_INTERVAL = 10
_WIDTH, _LAYERS, _BATCH = 1024, 24, 64
_SAVED_STEPS = 4
_FINDINGS = 6
_NAMED_RULE = """
import stoker


class AtStep(stoker.Rule):
    \"\"\"Fires at one step.\"\"\"

    at: int = stoker.parameter(0, "the step")

    def needs(self):
        return [stoker.Need(collection="losses")]

    def check(self, step, tensors):
        return stoker.Finding(message="it is there") if step == self.at else None
"""
# None of them fires here: one that does is over, and costs nothing any more.
_RULES = (
    "VanishingGradient(threshold=0), ExplodingTensor(collection_names='weights,gradients'), "
    "WeightUpdateRatio(small_threshold=0), TensorVariance(collection_names=weights, "
    "max_threshold=1e9), UnchangedTensor(collection_names=weights, atol=0, rtol=0), "
    "AllZero(collection_names='weights,gradients'), LossNotDecreasing(num_steps=100000), "
    "DeadRelu(threshold_layer=100), PoorWeightInitialization(threshold=1e30, "
    "distribution_range=0, patience=100000, steps=100000), "
    "TensorVariance(name=GradientVariance, collection_names=gradients, max_threshold=1e9)"
)


def main() -> int:
    parser = argparse.ArgumentParser(description="What rules cost.")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each one takes")
    parser.add_argument("--train", nargs=2, metavar=("WHAT", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--evaluate", nargs=2, metavar=("WHO", "FOLDER"), help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    if args.train:
        _train(*args.train)
        return 0
    if args.evaluate:
        _EVALUATORS[args.evaluate[0]](args.evaluate[1])
        return 0
    return run(measure, parser, peer="without / loops over smdebug")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Two figures of the training, one of the evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        training = _measure_training(Path(folder) / "watched", args.rounds)
        evaluation = _measure_evaluation(Path(folder) / "values", args.rounds)
        finding = _measure_findings(Path(folder) / "found")
    return [training, evaluation, finding]


def _measure_training(root: Path, rounds: int) -> Figure:
    say(f"training with and without rules, {rounds} rounds of {_INTERVAL} steps …")
    training, evaluator = _Training(root), _start_evaluator(root, _RULES)
    times: dict[signal.Signals, list[float]] = {signal.SIGSTOP: [], signal.SIGCONT: []}
    try:
        training.run(_INTERVAL)
        for turn in range(rounds + 1):
            for order, milliseconds in times.items():
                evaluator.send_signal(order)
                taken = training.run(_INTERVAL)
                if turn:  # the first one warms up
                    milliseconds.append(taken)
        _require_running(evaluator)
    finally:
        evaluator.kill()
        evaluator.wait()
        training.stop()
    evaluated, saved = _progress(root, 2 * rounds + 3)
    pairs = zip(times[signal.SIGCONT], times[signal.SIGSTOP], strict=True)
    added = sorted(watched - plain for watched, plain in pairs)
    without = statistics.median(times[signal.SIGSTOP])
    quarter = len(added) // 4
    return Figure(
        name="a step of training with ten rules",
        ours=without + statistics.median(added),
        peer=without,
        unit="ms",
        goal=1.03,
        # An evaluator that was starved costs nothing, and proves nothing.
        note=f"{os.cpu_count()} cores; {evaluated} of {saved} steps were evaluated meanwhile; the "
        f"middle half of the rounds added {added[quarter]:.1f} to {added[-1 - quarter]:.1f} ms",
    )


def _measure_findings(root: Path) -> Figure:
    say(f"findings at {_FINDINGS} steps …")
    (root / "code").mkdir(parents=True)
    (root / "code/named.py").write_text(_NAMED_RULE)
    steps = [_INTERVAL * number for number in range(1, _FINDINGS + 1)]
    named = [f"named.py:AtStep(name=At{step}, at={step})" for step in steps]
    rules = ", ".join((_RULES, *named))
    training = _Training(root)
    evaluator = _start_evaluator(root, rules, "--code-dir", str(root / "code"))
    try:
        with ThreadPoolExecutor(1) as executor:
            seen = executor.submit(_watch_findings, root / "output/data/stoker/findings.jsonl")
            training.run(_INTERVAL * (_FINDINGS + 1))
            waits = [at - _written_at(root, step) for step, at in seen.result().items()]
    finally:
        evaluator.kill()
        evaluator.wait()
        training.stop()
    return Figure(
        name="from a saved step to its finding, the longest",
        ours=max(waits),
        peer=2.0,
        unit="s",
        goal=1.0,
        note=f"{_FINDINGS} findings; half of them within {statistics.median(waits):.2f} s",
    )


def _written_at(root: Path, step: int) -> float:
    (file,) = (root / "output/tensors/index").glob(f"*/{step:012d}_worker_0.json")
    return file.stat().st_mtime


def _watch_findings(file: Path) -> dict[int, float]:
    """When the finding of each step was there."""
    seen: dict[int, float] = {}
    deadline = time.monotonic() + 120
    while len(seen) < _FINDINGS:
        if time.monotonic() > deadline:
            raise CannotMeasure(f"only {len(seen)} of {_FINDINGS} findings came")
        for line in file.read_text().splitlines() if file.exists() else []:
            seen.setdefault(json.loads(line)["step"], time.time())
        time.sleep(0.01)
    return seen


def _require_running(evaluator: subprocess.Popen[str]) -> None:
    if evaluator.poll() is not None:
        raise CannotMeasure(f"the evaluator has ended:\n{evaluator.stdout.read()}")  # type: ignore[union-attr]


def _progress(root: Path, saved: int) -> tuple[int, int]:
    """How many of the saved steps the slowest rule had evaluated when the last round ended."""
    file = root / "output/data/stoker/rules.json"
    rules = json.loads(file.read_text())["rules"] if file.exists() else []
    return min((rule["evaluated_steps"] for rule in rules), default=0), saved


def _measure_evaluation(root: Path, rounds: int) -> Figure:
    say(f"evaluating {_SAVED_STEPS} steps, {rounds} rounds …")
    # Values alone, no reductions: both read the same files.
    training = _Training(root, "values")
    training.run(_INTERVAL * (_SAVED_STEPS - 1) + 1)
    training.stop()
    tensors = root / "output/tensors"
    times: dict[str, list[float]] = {name: [] for name in _EVALUATORS}
    for _ in range(rounds):
        for name in _EVALUATORS:
            done = subprocess.run(
                [sys.executable, __file__, "--evaluate", name, str(tensors)],
                env=_environ(),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise CannotMeasure(f"{name} failed:\n{done.stderr[-2000:]}")
            times[name].append(float(done.stdout.split()[-1]))
    return Figure(
        name="ten rules, a saved step",
        ours=statistics.median(times["ours"]),
        peer=statistics.median(times["smdebug"]),
        unit="ms",
        goal=0.5,
    )


class _Training:
    """A process that trains on command."""

    def __init__(self, root: Path, what: str = "needs") -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--train", what, str(root / "output/tensors")],
            env=_environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, steps: int) -> float:
        """Milliseconds a step."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        stdin.write(f"{steps}\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise CannotMeasure("the training has ended")
        return float(line) / steps

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def _start_evaluator(root: Path, rules: str, *arguments: str) -> subprocess.Popen[str]:
    write_rule_plan(Paths(root=str(root)), rules)
    return subprocess.Popen(
        [sys.executable, "-m", "stoker.debugging.evaluate", *arguments],
        env={**_environ(), "STOKER_ROOT": str(root), "STOKER_RULES": rules},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _environ() -> dict[str, str]:
    inherited = dict(os.environ)  # noqa: TID251 - of this machine, for our processes
    return {**inherited, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(_PACKAGES)}


def _train(what: str, folder: str) -> None:
    """In a process of its own: one line with a number of steps in, one with milliseconds out."""
    import torch
    from torch import nn

    from stoker.debugging.hook.attach import attach
    from stoker.debugging.hook.config import read_hook_config
    from stoker.debugging.specs import make_needs, read_specs

    torch.manual_seed(0)
    torch.set_num_threads(1)
    needs = make_needs(read_specs(_RULES))
    if what == "values":
        needs = [replace(need, reductions=()) for need in needs]
    config = read_hook_config({"HookParameters": {"save_interval": str(_INTERVAL)}})
    hook = attach(config, folder, needs=needs)
    layers: list[nn.Module] = []
    for _ in range(_LAYERS):
        layers += [nn.Linear(_WIDTH, _WIDTH), nn.ReLU()]
        nn.init.kaiming_normal_(layers[-2].weight, nonlinearity="relu")  # type: ignore[arg-type]
    model, criterion = nn.Sequential(*layers, nn.Linear(_WIDTH, 10)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(_BATCH, _WIDTH), torch.randint(0, 10, (_BATCH,))
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()
        print((time.perf_counter() - start) * 1e3, flush=True)
        hook.flush()


def _evaluate_ours(folder: str) -> None:
    from stoker.debugging.evaluate import evaluate_saved
    from stoker.debugging.specs import read_specs
    from stoker.debugging.tensors import SavedTensors

    specs = read_specs(_RULES)
    start = time.perf_counter()
    saved = SavedTensors(folder)
    rules = evaluate_saved(saved, specs, steps=saved.steps()[:_SAVED_STEPS])
    seconds = time.perf_counter() - start
    wrong = [rule.status for rule in rules if rule.status.status not in ("NoIssuesFound",)]
    if wrong:
        raise CannotMeasure(f"these rules did not evaluate every step: {wrong}")
    print(seconds * 1e3 / _SAVED_STEPS)


def _evaluate_smdebug(folder: str) -> None:
    from smdebug.trials import create_trial

    start = time.perf_counter()
    trial = create_trial(folder)
    steps = trial.steps()[:_SAVED_STEPS]
    fired = [question for step in steps for question in _QUESTIONS if question(trial, step, steps)]
    seconds = time.perf_counter() - start
    if fired:
        raise CannotMeasure(f"these fired: {fired}")
    print(seconds * 1e3 / _SAVED_STEPS)


# One question a rule, as the guide to custom rules writes them.
def _values(trial: Any, step: int, **which: str) -> list[Any]:  # noqa: ANN401 - smdebug's
    return [trial.tensor(n).value(step) for n in trial.tensor_names(step=step, **which)]


def _vanishing(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    return any(np.mean(np.abs(v)) < 0 for v in _values(trial, step, collection="gradients"))


def _exploding(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    both = [*_values(trial, step, collection="weights")]
    both += _values(trial, step, collection="gradients")
    return any(not np.all(np.isfinite(v)) for v in both)


def _update_ratio(trial: Any, step: int, steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    if step == steps[0]:
        return False
    before = _values(trial, steps[steps.index(step) - 1], collection="weights")
    pairs = zip(_values(trial, step, collection="weights"), before, strict=True)
    ratios = [np.linalg.norm(w - b) / (np.linalg.norm(b) + 1e-9) for w, b in pairs]
    return any(r > 10 or r < 0 for r in ratios)


def _variance(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    return any(np.var(v) > 1e9 for v in _values(trial, step, collection="weights"))


def _gradient_variance(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    return any(np.var(v) > 1e9 for v in _values(trial, step, collection="gradients"))


def _unchanged(trial: Any, step: int, steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    last = steps[: steps.index(step) + 1][-3:]
    if len(last) < 3:
        return False
    names = trial.tensor_names(step=step, collection="weights")
    return any(
        all(
            np.allclose(trial.tensor(n).value(s), trial.tensor(n).value(step), rtol=0, atol=0)
            for s in last
        )
        for n in names
    )


def _all_zero(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    both = [*_values(trial, step, collection="weights")]
    both += _values(trial, step, collection="gradients")
    return any(100 * np.mean(v == 0) >= 100 for v in both)


def _loss(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    return any(not np.all(np.isfinite(v)) for v in _values(trial, step, collection="losses"))


def _dead_relu(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    outputs = _values(trial, step, collection="relu_output")
    return any(100 * np.mean(np.mean(v > 0, axis=0) * 100 < 1) > 100 for v in outputs)


def _poor_start(trial: Any, step: int, _steps: list[int]) -> bool:  # noqa: ANN401 - as above
    import numpy as np

    variances = [np.var(v) for v in _values(trial, step, collection="relu_input")]
    gradients = _values(trial, step, collection="gradients")
    spreads = [np.percentile(g, 95) - np.percentile(g, 5) for g in gradients]
    return bool(max(variances) / min(variances) > 1e30 or min(spreads) < 0)


_QUESTIONS: list[Callable[[Any, int, list[int]], bool]] = [
    *(_vanishing, _exploding, _update_ratio, _variance, _unchanged),
    *(_all_zero, _loss, _dead_relu, _poor_start, _gradient_variance),
]
_EVALUATORS: dict[str, Callable[[str], None]] = {
    "ours": _evaluate_ours,
    "smdebug": _evaluate_smdebug,
}

if __name__ == "__main__":
    sys.exit(main())
