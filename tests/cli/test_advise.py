"""Advice that is tried: what helps is shown to help, what does not is said not to."""

from __future__ import annotations

import json
import textwrap

import pytest

pytestmark = pytest.mark.functional

SCRIPT = """
    import time
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Slow(TensorDataset):
        def __getitem__(self, index):
            time.sleep(0.04)
            return super().__getitem__(index)

    if __name__ == "__main__":
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for (x,) in DataLoader(Slow(torch.ones(60, 4)), batch_size=2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
"""


def test_workers_for_a_slow_loader_help_and_pinned_memory_does_not(cli):
    (cli.folder / "train.py").write_text(textwrap.dedent(SCRIPT))
    cli.up()
    env = ("--env", "STOKER_PROFILE=auto", "--env", "OMP_NUM_THREADS=1")
    done = cli.on_platform("train", "train.py", *env, "--name", "slow")
    assert done.returncode == 0, done.stdout + done.stderr
    trials = ("--try", "workers=4,pin_memory", "--steps", "24", "--json")
    advise = cli.start("advise", "slow", *trials, "--root", str(cli.platform))
    out, errors = advise.communicate(timeout=600)
    assert advise.returncode == 0, errors
    workers, pinned = json.loads(out)
    assert (workers["try"], pinned["try"]) == ("workers=4", "pin_memory=1")
    # Four sleep at a time: a quarter of the time, less what a busy machine takes.
    assert workers["predicted"] > 0
    assert workers["measured"] > 0.3
    assert workers["measured"] > workers["noise"]
    assert workers["saved_seconds"] > 0
    assert pinned["measured"] < workers["measured"]
    assert pinned["predicted"] is None
    if pinned["measured"] <= pinned["noise"]:
        assert pinned["saved_seconds"] == 0
