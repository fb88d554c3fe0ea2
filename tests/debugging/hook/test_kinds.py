"""Trainings of every kind give the same weights with and without the hook, and are saved."""

from __future__ import annotations

import pytest
import torch

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import read_hook_config
from stoker.debugging.tensors.saved_tensors import SavedTensors

from .trainings import KINDS

EVERYTHING = {
    "HookParameters": {"save_all": "true", "save_interval": "1"},
    "CollectionConfigurations": [
        {"CollectionName": "weights", "CollectionParameters": {"reductions": "min,max,mean,std"}},
        {"CollectionName": "gradients", "CollectionParameters": {"reductions": "abs_mean"}},
    ],
}
SOME = {
    "HookParameters": {"save_interval": "2"},
    "CollectionConfigurations": [
        {"CollectionName": "gradients", "CollectionParameters": {"reductions": "l2_norm,prod"}},
        {"CollectionName": "outputs"},
    ],
}


@pytest.mark.parametrize("config", [EVERYTHING, SOME], ids=["everything", "some"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_hook_never_changes_the_result(tmp_path, capsys, kind, config):
    torch.manual_seed(0)
    without = KINDS[kind]()
    random_state = torch.get_rng_state()
    torch.manual_seed(0)
    with attach(read_hook_config(config), tmp_path):
        with_hook = KINDS[kind]()
    assert torch.equal(torch.get_rng_state(), random_state)
    assert len(without) == len(with_hook) > 0
    for one, other in zip(without, with_hook, strict=True):
        assert torch.equal(one, other)
    assert "failed" not in capsys.readouterr().err
    saved = SavedTensors(tmp_path)
    saved.refresh()
    assert bool(saved.steps()) == (kind != "functional_call_and_vmap")


@pytest.mark.filterwarnings("ignore")  # smdebug's reader leaves files to the garbage collector
@pytest.mark.parametrize("kind", KINDS)
def test_smdebug_reads_every_tensor(tmp_path, require_readable, kind):
    torch.manual_seed(0)
    everything = {"HookParameters": {"save_all": "true", "save_interval": "1"}}
    with attach(read_hook_config(everything), tmp_path):
        KINDS[kind]()
    require_readable(tmp_path, kind)
