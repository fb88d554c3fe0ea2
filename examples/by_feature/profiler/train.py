"""A training that waits for its data: eight loader workers share two cores.

    stoker train train.py --env STOKER_PROFILE=auto -- --workers 8
    stoker report JOB

Each sample costs some work of a core, as decoding a picture does. The report names the loader,
with the workers and the cores. `stoker report OTHER --compare JOB` compares `--workers 2` with it.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Pictures that have to be decoded: `work` matrix products for each."""

    def __init__(self, count, work):
        self.count, self.work = count, work

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        picture = torch.rand(3, 32, 32, generator=generator)
        for _ in range(self.work):
            picture = (picture @ picture).softmax(-1)
        return picture, index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--samples", type=int, default=1600)
    parser.add_argument("--work", type=int, default=100, help="matrix products for each picture")
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Pictures(arguments.samples, arguments.work), batch_size=32, num_workers=arguments.workers
    )
    for epoch in range(arguments.epochs):
        for pictures, labels in loader:
            loss = nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss={loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
