"""Rules that watch a run: one that goes wrong is ended in seconds, its model and checkpoint kept.

Nothing in this program mentions rules. They are configured next to it, in stoker.toml; the hook
saves what they need, and an evaluator reads it during the training.

    stoker train examples/by_feature/rules/train.py --param lr=0.1    # healthy: it ends by itself
    stoker train examples/by_feature/rules/train.py --param lr=3      # diverges: it is stopped

On SageMaker it is the same: stoker.toml is in the source directory that the estimator sends.
"""

import torch
from torch import Tensor, nn

import stoker


def main() -> None:
    job = stoker.job()
    hp = job.params(steps=300, batch_size=64, lr=0.1, width=64)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, hp.width), nn.ReLU(), nn.Linear(hp.width, hp.width), nn.ReLU(),
        nn.Linear(hp.width, 1),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr)

    # Leaves the loop early when a rule, or SageMaker, wants the job to end; with a checkpoint.
    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        for step in ckpt.range(hp.steps):
            points, targets = make_batch(hp.batch_size)
            loss = nn.functional.mse_loss(model(points), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                print(f"step {step} loss={loss.item():.4g}")

    # Also of a run that was stopped: it shows what went wrong.
    job.model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), job.model_dir / "model.pt")
    print(f"stopped after step {ckpt.step}" if ckpt.stopped else "done")


def make_batch(size: int) -> tuple[Tensor, Tensor]:
    points = torch.randn(size, 8)
    return points, points[:, :2].sin().sum(1, keepdim=True)


if __name__ == "__main__":
    main()
