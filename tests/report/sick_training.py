"""A training on the CPU that is sick in one known way, and that measures what this costs it.

Usage: sick_training.py --sickness NAME. What it measures is in `truth.json` in the job's output:
the seconds that the sickness took, or other figures of it. Delays are sleeps, so they are those
of the sickness also on a busy machine.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 60
WIDTH = 512


class Watch:
    """Adds up the seconds in which it is open."""

    def __init__(self):
        self.seconds = 0.0

    def __enter__(self):
        self.begun = time.perf_counter()

    def __exit__(self, *_):
        self.seconds += time.perf_counter() - self.begun


class Data(TensorDataset):
    """Batches of noise; each sample may come late."""

    def __init__(self, samples, delay_seconds=0.0):
        super().__init__(torch.randn(samples, WIDTH))
        self.delay_seconds = delay_seconds

    def __getitem__(self, index):
        if self.delay_seconds:
            time.sleep(self.delay_seconds)
        return super().__getitem__(index)


class SlowEvaluation(nn.Module):
    """A model that takes its time once it is not trained."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        if not self.training:
            time.sleep(0.05)
        return self.model(x)


class SlowFile:
    """A file on a disk that takes its time."""

    def __init__(self):
        self.is_open = False

    def write(self, content):
        if not self.is_open:
            time.sleep(0.05)
        self.is_open = True
        return len(content)

    def flush(self):
        pass


def make_model(width=WIDTH):
    layers = [part for _ in range(4) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def save_slowly(model):
    torch.save(model.state_dict(), SlowFile(), _use_new_zipfile_serialization=False)


def update(model, optimizer, batch):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def train(model, optimizer, loader, watch=None, after=lambda: None):
    """Trains an epoch; the watch is open while the loop waits for all batches but the first."""
    batches = iter(loader)
    update(model, optimizer, *next(batches))
    while True:
        with watch or Watch():
            batch = next(batches, None)
        if batch is None:
            return
        update(model, optimizer, *batch)
        after()


def healthy():
    model, optimizer = make_model()
    train(model, optimizer, DataLoader(Data(STEPS * 256), batch_size=256))
    return {}


def data():
    model, optimizer = make_model()
    wait = Watch()
    train(model, optimizer, DataLoader(Data(STEPS * 4, 0.01), batch_size=4), wait)
    return {"seconds": wait.seconds}


def checkpoint():
    model, optimizer = make_model()
    saving = Watch()

    def save():
        with saving:
            save_slowly(model)

    train(model, optimizer, DataLoader(Data(STEPS * 4), batch_size=4), after=save)
    return {"seconds": saving.seconds}


def other():
    """A metric in Python after each step."""
    model, optimizer = make_model()
    measuring = Watch()

    def measure():
        with measuring:
            time.sleep(0.05)

    train(model, optimizer, DataLoader(Data(STEPS * 32), batch_size=32), after=measure)
    return {"seconds": measuring.seconds}


def idle():
    """Data that is prepared again before each epoch but the first."""
    model, optimizer = make_model()
    preparing = Watch()
    for epoch in range(4):
        with preparing if epoch else Watch():
            time.sleep(1.0)
        train(model, optimizer, DataLoader(Data(STEPS * 32), batch_size=32))
    return {"seconds": preparing.seconds}


def evaluation():
    model, optimizer = make_model()
    model = SlowEvaluation(model)
    evaluating = Watch()
    for _ in range(3):
        model.train()
        train(model, optimizer, DataLoader(Data(20 * 32), batch_size=32))
        model.eval()
        with evaluating, torch.no_grad():
            for (batch,) in DataLoader(Data(20 * 32), batch_size=32):
                model(batch)
    return {"seconds": evaluating.seconds}


def batch():
    """A step of few samples is mostly optimizer and Python, whose share it measures."""
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(30)])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    step, work = Watch(), Watch()
    for (x,) in DataLoader(TensorDataset(torch.randn(1200, 8)), batch_size=2):
        with step:
            optimizer.zero_grad()
            with work:
                y = model(x)
            loss = y.square().mean()
            with work:
                loss.backward()
            optimizer.step()
    return {"seconds": step.seconds - work.seconds}


def threads():
    torch.set_num_threads(8)
    model, optimizer = make_model()
    train(model, optimizer, DataLoader(Data(STEPS * 256), batch_size=256))
    return {"threads": 8, "cores": len(os.sched_getaffinity(0))}


def memory():
    model, optimizer = make_model()
    kept = []

    def keep():
        kept.append(torch.ones(2_000_000))
        time.sleep(0.05)

    train(model, optimizer, DataLoader(Data(100 * 4), batch_size=4), after=keep)
    return {"bytes_per_step": 8_000_000}


def skew(sickness="skew"):
    """Rank 1 is slow, or rank 0 saves alone: the other waits. This process only starts both."""
    if "RANK" not in os.environ:
        argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__]
        subprocess.run([sys.executable, *argv, *sys.argv[1:]], check=True)
        return None
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model, optimizer = make_model()
    model = nn.parallel.DistributedDataParallel(model)
    wait = Watch()
    delay = 0.05 / 32 if rank and sickness == "skew" else 0.0
    saving = Watch()

    def save():
        if sickness == "lonely" and not rank:
            with saving:
                save_slowly(model)

    train(model, optimizer, DataLoader(Data(STEPS * 32, delay), batch_size=32), wait, save)
    torch.distributed.destroy_process_group()
    if sickness == "lonely":
        return None if rank else {"seconds": saving.seconds}
    return {"seconds": wait.seconds} if rank else None


def lonely_checkpoint():
    """Rank 0 saves, as is usual, and rank 1 waits for it."""
    return skew("lonely")


def equal_ranks():
    return skew("none")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sickness")
    truth = globals()[parser.parse_known_args()[0].sickness]()
    if truth is not None:
        with open(f"{os.environ['SM_OUTPUT_DATA_DIR']}/truth.json", "w") as file:
            json.dump(truth, file)


if __name__ == "__main__":
    main()
