"""Problems with known optima on which searches are compared: what tuning jobs look like."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stoker.tuning.parameters import Categorical, Continuous, Integer, Parameter, Scaling
from stoker.tuning.space import SearchSpace

Values = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A function to minimise."""

    name: str
    space: SearchSpace
    evaluate: Callable[[Values], float]
    """Without noise."""

    optimum: float = 0.0
    noise: float = 0.0
    """Standard deviation of what a trial reports."""


def make_problems() -> list[Problem]:
    """Two to ten dimensions; noise, integers, categories, logarithmic scales."""
    return [
        _numeric("branin-2", [(-5, 10), (0, 15)], _branin, optimum=0.397887),
        _numeric("hartmann-6", [(0, 1)] * 6, _hartmann, optimum=-3.32237),
        _numeric("ackley-4", [(-20, 30)] * 4, _ackley),
        _numeric("rosenbrock-4", [(-2, 2)] * 4, lambda x: math.log1p(_rosenbrock(x))),
        _numeric("noisy-levy-8", [(-6, 8)] * 8, _levy, noise=0.5),
        _numeric("sparse-10", [(0, 1)] * 10, lambda x: _hartmann_3(x[:3]), optimum=-3.86278),
        _make_training(),
        _make_network(),
        _make_boosting(),
        _make_divergence(),
        _make_pipeline(),
        _make_kernel_ridge(),
    ]


def _numeric(
    name: str,
    bounds: Sequence[tuple[float, float]],
    function: Callable[[Sequence[float]], float],
    *,
    optimum: float = 0.0,
    noise: float = 0.0,
) -> Problem:
    parameters = [
        Continuous(name=f"x{i}", low=low, high=high, scaling=Scaling.LINEAR)
        for i, (low, high) in enumerate(bounds)
    ]

    def evaluate(values: Values) -> float:
        return function([float(values[p.name]) for p in parameters])

    space = SearchSpace(parameters=tuple(parameters))
    return Problem(name=name, space=space, evaluate=evaluate, optimum=optimum, noise=noise)


def _branin(x: Sequence[float]) -> float:
    bowl = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10


def _hartmann(x: Sequence[float]) -> float:
    a = [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
    p = [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
    return _sum_of_bells(x, a, p)


def _hartmann_3(x: Sequence[float]) -> float:
    a = [[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]
    p = [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
    return _sum_of_bells(x, a, p)


def _sum_of_bells(x: Sequence[float], a: object, p: object) -> float:
    distances = (np.array(a) * (np.asarray(x) - 1e-4 * np.array(p)) ** 2).sum(axis=1)
    return float(-(np.array([1, 1.2, 3, 3.2]) * np.exp(-distances)).sum())


def _ackley(x: Sequence[float]) -> float:
    v = np.asarray(x)
    bowl = -20 * np.exp(-0.2 * np.sqrt((v**2).mean()))
    return float(bowl - np.exp(np.cos(2 * np.pi * v).mean()) + 20 + np.e)


def _rosenbrock(x: Sequence[float]) -> float:
    v = np.asarray(x)
    return float((100 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2).sum())


def _levy(x: Sequence[float]) -> float:
    w = 1 + (np.asarray(x) - 1) / 4
    inner = (w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2)
    return float(np.sin(np.pi * w[0]) ** 2 + inner.sum() + last)


def _log(name: str, low: float, high: float) -> Continuous:
    return Continuous(name=name, low=low, high=high, scaling=Scaling.LOGARITHMIC)


def _integer(name: str, low: int, high: int, scaling: Scaling = Scaling.LINEAR) -> Integer:
    return Integer(name=name, low=low, high=high, scaling=scaling)


def _choice(name: str, *values: str) -> Categorical:
    return Categorical(name=name, values=values)


def _make(name: str, *parameters: Parameter, **rest: object) -> Problem:
    return Problem(name=name, space=SearchSpace(parameters=parameters), **rest)  # type: ignore[arg-type]


def _make_training() -> Problem:
    """Learning rate and momentum trade off along a ridge; the error is what is measured."""

    def evaluate(v: Values) -> float:
        rate, inertia = math.log10(float(v["lr"])), -math.log10(1 - float(v["momentum"]))
        decay, dropout = math.log10(float(v["wd"])), float(v["dropout"])
        ridge = rate + inertia + 1.5  # the effective rate is lr / (1 - momentum)
        return (
            0.05 * ridge**2
            + 0.01 * (inertia - 1) ** 2
            + 0.004 * (decay + 4) ** 2
            + 0.1 * (dropout - 0.2 - 0.03 * (decay + 4)) ** 2
        )

    momentum = Continuous(
        name="momentum", low=0.0, high=0.999, scaling=Scaling.REVERSE_LOGARITHMIC
    )
    dropout = Continuous(name="dropout", low=0.0, high=0.6, scaling=Scaling.LINEAR)
    parameters = (_log("lr", 1e-5, 1.0), momentum, _log("wd", 1e-7, 1e-1), dropout)
    return _make("noisy-training-4", *parameters, evaluate=evaluate, noise=0.002)


def _make_network() -> Problem:
    """Each optimizer has a learning rate of its own; layers and width trade off."""
    rates = {"sgd": -1.0, "adam": -3.0, "lion": -4.0}
    floors = {"sgd": 0.03, "adam": 0.0, "lion": 0.01}
    slopes = {"relu": 0.0, "gelu": 0.005, "tanh": 0.03, "sigmoid": 0.06}

    def evaluate(v: Values) -> float:
        optimizer = v["optimizer"]
        rate = math.log10(float(v["lr"])) - rates[optimizer]
        capacity = math.log2(int(v["width"])) + 0.8 * int(v["layers"])
        return (
            floors[optimizer]
            + slopes[v["activation"]]
            + 0.04 * rate**2
            + 0.01 * (capacity - 10.4) ** 2
            + 0.006 * abs(int(v["layers"]) - 3)
        )

    return _make(
        "network-5",
        _log("lr", 1e-6, 1.0),
        _integer("layers", 1, 8),
        _integer("width", 16, 1024, Scaling.LOGARITHMIC),
        _choice("optimizer", "sgd", "adam", "lion"),
        _choice("activation", "relu", "gelu", "tanh", "sigmoid"),
        evaluate=evaluate,  # best at width 256 with 3 layers: the capacity is then 10.4
    )


def _make_boosting() -> Problem:
    """Trees and learning rate make up for each other; the error is noisy."""

    def evaluate(v: Values) -> float:
        rate, trees = math.log10(float(v["eta"])), math.log10(int(v["rounds"]))
        depth, child = int(v["depth"]), math.log2(int(v["min_child"]))
        return (
            0.08 * (rate + trees - 1.5) ** 2
            + 0.02 * (trees - 2.5) ** 2
            + 0.003 * (depth - 6 - 0.5 * (child - 2)) ** 2
            + 0.002 * (child - 3) ** 2
            + 0.05 * (float(v["subsample"]) - 0.8) ** 2
            + 0.01 * max(0.0, math.log10(float(v["lambda"])) - 1) ** 2
        )

    return _make(
        "noisy-boosting-6",
        _log("eta", 1e-3, 1.0),
        _integer("rounds", 10, 2000, Scaling.LOGARITHMIC),
        _integer("depth", 2, 14),
        _integer("min_child", 1, 128, Scaling.LOGARITHMIC),
        Continuous(name="subsample", low=0.3, high=1.0, scaling=Scaling.LINEAR),
        _log("lambda", 1e-3, 1e3),
        evaluate=evaluate,
        optimum=0.000552,  # depth 7, min_child 10
        noise=0.003,
    )


def _make_divergence() -> Problem:
    """Trainings above a learning rate diverge: losses of many orders of magnitude."""

    def evaluate(v: Values) -> float:
        rate, batch = math.log10(float(v["lr"])), math.log2(int(v["batch"]))
        edge = -1.5 + 0.15 * (batch - 6)
        loss = 0.1 * (edge - 0.4 - rate) ** 2 + 0.01 * (batch - 7) ** 2
        loss += 0.02 * (math.log10(float(v["warmup"])) - 2) ** 2
        return loss + (math.expm1(min(12 * (rate - edge), 40)) if rate > edge else 0.0)

    return _make(
        "divergence-3",
        _log("lr", 1e-5, 1.0),
        _integer("batch", 8, 1024, Scaling.LOGARITHMIC),
        _log("warmup", 1.0, 1e4),
        evaluate=evaluate,
    )


def _make_pipeline() -> Problem:
    """Mostly categories, with an interaction between them; noisy."""
    scalers, models = (
        ("none", "standard", "robust", "quantile"),
        ("linear", "forest", "svm", "knn"),
    )
    augmentations = ("none", "flip", "crop", "mix", "cut")
    score = {
        (s, m): 0.05 * ((3 * i + 2 * j + i * j) % 7)
        for i, s in enumerate(scalers)
        for j, m in enumerate(models)
    }

    def evaluate(v: Values) -> float:
        base = score[v["scaler"], v["model"]] + 0.04 * augmentations.index(v["augmentation"])
        base += 0.05 * (v["balance"] == "no") + 0.02 * abs(int(v["features"]) - 12)
        aim = -2 if v["model"] in ("linear", "svm") else -1
        return base + 0.03 * (math.log10(float(v["strength"])) - aim) ** 2

    return _make(
        "noisy-pipeline-6",
        _choice("scaler", *scalers),
        _choice("model", *models),
        _choice("augmentation", *augmentations),
        _choice("balance", "yes", "no"),
        _integer("features", 2, 20),
        _log("strength", 1e-5, 1e2),
        evaluate=evaluate,
        noise=0.01,
    )


def _make_kernel_ridge() -> Problem:
    """A real training: kernel ridge regression, its error on held-out data."""
    source = np.random.default_rng(5)
    x = source.uniform(-1, 1, (160, 2))
    truth = np.sin(4 * x[:, 0]) + x[:, 1] ** 2
    y = truth + 0.2 * source.standard_normal(160)
    gaps = ((x[:, None] - x[None]) ** 2).sum(-1)
    held_out = truth[80:]

    def evaluate(v: Values) -> float:
        kernel = np.exp(-float(v["gamma"]) * gaps)
        if v["kernel"] == "laplace":
            kernel = np.exp(-float(v["gamma"]) * np.sqrt(gaps))
        weights = np.linalg.solve(kernel[:80, :80] + float(v["alpha"]) * np.eye(80), y[:80])
        return float(np.sqrt(((kernel[80:, :80] @ weights - held_out) ** 2).mean()))

    return _make(
        "kernel-ridge-3",
        _log("gamma", 1e-4, 1e3),
        _log("alpha", 1e-5, 1e3),
        _choice("kernel", "gauss", "laplace"),
        evaluate=evaluate,
        optimum=0.131995,
    )
