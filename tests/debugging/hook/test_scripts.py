"""Scripts without a line of ours, run by the real launcher; read by smdebug itself."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import stoker
from stoker.debugging.tensors.saved_tensors import SavedTensors

pytestmark = pytest.mark.functional

PACKAGES = Path(stoker.__file__).parents[1]
SCRIPT = """
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.relu, self.last = nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)
        def forward(self, x):
            return self.last(self.relu(self.fc(x)))

    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(12):
        if step == 10:
            model.eval()
        with torch.set_grad_enabled(model.training):
            loss = cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 3, (4,)))
        if model.training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("loss", repr(loss.item()))
    torch.save(model, "model.pt")
"""
RANKS = """
    import gc, torch, torch.distributed as dist
    from torch import nn
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 3), nn.Tanh()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(dist.get_rank())
    for _ in range(4):
        optimizer.zero_grad()
        nn.MSELoss()(model(torch.randn(2, 4)), torch.zeros(2, 3)).backward()
        optimizer.step()
    # gloo's threads end with the last who holds the group, and that is the model. One that is
    # still at work when Python ends aborts the process: torch's own race, with and without us.
    del model, optimizer
    gc.collect()
    dist.destroy_process_group()
"""
LAUNCH = {
    "sagemaker_torch_distributed_enabled": "true",
    "sagemaker_mpi_num_of_processes_per_host": "2",
}


@pytest.fixture
def run(opt_ml, tmp_path):
    """Runs a script as an image does, where a .pth file wakes autoload in every Python."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text((PACKAGES / "stoker_autoload.pth").read_text())

    def run_script(text: str, *, environ: dict[str, str] | None = None, **launch: str):
        opt_ml.script(text, **launch)
        path = os.pathsep.join([str(site), str(PACKAGES)])
        return opt_ml.run(PYTHONPATH=path, OMP_NUM_THREADS="1", **(environ or {}))

    return run_script


def read(opt_ml) -> SavedTensors:
    return SavedTensors(opt_ml.root / "output/tensors")


def names_at(saved: SavedTensors, step: int) -> list[str]:
    return [tensor.name for tensor in saved.at(step).needed("all")]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_smdebug_lists_and_reads_what_an_untouched_script_left(run, opt_ml, monkeypatch):
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", "0")
    smd = pytest.importorskip("smdebug.pytorch")
    opt_ml.config(
        "debughookconfig",
        {
            "S3OutputPath": "s3://bucket/prefix",
            "LocalPath": str(opt_ml.root / "output/tensors"),
            "HookParameters": {"train.save_interval": "5", "eval.save_interval": "1"},
            "CollectionConfigurations": [
                {"CollectionName": "weights"},
                {"CollectionName": "gradients", "CollectionParameters": {"reductions": "l2_norm"}},
                {
                    "CollectionName": "relu",
                    "CollectionParameters": {"include_regex": "relu_output"},
                },
            ],
        },
    )
    opt_ml.config("tensorboardoutputconfig", {"LocalPath": str(opt_ml.root / "board")})
    done = run(SCRIPT)
    assert done.returncode == 0, done.stderr
    assert list((opt_ml.root / "board/TRAIN").iterdir())
    assert "[stoker] warning" not in done.stderr
    losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert (opt_ml.root / "output/tensors/training_job_end.ts").exists()

    trial = smd.create_trial(str(opt_ml.root / "output/tensors"))
    assert trial.steps() == [0, 5, 10, 11]
    assert trial.steps(mode=smd.modes.EVAL) == [0, 1]
    assert trial.tensor_names(collection="losses") == ["cross_entropy_loss_output_0"]
    loss = trial.tensor("cross_entropy_loss_output_0")
    assert [float(loss.value(step)) for step in (0, 5, 10, 11)] == [
        losses[i] for i in (0, 5, 10, 11)
    ]
    assert trial.tensor("Net_fc.weight").value(5).shape == (6, 8)
    gradient = trial.tensor("gradient/Net_fc.weight")
    assert gradient.steps() == [0, 5]
    assert gradient.reduction_value(5, "l2", abs=False) > 0
    assert np.all(trial.tensor("relu_output_0").value(11, mode=smd.modes.GLOBAL) >= 0)


OWN_HOOK = SCRIPT.replace(
    "    for step in",
    """
    import smdebug.pytorch as smd
    hook = smd.Hook.create_from_json_file()
    hook.get_collection("labels").include("truth")
    hook.register_module(model)
    for step in""",
).replace(
    "        print(",
    """
        hook.save_tensor("truth", torch.ones(4), collections_to_write="labels")
        print(""",
)


def test_a_script_with_a_hook_of_smdebugs_is_left_alone_whatever_it_collects(run, opt_ml):
    folder = opt_ml.root / "output/tensors"
    opt_ml.config(
        "debughookconfig",
        {
            "S3OutputPath": "s3://bucket/prefix",
            "LocalPath": str(folder),
            "HookParameters": {"save_interval": "5"},
            "CollectionConfigurations": [
                {"CollectionName": "losses"},
                {"CollectionName": "labels", "CollectionParameters": {"save_interval": "5"}},
            ],
        },
    )
    file = str(opt_ml.root / "input/config/debughookconfig.json")
    done = run(OWN_HOOK, environ={"SMDEBUG_CONFIG_FILE_PATH": file})
    assert done.returncode == 0, done.stderr
    assert "no tensors are saved" not in done.stderr
    assert done.stderr.count("[stoker] warning") == 1
    assert "nothing is saved twice" in done.stderr
    assert "truth" in names_at(read(opt_ml), 5)


def test_two_ranks_save_as_two_workers(run, opt_ml):
    opt_ml.config(
        "debughookconfig",
        {
            "HookParameters": {"save_interval": "2", "include_workers": "all"},
            "CollectionConfigurations": [
                {"CollectionName": "gradients"},
                {"CollectionName": "weights"},
            ],
        },
    )
    done = run(RANKS, **LAUNCH)
    assert done.returncode == 0, done.stderr
    assert "[stoker] warning" not in done.stderr
    saved = read(opt_ml)
    assert saved.workers == ("worker_0", "worker_1")
    assert list(saved.steps()) == [0, 2]
    found = {(t.worker, t.name): t.value() for t in saved.at(2).needed("all")}
    one, other = (found[worker, "Sequential_0.weight"] for worker in saved.workers)
    np.testing.assert_array_equal(one, other)  # the same model …
    one, other = (found[worker, "gradient/Sequential_0.weight"] for worker in saved.workers)
    assert np.any(one != other)  # … and other data


def test_a_killed_script_leaves_whole_steps(run, opt_ml):
    dies = """\
        if step == 300:
            import glob, os, time
            while not glob.glob(os.environ["STOKER_ROOT"] + "/output/tensors/index/*/*.json"):
                time.sleep(0.01)
            os.kill(os.getpid(), 9)
"""
    ends = SCRIPT.replace("range(12):\n", f"range(400):\n{dies}")
    done = run(ends, environ={"STOKER_DEBUG": "collections=all every=1"})
    assert done.returncode != 0
    assert done.stdout.count("loss") == 300, done.stderr
    saved = read(opt_ml)
    assert not saved.damaged
    assert len(saved.steps()) > 0
    for step in saved.steps():
        for tensor in saved.at(step).needed("all"):
            tensor.value()


def test_a_full_disk_is_one_warning_and_no_failure(run, opt_ml):
    limited = "    import resource\n    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
    text = limited + SCRIPT.replace('torch.save(model, "model.pt")', "")
    done = run(text, environ={"STOKER_DEBUG": "collections=all every=1"})
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 12
    assert done.stderr.count("cannot be saved") == 1, done.stderr


def test_nothing_is_hooked_where_nothing_is_asked_for(run, opt_ml):
    done = run(
        """
        import sys, torch
        print([name for name in sys.modules if name.startswith("stoker.debugging")])
        print(bool(torch.nn.modules.module._has_any_global_hook()))
        print(torch.nn.functional.cross_entropy.__code__.co_filename.endswith("functional.py"))
        """
    )
    assert done.stdout.splitlines() == ["[]", "False", "True"]


def test_a_process_that_the_script_starts_does_not_write_over_its_steps(run, opt_ml):
    starts = """\
        if step == 10 and len(__import__("sys").argv) < 2:
            import subprocess, sys
            subprocess.run([sys.executable, __file__, "again"], check=True)
"""
    text = SCRIPT.replace("range(12):\n", f"range(12):\n{starts}")
    done = run(text, environ={"STOKER_DEBUG": "collections=gradients every=1"})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("this one saves none") == 1
    saved = read(opt_ml)
    assert list(saved.steps()) == list(range(12))
    assert saved.descriptions.keys() >= {"gradient/Net_fc.weight", "cross_entropy_loss_output_0"}
    losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
    first = [saved.at(step).find("cross_entropy_loss_output_0").value() for step in range(12)]
    assert [float(value) for value in first] == [*losses[:10], *losses[-2:]]
