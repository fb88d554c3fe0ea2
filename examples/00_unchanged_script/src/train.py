"""Trains a small image classifier. Plain PyTorch: it runs on a laptop and on SageMaker."""

import argparse
import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    args = parse_arguments()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, classes = load_pictures(args.data_dir / "train.pt")
    test_set, _ = load_pictures(args.data_dir / "test.pt")
    batches = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_batches = DataLoader(test_set, batch_size=500)

    model = make_model(len(classes)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    print(f"{len(train_set)} pictures of {len(classes)} classes on {device}")
    print(f"before training: accuracy={measure_accuracy(model, test_batches, device):.3f}")
    for epoch in range(1, args.epochs + 1):
        started = time.monotonic()
        loss = train_one_epoch(model, optimizer, batches, device)
        accuracy = measure_accuracy(model, test_batches, device)
        seconds = time.monotonic() - started
        print(
            f"epoch {epoch}/{args.epochs} loss={loss:.3f} accuracy={accuracy:.3f} "
            f"seconds={seconds:.1f}"
        )

    args.model_dir.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "classes": classes}, args.model_dir / "model.pt")
    print(f"saved {args.model_dir / 'model.pt'}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small image classifier.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--batch-size", type=int, default=64)
    # SageMaker says where things are; on a laptop they are right here.
    parser.add_argument(
        "--data-dir", type=Path, default=os.environ.get("SM_CHANNEL_TRAIN", "data")
    )
    parser.add_argument("--model-dir", type=Path, default=os.environ.get("SM_MODEL_DIR", "model"))
    return parser.parse_args()


def load_pictures(file: Path) -> tuple[TensorDataset, tuple[str, ...]]:
    saved = torch.load(file)
    images = saved["images"].float() / 255 - 0.5
    return TensorDataset(images, saved["labels"]), saved["classes"]


def make_model(classes: int) -> nn.Module:
    return nn.Sequential(
        *block(1, 16),  # 32×32 → 16×16
        *block(16, 32),  # → 8×8
        *block(32, 64),  # → 4×4
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, classes),
    )


def block(channels_in: int, channels_out: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]


def train_one_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: DataLoader[tuple[Tensor, ...]],
    device: torch.device,
) -> float:
    """Returns the mean loss of the epoch."""
    model.train()
    total = 0.0
    for images, labels in batches:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(batches)


@torch.no_grad()
def measure_accuracy(
    model: nn.Module, batches: DataLoader[tuple[Tensor, ...]], device: torch.device
) -> float:
    """Returns the share of pictures it names rightly."""
    model.eval()
    correct = count = 0
    for images, labels in batches:
        guesses = model(images.to(device)).argmax(dim=1)
        correct += int((guesses == labels.to(device)).sum())
        count += len(labels)
    return correct / count


if __name__ == "__main__":
    main()
