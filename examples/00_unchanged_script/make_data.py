"""Makes the data of the example: noisy 32×32 pictures of six shapes. No download is needed.

Usage: python make_data.py [FOLDER] [--images 6000] [--test-images 1000]
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

SHAPES = ("disc", "ring", "square", "diamond", "triangle", "cross")
SIZE = 32


def main() -> None:
    parser = argparse.ArgumentParser(description="Make noisy pictures of six shapes.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data"))
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--test-images", type=int, default=1000)
    args = parser.parse_args()

    args.folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate({"train": args.images, "test": args.test_images}.items()):
        file = args.folder / f"{name}.pt"
        torch.save(make_pictures(count, seed), file)
        print(f"{file}: {count} pictures, {file.stat().st_size / 1e6:.1f} MB")


def make_pictures(count: int, seed: int) -> dict[str, Tensor | tuple[str, ...]]:
    """Shapes of any place, size and brightness, under noise as strong as the faintest of them."""
    random = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float) -> Tensor:
        return torch.empty(count, 1, 1).uniform_(low, high, generator=random)

    labels = torch.randint(len(SHAPES), (count,), generator=random)
    radius = uniform(5, 11)
    pixels = torch.arange(SIZE, dtype=torch.float32)
    x = (pixels.view(1, 1, SIZE) - uniform(10, 22)) / radius
    y = (pixels.view(1, SIZE, 1) - uniform(10, 22)) / radius
    shape = draw_all(x, y)[labels, torch.arange(count)]
    noise = torch.randn(count, SIZE, SIZE, generator=random)
    pictures = 80 + shape * uniform(50, 110) + 45 * noise
    return {
        "images": pictures.clamp(0, 255).to(torch.uint8).unsqueeze(1),
        "labels": labels,
        "classes": SHAPES,
    }


def draw_all(x: Tensor, y: Tensor) -> Tensor:
    """Every shape at every place: 1 inside, 0 outside; x and y are measured from its centre."""
    square = torch.maximum(x.abs(), y.abs())
    circle = x.square() + y.square()
    inside = (
        circle < 1,
        (circle < 1) & (circle > 0.4),
        square < 0.85,
        x.abs() + y.abs() < 1.15,
        (y < 0.8) & (2 * x.abs() < y + 1),
        (square < 1) & (torch.minimum(x.abs(), y.abs()) < 0.3),
    )
    return torch.stack(inside).float()


if __name__ == "__main__":
    main()
