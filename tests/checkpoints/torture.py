"""Kills a training run at random moments until it has ended all the same; `make torture`.

Usage: python tests/checkpoints/torture.py [--kills 120] [--seed N]

After each kill -9 (one in five is a SIGTERM) the folder is looked at as a new process would see
it: whatever has its final name is sound to the last byte, and the newest is never older than the
one seen before. A run that has come to its end has the weights and losses of one that was left in
peace. The processes are forked from one that has imported torch: a kill costs milliseconds.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, from anywhere

from stoker.checkpoints.store import Store
from tests.checkpoints import training
from tests.checkpoints.runs import DEADLINE_SECONDS, Run

ARGUMENTS = ("--epochs=5", "--every=1", "--keep=2", "--width=512")
MOST_STEPS_PER_LIFE = 4
LONGEST_REST_SECONDS = 0.03


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a training run at random moments.")
    parser.add_argument("--kills", type=int, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    dice = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        peaceful = Run(Path(folder) / "peaceful")
        wait(fork(peaceful))
        kills = runs = 0
        while kills < args.kills:
            run = Run(Path(folder) / f"run-{runs}")
            kills += torture(run, dice, args.kills - kills)
            runs += 1
            check(run.weights == peaceful.weights, "the weights differ")
            check(run.losses() == peaceful.losses(), "the losses differ")
            print(f"{kills} kills, {runs} runs: all as if nothing had happened", flush=True)
    return 0


def torture(run: Run, dice: random.Random, most: int) -> int:
    """Kills a run again and again until it has ended. Returns how often."""
    kills = newest = 0
    while not run.weights:
        pid = fork(run)
        if kills == most:
            wait(pid)
        elif live_a_little(pid, run, dice):
            kills += 1
        newest = inspect(Store(run.checkpoints), newest)
    return kills


def live_a_little(pid: int, run: Run, dice: random.Random) -> bool:
    """Lets a process do some steps, and kills it; False if it ended before."""
    until = steps_of(run) + dice.randint(0, MOST_STEPS_PER_LIFE)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while steps_of(run) < until:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        check(time.monotonic() < deadline, "the run does not go on")
        time.sleep(0.001)
    time.sleep(dice.uniform(0, LONGEST_REST_SECONDS))
    os.kill(pid, signal.SIGTERM if dice.random() < 0.2 else signal.SIGKILL)
    wait(pid)
    return True


def inspect(store: Store, newest: int) -> int:
    """What must hold at every moment. Returns the number of the newest checkpoint."""
    everything = store.read_all()
    damaged = [f"{c.name}: {c.problem or store.verify(c)}" for c in everything if c.problem]
    damaged += [c.name for c in everything if not c.problem and store.verify(c)]
    check(not damaged, f"damaged: {damaged}")
    serial = everything[-1].serial if everything else 0
    check(serial >= newest, f"number {newest} was there and is lost; now {serial}")
    return serial


def steps_of(run: Run) -> int:
    file = run.root / "losses-0"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def fork(run: Run) -> int:
    """Starts the training of a run, or continues it, in a process of its own."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.argv = ["training.py", str(run.root), *ARGUMENTS]
        training.main()
        code = 0
    finally:
        os._exit(code)


def wait(pid: int) -> None:
    os.waitpid(pid, 0)


def check(holds: bool, text: str) -> None:
    if not holds:
        raise SystemExit(f"torture: {text}")


if __name__ == "__main__":
    sys.exit(main())
