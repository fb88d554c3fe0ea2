"""Training on spot instances: interrupted at any moment, it continues where it was.

On this machine:
    python examples/by_feature/spot.py
Stop it (kill PID) and start it again: it continues with the batch it was at. After kill -9
it repeats what was not saved yet, and gets the same result. `--fresh` starts from scratch.

On SageMaker, with instances up to 90 % cheaper (SDK v2):
    PyTorch(image_uri=…, entry_point="spot.py", use_spot_instances=True, max_wait=86400,
            checkpoint_s3_uri="s3://bucket/spot-example", hyperparameters={"epochs": 20}, …).fit()

What Stoker does here is in three lines, marked 1 to 3; the rest is any PyTorch program.
"""

import sys

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import stoker


def main() -> None:
    job = stoker.job()  # everything SageMaker says; on a laptop a folder ./stoker-job
    hp = job.params(epochs=5, batch_size=32, lr=3e-3, width=256)

    torch.manual_seed(0)
    train_set, test_set = make_spirals(6000), make_spirals(1000)
    loader = DataLoader(train_set, hp.batch_size, shuffle=True)
    model = make_model(hp.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=hp.lr)
    steps = hp.epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=hp.lr, total_steps=steps)

    # 1. All that changes while training. Entering the block restores the newest checkpoint that
    #    is whole, with the random numbers and the place in the epoch that belong to it.
    with stoker.checkpoints(
        job,
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        resume="--fresh" not in sys.argv,
    ) as ckpt:
        # How often? As often as pays: a save costs the loop next to nothing, as the copy is made
        # while the next batch is computed, and written to the disk after that.
        ckpt.save_every(minutes="auto")

        # 2. The epochs that are left …
        for epoch in ckpt.range(hp.epochs):
            total = 0.0

            # 3. … and the batches that are left of this epoch. When SageMaker takes the machine
            #    away (SIGTERM), the step is finished and saved, and the block is left from here.
            for step, (points, labels) in ckpt.batches(loader):
                loss = nn.functional.cross_entropy(model(points), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                total += loss.item()
                if step % 50 == 0:
                    print(f"step {step} loss={loss.item():.4f}")

            accuracy = measure_accuracy(model, test_set)
            ckpt.best(accuracy)  # the best one is kept, whatever else is cleaned up
            print(f"epoch {epoch + 1}/{hp.epochs} accuracy={accuracy:.3f}")

    if ckpt.stopped:  # the next attempt continues from here
        print(f"stopped after step {ckpt.step}; start me again")
        return
    job.model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), job.model_dir / "model.pt")
    print(f"done after {ckpt.step} steps: {job.model_dir / 'model.pt'}")


def make_model(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(2, width),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(width, width),
        nn.GELU(),
        nn.Linear(width, 3),
    )


def make_spirals(count: int) -> TensorDataset:
    """Points on three arms of a spiral: each arm is a class."""
    arm = torch.randint(3, (count,))
    radius = torch.rand(count)
    angle = 2.1 * arm + 5 * radius + 0.15 * torch.randn(count)
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return TensorDataset(points, arm)


@torch.no_grad()
def measure_accuracy(model: nn.Module, data: TensorDataset) -> float:
    points, labels = data.tensors
    model.eval()
    guesses: Tensor = model(points).argmax(dim=1)
    model.train()
    return (guesses == labels).float().mean().item()


if __name__ == "__main__":
    main()
