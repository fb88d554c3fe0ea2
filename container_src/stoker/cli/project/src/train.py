"""Train a small network: as a job here, as a job in SageMaker, or as a plain script."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stoker


def read_data(job: stoker.Job) -> TensorDataset:
    """Your data: a file of the channel `train`. Without that channel, points on two spirals."""
    if "train" in job.channels:
        inputs, labels = torch.load(job.channel("train") / "data.pt")
        return TensorDataset(inputs, labels)
    turn = torch.linspace(0.5, 9, 1000)
    labels = torch.arange(1000) % 2
    angle = turn + labels * torch.pi
    inputs = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / 9
    return TensorDataset(inputs, labels)


def main() -> None:
    job = stoker.job()
    hp = job.params(lr=0.01, epochs=40, batch_size=50, width=64)
    torch.manual_seed(0)
    loader = DataLoader(read_data(job), batch_size=hp.batch_size, shuffle=True)
    model = nn.Sequential(
        nn.Linear(2, hp.width),
        nn.Tanh(),
        nn.Linear(hp.width, hp.width),
        nn.Tanh(),
        nn.Linear(hp.width, 2),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=hp.lr)
    # Saves in the background, and resumes after a spot interruption inside the epoch.
    with stoker.checkpoints(job, model=model, optimizer=optimizer) as checkpoints:
        for epoch in checkpoints.range(hp.epochs):
            right = 0
            for step, (inputs, labels) in checkpoints.batches(loader):
                outputs = model(inputs)
                loss = nn.functional.cross_entropy(outputs, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                right += int((outputs.argmax(1) == labels).sum())
                if step % 10 == 0:
                    job.log(step, loss=loss)
            print(f"epoch {epoch}: {right} of {len(loader.dataset)} are right")
            job.log(step, accuracy=right / len(loader.dataset))
    job.model_dir.mkdir(parents=True, exist_ok=True)  # it is there in a job, not on a laptop
    torch.save(model.state_dict(), job.model_dir / "model.pt")


if __name__ == "__main__":
    main()
