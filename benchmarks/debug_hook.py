"""What the debugger's hook adds to a training step, compared with stock smdebug.

Usage: python benchmarks/debug_hook.py [--rounds 5] [--steps 8] [--only NAME] [--json]

A net of ResNet-50's size is trained on one thread of the CPU: without a hook, with smdebug 1.0.34
of which only what keeps it from running on today's stack was fixed, and with ours. Three
processes take turns, a round of steps each; the first round warms up. A round ends when its files
are written, so what ours does in the background is part of its time as far as it does not run
during the training. The figures are medians of the time added per step; `ratio` is ours by
stock's. Two processes differ by some hundredths of a step even if they do the same, so steps that
save nothing are measured in one process, which puts the hook on for a round and takes it off for
the next; `ratio` is by the step itself then, and a saved step in 500 is reckoned in from the first
figure. What losses cost, and what there is without a configuration, is less than any of that can
tell: there the time is counted that a step spends in functions of the hook, on the training's
thread. Ours writes in another thread.

Two further figures are compared with a fixed peer. A net of 200 parameters is saved at every step:
`peer` is 2 ms, which a step may take longer. And the first two saved steps of the large net, for
which memory is taken, are compared with the later ones, all of them with the step itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from figures import CannotMeasure, Figure, run, say
from venvs import make_stock_smdebug

_REPOSITORY = Path(__file__).resolve().parents[1]
WORKERS = ("none", "stock", "ours")
TENSORS = ["weights", "gradients"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One configuration, and what it may cost."""

    name: str
    hook: dict[str, Any] | None
    """As debughookconfig.json has it; None: there is none, and ours is only loaded."""
    goal: float
    is_counted: bool = False
    """By the time in functions of the hook, not by the step's."""
    is_tiny: bool = False
    """A net of 200 parameters, instead of one of ResNet-50's size."""
    is_start: bool = False
    """About the first two steps."""
    saved_every: int | None = None
    """So seldom that a round has no saved step: its share is reckoned in, and the goal is a share
    of the step, not of what stock adds."""


def _hook(interval: int, *collections: str, reductions: str = "") -> dict[str, Any]:
    parameters = {"reductions": reductions} if reductions else {}
    return {
        "HookParameters": {"save_interval": str(interval)},
        "CollectionConfigurations": [
            {"CollectionName": name, "CollectionParameters": parameters} for name in collections
        ],
    }


CASES = (
    Case(name="weights + gradients every step", hook=_hook(1, *TENSORS), goal=0.10),
    Case(
        name="6 reductions of weights + gradients every step",
        hook=_hook(1, *TENSORS, reductions="min,max,mean,std,abs_mean,l2_norm"),
        goal=0.25,
    ),
    Case(name="losses every step", hook=_hook(1), goal=0.5, is_counted=True),
    Case(
        name="weights + gradients every 500 steps",
        hook=_hook(500, *TENSORS),
        goal=0.01,
        saved_every=500,
    ),
    Case(name="no configuration", hook=None, goal=0.002, is_counted=True),
    Case(name="a net of 200 parameters", hook=_hook(1, *TENSORS), goal=1.0, is_tiny=True),
    Case(name="the first two steps", hook=_hook(1, *TENSORS), goal=2.0, is_start=True),
)
TINY_MS = 2.0
TINY_STEPS = 200


def main() -> int:
    parser = argparse.ArgumentParser(description="What the debugger's hook adds to a step.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="of a round")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    if args.worker:
        _work(args.worker)
        return 0
    return run(measure, parser, peer="stock smdebug")


def measure(args: argparse.Namespace) -> list[Figure]:
    """One figure a case."""
    stock = make_stock_smdebug()
    figures: list[Figure] = []
    for case in CASES:
        if args.only in case.name:
            saved_ms = _saved_ms(figures, stock, args) if case.saved_every else 0.0
            figures.append(_measure(case, stock, args.rounds, args.steps, saved_ms))
    return figures


def _saved_ms(figures: list[Figure], stock: Path, args: argparse.Namespace) -> float:
    """What a saved step adds: the first figure, measured now if it was left out."""
    if figures and figures[0].name == CASES[0].name:
        return figures[0].ours
    return _measure(CASES[0], stock, args.rounds, args.steps, 0.0).ours


def _measure(case: Case, stock: Path, rounds: int, steps: int, saved_ms: float) -> Figure:
    if case.saved_every:
        return _measure_unsaved(case, stock, 6 * rounds, max(steps // 2, 1), saved_ms)
    if case.is_counted:
        return _measure_counted(case, stock, 2 * steps)
    if case.is_tiny:
        return _measure_tiny(case, stock, rounds)
    if case.is_start:
        return _measure_start(case, stock, rounds, steps)
    say(f"{case.name}: {rounds} rounds of {steps} steps …")
    with tempfile.TemporaryDirectory() as folder:
        workers = {name: _Worker(name, case, stock, Path(folder, name)) for name in WORKERS}
        try:
            for worker in workers.values():
                worker.train(2)
            times: dict[str, list[float]] = {name: [] for name in WORKERS}
            for _ in range(rounds):
                for name, worker in workers.items():
                    times[name].append(worker.train(steps))
        finally:
            for worker in workers.values():
                worker.stop()
    plain = statistics.median(times["none"])
    added = {name: _Added(times[name], times["none"]) for name in ("stock", "ours")}
    return Figure(
        name=case.name,
        ours=max(added["ours"].ms, 0.0),
        peer=added["stock"].ms,
        unit="ms",
        goal=case.goal,
        others={"step without a hook": plain},
        note=f"the middle half of {rounds} rounds: ours {added['ours'].middle}, "
        f"stock {added['stock'].middle}",
    )


def _measure_counted(case: Case, stock: Path, steps: int) -> Figure:
    say(f"{case.name}: {steps} steps …")
    step_ms, ours_ms = _count(case, "ours", stock, steps)
    peer_ms = _count(case, "stock", stock, steps)[1] if case.hook else step_ms
    return Figure(
        name=case.name,
        ours=ours_ms,
        peer=peer_ms,
        unit="ms",
        goal=case.goal,
        others={"step": step_ms},
        note="time in functions of the hook, on the training's thread"
        + ("" if case.hook else "; compared with the step itself"),
    )


def _measure_tiny(case: Case, stock: Path, rounds: int) -> Figure:
    say(f"{case.name}: {rounds} rounds of {TINY_STEPS} steps …")
    with tempfile.TemporaryDirectory() as folder:
        workers = {name: _Worker(name, case, stock, Path(folder, name)) for name in WORKERS}
        times: dict[str, list[float]] = {name: [] for name in WORKERS}
        try:
            for _ in range(rounds + 1):
                for name, worker in workers.items():
                    times[name].append(worker.train(TINY_STEPS))
        finally:
            for worker in workers.values():
                worker.stop()
    added = {name: _Added(times[name][1:], times["none"][1:]) for name in ("stock", "ours")}
    return Figure(
        name=case.name,
        ours=added["ours"].ms,
        peer=TINY_MS,
        unit="ms",
        goal=case.goal,
        others={
            "stock smdebug adds": added["stock"].ms,
            "step without a hook": statistics.median(times["none"][1:]),
        },
        note=f"added per saved step, compared with {TINY_MS:g} ms; the middle half of {rounds} "
        f"rounds: {added['ours'].middle}",
    )


def _measure_start(case: Case, stock: Path, rounds: int, steps: int) -> Figure:
    """A new process each time: the memory is taken only once."""
    say(f"{case.name}: {rounds} processes …")
    firsts, laters = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            worker = _Worker("ours", case, stock, Path(folder, "ours"))
            try:
                firsts.append(worker.train(2))
                laters.append(worker.train(steps))
            finally:
                worker.stop()
    return Figure(
        name=case.name,
        ours=statistics.median(firsts),
        peer=statistics.median(laters),
        unit="ms",
        goal=case.goal,
        others={},
        note="a step, of the first two and of the later ones",
    )


def _count(case: Case, name: str, stock: Path, steps: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        worker = _Worker(name, case, stock, Path(folder, "tensors"))
        try:
            worker.train(2)
            return worker.train_and_count(steps)
        finally:
            worker.stop()


def _measure_unsaved(case: Case, stock: Path, rounds: int, steps: int, saved_ms: float) -> Figure:
    """Steps between those that are saved, and the share of one that is."""
    say(f"{case.name}: {rounds} rounds of {steps} steps …")
    with tempfile.TemporaryDirectory() as folder:
        worker = _Worker("switched", case, stock, Path(folder, "ours"))
        try:
            worker.train(2)
            pairs = [(worker.train(steps), worker.train(steps)) for _ in range(rounds)]
        finally:
            worker.stop()
    plain = statistics.median(without for without, _ in pairs)
    differences = sorted(with_hook - without for without, with_hook in pairs)
    middle = differences[rounds // 4], differences[-1 - rounds // 4]
    return Figure(
        name=case.name,
        ours=max(statistics.median(differences), 0.0) + saved_ms / (case.saved_every or 1),
        peer=plain,
        unit="ms",
        goal=case.goal,
        others={"a saved step adds": saved_ms},
        note=f"compared with the step itself; the middle half of {rounds} rounds added "
        f"{middle[0]:.1f} to {middle[1]:.1f} ms",
    )


class _Added:
    """What rounds take longer than those without, each with its neighbour, in milliseconds."""

    def __init__(self, times: list[float], plain: list[float]) -> None:
        # What slows the machine for a while slows all three.
        differences = sorted(one - other for one, other in zip(times, plain, strict=True))
        quarter = len(differences) // 4
        self.ms = statistics.median(differences)
        self.middle = f"{differences[quarter]:.1f} to {differences[-1 - quarter]:.1f} ms"


class _Worker:
    """A process that trains on command."""

    def __init__(self, name: str, case: Case, stock: Path, folder: Path) -> None:
        path = [str(_REPOSITORY / "container_src")]
        if name == "stock":
            path.insert(0, str(stock))
        task = {
            "folder": str(folder),
            "hook": case.hook,
            "is_counted": case.is_counted,
            "is_tiny": case.is_tiny,
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", json.dumps({**task, "name": name})],
            env={
                **os.environ,  # noqa: TID251 - handed on as it is
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(path),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def train(self, steps: int) -> float:
        """Milliseconds a step."""
        return self.train_and_count(steps)[0]

    def train_and_count(self, steps: int) -> list[float]:
        """Milliseconds a step: of all of it, and of what is ours where that is counted."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise CannotMeasure("a training ended before its time")
        return [float(number) / steps for number in line.split()]

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


def _work(task_text: str) -> None:
    """In the process: one line with a number of steps in, one line with milliseconds out."""
    task = json.loads(task_text)
    printed, sys.stdout = sys.stdout, sys.stderr  # smdebug logs there
    parts = _MAKE[task["name"]](task)
    if task["is_counted"]:
        parts = _counted(parts, "smdebug" if task["name"] == "stock" else "stoker")
    for line in sys.stdin:
        parts.prepare()
        start = time.perf_counter()
        for _ in range(int(line)):
            parts.step()
        parts.settle()
        print((time.perf_counter() - start) * 1e3, *parts.counted(), file=printed, flush=True)
        # 200 MB a step: what is measured is written and can go.
        shutil.rmtree(f"{task['folder']}/events", ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a process does in a round."""

    step: Callable[[], None]
    settle: Callable[[], None] = lambda: None
    """At its end; part of its time."""
    prepare: Callable[[], None] = lambda: None
    """Before it; not part of its time."""
    counted: Callable[[], list[float]] = lambda: []
    """Milliseconds that were spent in our code, where they are counted."""


def _make_plain(task: dict[str, Any]) -> Parts:
    return Parts(_make_training(task)[2])


def _make_stock(task: dict[str, Any]) -> Parts:
    model, criterion, step = _make_training(task)
    import smdebug.pytorch as smd

    file = f"{task['folder']}.json"
    Path(file).write_text(json.dumps({**task["hook"], "LocalPath": task["folder"]}))
    hook = smd.Hook.create_from_json_file(file)
    hook.register_module(model)
    hook.register_loss(criterion)
    hook.set_mode(smd.modes.TRAIN)
    return Parts(step)  # it writes on the training's own thread


def _make_ours(task: dict[str, Any]) -> Parts:
    if task["hook"] is None:
        import stoker.worker.autoload

        stoker.worker.autoload.wake()
        return _make_plain(task)
    from stoker.debugging.hook.attach import attach
    from stoker.debugging.hook.config import read_hook_config

    hook = attach(read_hook_config(task["hook"]), task["folder"])
    _, _, step = _make_training(task)
    return Parts(step, settle=hook.flush)


def _make_switched(task: dict[str, Any]) -> Parts:
    """Ours, on in every second round; it saves from step 500 on, and no round is that long."""
    from stoker.debugging.hook.attach import Hook, attach
    from stoker.debugging.hook.config import read_hook_config

    _, _, step = _make_training(task)
    parameters = {**task["hook"]["HookParameters"], "start_step": "1"}
    config = read_hook_config({**task["hook"], "HookParameters": parameters})
    hooks: list[Hook] = []

    def switch() -> None:
        if hooks:
            hooks.pop().close()
        else:
            hooks.append(attach(config, task["folder"]))
            step()  # it looks at the model once

    return Parts(step, prepare=switch)


def _counted(parts: Parts, package: str) -> Parts:
    """The same, with the time counted that a step spends in functions of a package."""
    # By its very folder: the checkout, with an environment and torch in it, may have its name.
    (folder,) = importlib.import_module(package).__path__
    depth, entered, spent = 0, 0.0, 0.0

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal depth, entered, spent
        if event not in ("call", "return") or not _is_in(folder, frame):
            return
        if event == "call":
            entered = entered if depth else time.perf_counter()
            depth += 1
        elif depth:
            depth -= 1
            spent += 0.0 if depth else time.perf_counter() - entered

    def step() -> None:
        sys.setprofile(note)
        parts.step()
        sys.setprofile(None)

    def counted() -> list[float]:
        nonlocal spent
        taken, spent = spent, 0.0
        return [1e3 * taken]

    return Parts(step, settle=parts.settle, prepare=parts.prepare, counted=counted)


def _is_in(folder: str, frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(f"{folder}/")


_MAKE: dict[str, Callable[[dict[str, Any]], Parts]] = {
    "none": _make_plain,
    "stock": _make_stock,
    "ours": _make_ours,
    "switched": _make_switched,
}


def _make_training(task: dict[str, Any]) -> tuple[Any, Any, Callable[[], None]]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    criterion = nn.CrossEntropyLoss()
    if task["is_tiny"]:
        # 110 and 88 parameters.
        model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 8))
        images, labels = torch.randn(4, 10), torch.randint(0, 8, (4,))
    else:
        model = _make_resnet50()
        images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 1000, (4,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()

    return model, criterion, step


def _make_resnet50() -> Any:  # noqa: ANN401 - torch is imported in the workers only
    """25.6 million parameters in 161 tensors, in 3, 4, 6 and 3 bottlenecks."""
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            after = 4 * width
            self.conv1 = nn.Conv2d(before, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, after, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(after)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if before != after:
                conv = nn.Conv2d(before, after, 1, stride, bias=False)
                self.downsample = nn.Sequential(conv, nn.BatchNorm2d(after))

        def forward(self, x: Any) -> Any:  # noqa: ANN401 - as above
            left = x if self.downsample is None else self.downsample(x)
            x = self.relu(self.bn1(self.conv1(x)))
            x = self.relu(self.bn2(self.conv2(x)))
            return self.relu(self.bn3(self.conv3(x)) + left)

    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    before = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            layers.append(Bottleneck(before, width, stride if number == 0 else 1))
            before = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


if __name__ == "__main__":
    sys.exit(main())
