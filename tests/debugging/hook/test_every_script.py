"""Untouched scripts of every kind, each a process of the real launcher; smdebug reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import stoker
from tests.conftest import OptMl

from .trainings import KINDS

PACKAGES = Path(stoker.__file__).parents[1]
HERE = Path(__file__).parent
COMPILED = """
from trainings.trainings import Net, fit, plain_loss
net = Net()
{compile}
weights = fit(model, plain_loss, steps=4)
weights.append(torch.tensor(torch._dynamo.utils.counters["stats"]["unique_graphs"]))
torch._dynamo.utils.counters.clear()
torch._dynamo.reset()
"""
WRAPPED = "model = torch.compile(net, backend='aot_eager', fullgraph=True)"
IN_PLACE = "model = net; net.compile(backend='aot_eager')"
FRAMEWORK = """
import pathlib, tempfile
from trainings.framework_trainings import {fit}
weights = {fit}(pathlib.Path(tempfile.mkdtemp()))
"""
TRAININGS = {
    **{name: f"from trainings.trainings import {name}\nweights = {name}()" for name in KINDS},
    "compiled": COMPILED.format(compile=WRAPPED),
    "compiled_in_place": COMPILED.format(compile=IN_PLACE),
    "lightning": FRAMEWORK.format(fit="lightning_fit"),
    "hugging_face": FRAMEWORK.format(fit="trainer_fit"),
}
OWN_PROCESS = ("loss_module", "distributed", *(name for name in TRAININGS if name not in KINDS))
"""The other kinds share one, as a script with many trainings; test_kinds reads each alone."""


def run(root: Path, *names: str, **environ: str) -> OptMl:
    """Runs trainings as one script. A .pth file wakes autoload in every Python of an image."""
    job, site = OptMl(root / "ml"), root / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text((PACKAGES / "stoker_autoload.pth").read_text())
    package = job.root / "code/trainings"
    package.mkdir()
    for file in ("__init__.py", "trainings.py", "framework_trainings.py"):
        (package / file).write_text((HERE / file).read_text())
    text = "import os, torch\n"
    for name in names:
        file = f"os.environ['SM_MODEL_DIR'] + '/{name}.pt'"
        text += f"torch.manual_seed(0)\n{TRAININGS[name]}\ntorch.save(weights, {file})\n"
    job.script(text)
    path = os.pathsep.join([str(site), str(PACKAGES)])
    done = job.run(PYTHONPATH=path, OMP_NUM_THREADS="1", **environ)
    assert done.returncode == 0, done.stderr
    for text in ("failed", "no tensors are saved", "stays empty"):
        assert text not in done.stderr
    return job


def weights_of(job: OptMl, name: str) -> list[torch.Tensor]:
    return torch.load(job.root / "model" / f"{name}.pt")


@pytest.fixture(scope="module")
def without_hook(tmp_path_factory):
    """All of them, one after the other."""
    return run(tmp_path_factory.mktemp("without"), *TRAININGS)


@pytest.mark.filterwarnings("ignore")  # smdebug's reader leaves files to the garbage collector
@pytest.mark.parametrize("name", [*OWN_PROCESS, "every kind"])
def test_a_script_trains_as_before_and_smdebug_reads_its_tensors(
    tmp_path, require_readable, without_hook, name
):
    names = KINDS if name == "every kind" else [name]
    job = run(tmp_path, *names, STOKER_DEBUG="collections=all every=1")
    for each in names:
        expected, found = weights_of(without_hook, each), weights_of(job, each)
        assert len(expected) == len(found) > 0
        assert all(map(torch.equal, expected, found)), each
    require_readable(job.root / "output/tensors", name)
