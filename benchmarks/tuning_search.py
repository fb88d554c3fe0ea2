"""Bayesian search compared with Optuna's TPE and Gaussian process, and with random search.

Usage: python benchmarks/tuning_search.py [--seeds 10] [--methods ours,random,…] [--table] [--json]

Twelve problems, 60 trials, one after another and four at a time. Ranks are those of the regret
among ours, Optuna's two and random search, for each problem and seed; 1 is best. Finished races
are kept in .build/benchmarks/tuning_search: Optuna's Gaussian process takes hours on a busy
machine. `--table` also prints the median regret of each problem as Markdown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from figures import CannotMeasure, Figure, remark, run, say
from stoker.tuning.search import suggest
from stoker.tuning.study import Goal, Study, Trial, TrialState
from tuning_problems import make_problems
from tuning_races import METHODS, TRIALS, run_race
from venvs import OPTUNA, make_optuna_venv

FOLDER = Path(__file__).resolve().parent
RACES = FOLDER.parent / ".build/benchmarks/tuning_search"
MODES = {"sequential": 1, "4 parallel": 4}
PEERS = ("optuna-tpe", "optuna-gp")
AT = (30, 60)
ASK_LIMITS = {200: 50.0, 750: 250.0}

_SLOWEST = "optuna-gp"

Race = tuple[str, int]
"""The name of a problem, and a seed."""

Regrets = dict[Race, list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Quality and cost of the Bayesian search.")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", default=",".join(METHODS), help="which to run; others: kept")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--race", nargs=2, metavar=("METHOD", "MODE"), help=argparse.SUPPRESS)
    parser.add_argument("--time", type=int, metavar="TRIALS", help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    if args.time:
        print(_time_suggestions(args.time))
        return 0
    if args.race:
        _run_races(args.race[0], args.race[1], args.seeds)
        return 0
    return run(measure, parser, peer="peer")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Ranks, trials to random search's regret, and the time of one suggestion."""
    chosen = args.methods.split(",")
    for mode in MODES:
        for method in chosen:
            _ensure_races(method, mode, args.seeds)
    figures = []
    for mode in MODES:
        races = {method: _read_races(method, mode) for method in METHODS}
        shared = _find_shared(races)
        if not shared:
            raise CannotMeasure(f"no race of all methods is complete ({mode})")
        remark(f"{mode}: {len(shared)} races of {len({name for name, _ in shared})} problems")
        _remark_without_slowest(races, len(shared), mode)
        figures += [_compare_ranks(races, shared, mode, at) for at in AT]
        figures.append(_count_trials(races, mode))
        if args.table:
            print(_make_table(races, shared, mode))
    return figures + [_time_ask(count, limit) for count, limit in ASK_LIMITS.items()]


def _find_shared(races: dict[str, Regrets]) -> list[Race]:
    """The races that all of these methods have finished."""
    return sorted(set.intersection(*(set(regrets) for regrets in races.values())))


def _remark_without_slowest(races: dict[str, Regrets], known: int, mode: str) -> None:
    """The ranks of the methods that have finished more races than Optuna's process."""
    others = {method: regrets for method, regrets in races.items() if method != _SLOWEST}
    shared = _find_shared(others)
    for at in AT if len(shared) > known else ():
        said = _say_means(_rank(others, shared, at))
        remark(f"{mode}, {len(shared)} races without {_SLOWEST}, mean ranks at {at}: {said}")


def _rank(races: dict[str, Regrets], shared: Sequence[Race], at: int) -> dict[str, list[float]]:
    """The rank of each method in each race after so many trials."""
    ranks: dict[str, list[float]] = {method: [] for method in races}
    for race in shared:
        regrets = {method: races[method][race][at - 1] for method in races}
        for method, regret in regrets.items():
            better = sum(other < regret for other in regrets.values())
            equal = sum(other == regret for other in regrets.values()) - 1
            ranks[method].append(1 + better + equal / 2)
    return ranks


def _say_means(ranks: dict[str, list[float]]) -> str:
    return ", ".join(f"{method} {statistics.mean(each):.2f}" for method, each in ranks.items())


def _compare_ranks(
    races: dict[str, Regrets], shared: Sequence[Race], mode: str, at: int
) -> Figure:
    ranks = _rank(races, shared, at)
    medians = {method: statistics.median(each) for method, each in ranks.items()}
    return Figure(
        name=f"median rank at {at} trials, {mode}",
        ours=medians["ours"],
        peer=min(medians[peer] for peer in PEERS),
        unit="",
        goal=1.0,
        note=f"mean ranks: {_say_means(ranks)}",
    )


def _count_trials(races: dict[str, Regrets], mode: str) -> Figure:
    """How many trials ours needs for the regret that random search has after all of them."""
    needed = []
    for name in sorted({name for name, _ in races["ours"]}):
        target = statistics.median(r[-1] for (n, _), r in races["random"].items() if n == name)
        counts = [
            next((i for i, regret in enumerate(r, start=1) if regret <= target), 2 * TRIALS)
            for (n, _), r in races["ours"].items()
            if n == name
        ]
        needed.append(statistics.median(counts))
    return Figure(
        name=f"trials to random search's regret, {mode}",
        ours=statistics.median(needed),
        peer=TRIALS,
        unit="trials",
        goal=0.5,
        note=f"worst problem: {max(needed):g} trials",
    )


def _time_ask(count: int, limit: float) -> Figure:
    done = _run_alone(Path(sys.executable), ["--time", str(count)], capture_output=True)
    return Figure(
        name=f"CPU time of a suggestion after {count} trials",
        ours=float(done.stdout),
        peer=limit,
        unit="ms",
        goal=1.0,
        note=f"the peer is the limit; one thread, load {os.getloadavg()[0]:.1f}",
    )


def _time_suggestions(count: int) -> float:
    """Milliseconds of one suggestion, the median of several."""
    problem = next(p for p in make_problems() if p.name == "noisy-boosting-6")
    source = np.random.default_rng(0)
    trials = []
    for number in range(1, count + 1):
        values = problem.space.decode(source.random(len(problem.space.parameters)).tolist())
        objective = problem.evaluate(values)
        state = TrialState.COMPLETED
        trials.append(Trial(number=number, parameters=values, state=state, objective=objective))
    study = Study(space=problem.space, goal=Goal.MINIMIZE)
    times = []
    for number in range(count + 1, count + 12):
        start = time.process_time()
        suggest(study, number, trials)
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


def _make_table(races: dict[str, Regrets], shared: Sequence[Race], mode: str) -> str:
    lines = [f"| {mode}, median regret | " + " | ".join(f"{m} @{a}" for a in AT for m in METHODS)]
    lines += ["|---" * (1 + len(AT) * len(METHODS))]
    for name in dict.fromkeys(problem.name for problem in make_problems()):
        seeds = [race for race in shared if race[0] == name]
        if seeds:
            cells = [
                f"{statistics.median(races[method][race][at - 1] for race in seeds):.2g}"
                for at in AT
                for method in METHODS
            ]
            lines.append(f"| {name} | " + " | ".join(cells))
    return "\n".join(f"{line} |" for line in lines)


def _file(method: str, mode: str) -> Path:
    """Of the races of a method; another file when what is raced has changed."""
    digest = hashlib.sha256((FOLDER / "tuning_problems.py").read_bytes())
    if method == "ours":
        for source in sorted((FOLDER.parent / "container_src/stoker/tuning").glob("*.py")):
            digest.update(source.read_bytes())
    elif method in PEERS:
        digest.update(OPTUNA[0].encode())
    return RACES / f"{method}-{MODES[mode]}-{digest.hexdigest()[:8]}.jsonl"


def _read_races(method: str, mode: str) -> Regrets:
    file = _file(method, mode)
    lines = file.read_text().splitlines() if file.exists() else []
    return {(name, seed): regrets for name, seed, regrets in map(json.loads, lines)}


def _ensure_races(method: str, mode: str, seeds: int) -> None:
    if len(_read_races(method, mode)) >= seeds * len(make_problems()):
        return
    say(f"{method}, {mode} …")
    python = make_optuna_venv() / "bin/python" if method in PEERS else Path(sys.executable)
    _run_alone(python, ["--race", method, mode, "--seeds", str(seeds)])


def _run_alone(
    python: Path, arguments: Sequence[str], *, capture_output: bool = False
) -> subprocess.CompletedProcess[str]:
    """This file in another process, with one thread for linear algebra."""
    settings = [f"PYTHONPATH={FOLDER.parent / 'container_src'}", "OMP_NUM_THREADS=1"]
    argv = ["env", *settings, "OPENBLAS_NUM_THREADS=1", str(python), __file__, *arguments]
    done = subprocess.run(argv, stdout=subprocess.PIPE if capture_output else None, text=True)
    if done.returncode != 0:
        raise CannotMeasure(f"{' '.join(arguments)} ended with code {done.returncode}")
    return done


def _run_races(method: str, mode: str, seeds: int) -> None:
    known, file = _read_races(method, mode), _file(method, mode)
    file.parent.mkdir(parents=True, exist_ok=True)
    # Seeds are the outer loop: what is interrupted has results of all problems.
    for seed in range(seeds):
        for problem in make_problems():
            if (problem.name, seed) not in known:
                regrets = run_race(method, problem, seed=seed, parallel=MODES[mode])
                with file.open("a") as races:
                    races.write(json.dumps([problem.name, seed, regrets]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
