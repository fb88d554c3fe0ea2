"""Scripts as tutorials write them: torchvision models, transforms and data in a container."""

from __future__ import annotations

import gzip
import struct

import pytest
from PIL import Image

from .conftest import IMAGE, docker

pytestmark = pytest.mark.docker

TRAINING = """
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, models, transforms

    torch.manual_seed(0)
    prepare = transforms.Compose([
        transforms.RandomResizedCrop(32),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.5,) * 3, (0.5,) * 3),
    ])
    data = datasets.FakeData(8, (3, 40, 40), num_classes=4, transform=prepare)
    model = models.resnet18(num_classes=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.fc.weight.detach().clone()
    seen = 0
    for images, labels in DataLoader(data, batch_size=4, num_workers=2):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(images)
    assert loss.isfinite() and not torch.equal(before, model.fc.weight)
    assert model.eval()(images).shape == (4, 4)
    print("trained on", seen)
"""

FROM_FILES = """
    import os
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms, utils
    from torchvision.transforms import v2

    digits = datasets.MNIST(os.environ["SM_CHANNEL_TRAINING"], transform=transforms.ToTensor())
    images, labels = next(iter(DataLoader(digits, batch_size=5, num_workers=1)))
    print(tuple(images.shape), labels.tolist(), images[3].unique().tolist())

    prepare = v2.Compose([v2.ToImage(), v2.Resize((8, 8)), v2.ToDtype(torch.float32, scale=True)])
    photos = datasets.ImageFolder(os.environ["SM_CHANNEL_PHOTOS"], transform=prepare)
    means = [image.mean(dim=(1, 2)).mul(255).round().int().tolist() for image, _ in photos]
    print(photos.classes, means)
    utils.save_image(images, os.environ["SM_MODEL_DIR"] + "/digits.png")
"""

OPERATORS = """
    import torch
    from torchvision import ops

    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.9], [8.0, 8.0, 9.0, 9.0]])
    print(ops.box_iou(boxes, boxes)[0].gt(0.5).tolist())
    print(ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist())
"""


@pytest.fixture(scope="module")
def version() -> str:
    """torchvision's version in the image: +stoker1 is without compiled operators."""
    command = "import importlib.metadata as m; print(m.version('torchvision'))"
    return docker("run", "--rm", IMAGE, "python", "-c", command)


def test_a_resnet_is_trained_on_transformed_images_by_workers(opt_ml, containers):
    opt_ml.script(TRAINING)
    # One thread: where the cores are busy, several of them wait for each other most of the time.
    result = containers.run("--network", "none", "--env", "OMP_NUM_THREADS=1")
    assert result.stdout == "trained on 8\n", result.stderr


def test_digits_and_photos_are_read_from_files(opt_ml, containers):
    opt_ml.script(FROM_FILES)
    opt_ml.config("inputdataconfig", {name: {} for name in ("training", "photos")})
    _write_digits(opt_ml.root / "input/data/training/MNIST/raw")
    for name, color in {"blue.png": (0, 0, 255), "red.jpg": (254, 0, 0)}.items():
        folder = opt_ml.root / "input/data/photos" / name.split(".")[0]
        folder.mkdir(parents=True)
        Image.new("RGB", (20, 10), color).save(folder / name)
    result = containers.run("--network", "none")
    assert result.stdout.splitlines() == [
        "(5, 1, 28, 28) [0, 1, 2, 3, 4] [0.6000000238418579]",
        "['blue', 'red'] [[0, 0, 255], [254, 0, 0]]",
    ], result.stderr
    with Image.open(opt_ml.root / "model/digits.png") as saved:
        assert saved.format == "PNG"


def _write_digits(folder):
    """Five pictures in MNIST's own format; digit N is all N * 51."""
    folder.mkdir(parents=True)
    pictures = b"".join(bytes([n * 51]) * 28 * 28 for n in range(5))
    for name, head, body in (
        ("train-images-idx3-ubyte", struct.pack(">4I", 0x803, 5, 28, 28), pictures),
        ("train-labels-idx1-ubyte", struct.pack(">2I", 0x801, 5), bytes(range(5))),
        ("t10k-images-idx3-ubyte", struct.pack(">4I", 0x803, 5, 28, 28), pictures),
        ("t10k-labels-idx1-ubyte", struct.pack(">2I", 0x801, 5), bytes(range(5))),
    ):
        (folder / name).write_bytes(head + body)
        (folder / f"{name}.gz").write_bytes(gzip.compress(head + body))


def test_compiled_operators_work_or_say_what_is_missing(opt_ml, containers, version):
    opt_ml.script(OPERATORS)
    result = containers.run("--network", "none")
    assert result.stdout.splitlines()[0] == "[True, True, False]", result.stderr
    if version.endswith("+stoker1"):
        assert result.returncode == 1
        assert "torchvision's compiled operators (nms" in opt_ml.failure
        assert "stoker:cuda" in opt_ml.failure
    else:
        assert result.stdout.splitlines()[1] == "[0, 2]", result.stderr


def test_reading_by_torchvision_io_works_or_names_pillow(opt_ml, containers, version):
    opt_ml.script("import torchvision; print(torchvision.io.read_image('/opt/ml/x.png').shape)")
    Image.new("L", (3, 2)).save(opt_ml.root / "x.png")
    result = containers.run("--network", "none")
    if version.endswith("+stoker1"):
        assert "Read the file with Pillow" in opt_ml.failure
    else:
        assert result.stdout == "torch.Size([1, 2, 3])\n", result.stderr


def test_requirements_that_name_bundled_packages_are_satisfied_offline(
    opt_ml, containers, version
):
    opt_ml.script("import torch, torchvision, yaml, tqdm, PIL; print(torch.__version__[:6])")
    lines = "torchvision\ntorchvision==0.28.0\npillow\npyyaml\ntqdm\n"
    (opt_ml.root / "code/requirements.txt").write_text(lines)
    result = containers.run("--network", "none", "--env", "PIP_NO_INDEX=1")
    assert result.stdout.endswith("2.13.0\n"), result.stderr
    constraints = docker("run", "--rm", IMAGE, "cat", "/opt/stoker/constraints.txt")
    assert f"torchvision=={version}" in constraints.splitlines()
