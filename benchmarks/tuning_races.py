"""One search of one problem by one method; Optuna's need an environment that has it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from stoker.tuning.parameters import Categorical, Integer, Parameter, Scaling, resolve_scaling
from stoker.tuning.search import suggest
from stoker.tuning.study import Goal, Strategy, Study, Trial, TrialState
from tuning_problems import Problem

TRIALS = 60
METHODS = ("ours", "random", "optuna-tpe", "optuna-gp")


class Searcher(Protocol):
    """What is compared."""

    def ask(self, number: int) -> dict[str, str]: ...

    def tell(self, number: int, value: float) -> None: ...


def run_race(method: str, problem: Problem, *, seed: int, parallel: int) -> list[float]:
    """The regret of the best trial so far after each of the trials.

    With noise the best is the one that looks best; its regret is that of its true value.
    """
    searcher = _MAKERS[method](problem, seed)
    noise = np.random.default_rng([seed, 1]).standard_normal(TRIALS + 1) * problem.noise
    running: list[tuple[int, float]] = []
    seen, regrets = np.inf, []

    def end_oldest() -> None:
        nonlocal seen
        number, truth = running.pop(0)
        value = truth + noise[number]
        searcher.tell(number, value)
        regret = truth - problem.optimum if value < seen else regrets[-1]
        seen = min(seen, value)
        regrets.append(max(regret, 1e-12))

    for number in range(1, TRIALS + 1):
        if len(running) == parallel:
            end_oldest()
        running.append((number, problem.evaluate(searcher.ask(number))))
    while running:
        end_oldest()
    return regrets


class _Ours:
    def __init__(self, problem: Problem, seed: int, strategy: Strategy) -> None:
        space = problem.space
        self.study = Study(space=space, goal=Goal.MINIMIZE, strategy=strategy, seed=seed)
        self.trials: dict[int, Trial] = {}

    def ask(self, number: int) -> dict[str, str]:
        values = suggest(self.study, number, list(self.trials.values()))
        assert values is not None
        self.trials[number] = Trial(number=number, parameters=values)
        return values

    def tell(self, number: int, value: float) -> None:
        self.trials[number] = Trial(
            number=number,
            parameters=self.trials[number].parameters,
            state=TrialState.COMPLETED,
            objective=value,
        )


class _Optuna:
    def __init__(self, problem: Problem, seed: int, sampler: str) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore")
        samplers = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}
        self.study = optuna.create_study(sampler=samplers[sampler](seed=seed))
        self.problem = problem
        self.trials: dict[int, Any] = {}

    def ask(self, number: int) -> dict[str, str]:
        trial = self.trials[number] = self.study.ask()
        return {p.name: _suggest(trial, p) for p in self.problem.space.parameters}

    def tell(self, number: int, value: float) -> None:
        self.study.tell(self.trials[number], value)


def _suggest(trial: Any, parameter: Parameter) -> str:  # noqa: ANN401 - Optuna may be missing
    if isinstance(parameter, Categorical):
        return str(trial.suggest_categorical(parameter.name, list(parameter.values)))
    scaling = resolve_scaling(parameter)
    is_log = scaling is Scaling.LOGARITHMIC
    if isinstance(parameter, Integer):
        return str(trial.suggest_int(parameter.name, parameter.low, parameter.high, log=is_log))
    low, high = parameter.low, parameter.high
    if scaling is Scaling.REVERSE_LOGARITHMIC:
        return repr(1 - float(trial.suggest_float(parameter.name, 1 - high, 1 - low, log=True)))
    return repr(float(trial.suggest_float(parameter.name, low, high, log=is_log)))


_MAKERS: dict[str, Callable[[Problem, int], Searcher]] = {
    "ours": lambda problem, seed: _Ours(problem, seed, Strategy.BAYESIAN),
    "random": lambda problem, seed: _Ours(problem, seed, Strategy.RANDOM),
    "optuna-tpe": lambda problem, seed: _Optuna(problem, seed, "tpe"),
    "optuna-gp": lambda problem, seed: _Optuna(problem, seed, "gp"),
}
