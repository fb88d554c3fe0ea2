"""Everything TensorBoard shows, of a small ResNet on pictures made here: stripes or dots.

    python examples/by_feature/tensorboard/train.py
    stoker tensorboard stoker-job/output/tensorboard

On SageMaker the same files are on S3 while the job runs: `stoker tensorboard JOB`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import stoker

CLASSES = ("stripes", "dots")
SIZE = 32


def main() -> None:
    torch.manual_seed(0)
    job = stoker.job()
    hp = job.params(lr=0.02, epochs=4, batch_size=32, pictures=512)
    images, labels = make_pictures(hp.pictures)
    test_images, test_labels = make_pictures(128)
    model = ResNet(width=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=hp.lr, momentum=0.9)

    board = job.tensorboard()
    board.add_images("pictures", test_images[:16], 0)
    board.add_graph(model, test_images[:1])

    step = 0
    with job.profile(wait=1, warmup=1, active=3) as profile:
        for _ in range(hp.epochs):
            for batch in torch.randperm(len(images)).split(hp.batch_size):
                loss = cross_entropy(model(images[batch]), labels[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                profile.step()
                job.log(step, {"train/loss": loss})
                step += 1
            accuracy = measure_accuracy(model, test_images, test_labels)
            job.log(step, {"test/accuracy": accuracy})
            for name, weights in model.named_parameters():
                board.add_histogram(name.replace(".", "/"), weights, step)

    marks = [CLASSES[label] for label in test_labels]
    with torch.no_grad():
        features = model.features(test_images)
    board.add_embedding(features, metadata=marks, label_img=test_images, global_step=step)
    board.add_hparams(hp.to_dict(), {"hparam/accuracy": accuracy})
    board.close()
    job.model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), job.model_dir / "model.pt")


class ResNet(nn.Module):
    """Three stages of two convolutions with a way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            Block(width, width),
            Block(width, 2 * width, stride=2),
            Block(2 * width, 4 * width, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(4 * width, len(CLASSES))

    def features(self, images: Tensor) -> Tensor:
        return self.body(2 * images - 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


class Block(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.around = nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.body(images) + self.around(images))


def make_pictures(count: int) -> tuple[Tensor, Tensor]:
    """Noisy colour pictures of stripes (0) and of dots (1), and which is which."""
    across, down = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="xy")
    angle = torch.rand(count, 1, 1) * 3.14
    phase = torch.rand(count, 1, 1) * 6.28
    one = torch.sin((across * angle.cos() + down * angle.sin()) * 0.9 + phase)
    other = torch.sin((across * -angle.sin() + down * angle.cos()) * 0.9 + phase)
    labels = torch.randint(0, len(CLASSES), (count,))
    shapes = torch.where(labels[:, None, None] == 0, one, one * other)
    colours = 0.4 + 0.6 * torch.rand(count, 3, 1, 1)
    images = 0.5 + 0.25 * shapes[:, None] * colours + 0.2 * torch.randn(count, 3, SIZE, SIZE)
    return images.clamp(0, 1), labels


@torch.no_grad()
def measure_accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of pictures it names rightly."""
    model.eval()
    correct = (model(images).argmax(dim=1) == labels).float().mean().item()
    model.train()
    return correct


if __name__ == "__main__":
    main()
