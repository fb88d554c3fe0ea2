"""Training loops of many kinds, run one after the other by a process of its own.

An evaluation step follows each, so that the test knows which records are its.
"""

import contextlib
import gc
import hashlib
import json
import os
import sys
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

X, Y = torch.arange(240.0).reshape(60, 4) / 240, torch.ones(60, 1)


class Slow(torch.utils.data.Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 12

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return X[index], Y[index]


def make(batches=6, **options):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(X[: batches * 2], Y[: batches * 2])
    return model, optimizer, DataLoader(data, batch_size=2, **options)


def update(model, optimizer, x, y):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def plain():
    model, optimizer, loader = make()
    for x, y in loader:
        update(model, optimizer, x, y)


def slow_loader():
    model, optimizer, _ = make()
    for x, y in DataLoader(Slow(0.02), batch_size=2):
        update(model, optimizer, x, y)


def worker_processes():
    model, optimizer, _ = make()
    for x, y in DataLoader(Slow(0.0), batch_size=2, num_workers=2):
        time.sleep(0.02)
        update(model, optimizer, x, y)


def accumulation():
    model, optimizer, loader = make(8)
    for number, (x, y) in enumerate(loader):
        ((model(x) - y) ** 2).mean().backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def evaluation():
    model, optimizer, loader = make(4)
    for _ in range(2):
        model.train()
        for x, y in loader:
            update(model, optimizer, x, y)
        model.eval()
        with torch.no_grad():
            for x, _ in loader:
                model(x)


def evaluation_without_a_loader():
    model, optimizer, loader = make(4)
    for x, y in loader:
        update(model, optimizer, x, y)
    model.eval()
    with torch.no_grad():
        model(X)


def two_models():
    one, first, loader = make(5)
    other, second, _ = make()
    for x, y in loader:
        update(one, first, x, y)
        update(other, second, one(x).detach().repeat(1, 4), y)


def two_models_without_a_loader():
    (one, first, _), (other, second, _) = make(), make()
    for _ in range(5):
        update(one, first, X, Y)
        update(other, second, X, Y)


def teacher():
    model, optimizer, loader = make(5)
    frozen = make()[0].eval()
    for x, _ in loader:
        with torch.no_grad():
            y = frozen(x)
        update(model, optimizer, x, y)


def closure():
    model, _, _ = make()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def loss():
        optimizer.zero_grad()
        value = ((model(X) - Y) ** 2).mean()
        value.backward()
        return value

    for _ in range(4):
        optimizer.step(loss)


def no_module():
    weight = nn.Parameter(torch.zeros(4, 1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        ((X @ weight - Y) ** 2).mean().backward()
        optimizer.step()


def compiled():
    model, optimizer, loader = make(4)
    model = torch.compile(model, backend="eager")
    for x, y in loader:
        update(model, optimizer, x, y)


def mixed_precision():
    model, optimizer, loader = make(4)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        with torch.autocast("cpu", torch.bfloat16):
            loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def errors():
    model, optimizer, loader = make(6)
    for number, (x, y) in enumerate(loader):
        with contextlib.suppress(RuntimeError):
            update(model, optimizer, x[:, :3] if number in (1, 3) else x, y)


def recomputed():
    model, optimizer, loader = make(4)
    for x, y in loader:
        part = torch.utils.checkpoint.checkpoint(model[:2], x, use_reentrant=False)
        optimizer.zero_grad()
        ((model[2](part) - y) ** 2).mean().backward()
        optimizer.step()


def slow_checkpoint():
    class SlowFile:
        def write(self, content):
            time.sleep(0.002)
            return len(content)

        def flush(self):
            pass

    model, optimizer, loader = make(3)
    for x, y in loader:
        update(model, optimizer, x, y)
        torch.save(model.state_dict(), SlowFile(), _use_new_zipfile_serialization=False)


def another_thread():
    model, optimizer, loader = make(5)
    other = make()[0]
    is_over = threading.Event()

    def predict():
        while not is_over.is_set():
            other(X)

    thread = threading.Thread(target=predict)
    thread.start()
    for x, y in loader:
        update(model, optimizer, x, y)
    is_over.set()
    thread.join()


def interrupted_epochs():
    model, optimizer, loader = make(6)
    for _ in range(3):
        for number, (x, y) in enumerate(loader):
            if number == 2:
                break
            update(model, optimizer, x, y)


def forked_training():
    pid = os.fork()
    if pid == 0:
        plain()
        sys.exit(0)
    os.waitpid(pid, 0)


LOOPS = (
    *(plain, slow_loader, worker_processes, accumulation, evaluation),
    *(evaluation_without_a_loader, two_models, two_models_without_a_loader, teacher, closure),
    *(no_module, compiled, mixed_precision, errors, recomputed, slow_checkpoint, another_thread),
    *(forked_training, interrupted_epochs),
)


def evaluate_once():
    """An evaluation step, by which the test sees where a loop ends and the next one begins."""
    gc.collect()
    with torch.no_grad():
        make()[0].eval()(X)
    return time.time()


def main():
    torch.manual_seed(0)
    for loop in LOOPS:
        loop()
        print(json.dumps({"name": loop.__name__, "end": evaluate_once()}), flush=True)
    model, optimizer, loader = make(6, shuffle=True)
    for x, y in loader:
        update(model, optimizer, x, y)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
