"""smdebug's own reader over what the hook has saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

WITHOUT_LOSS = {"sparse_gradients"}
"""Made by hand: it looks like any other number."""
WITHOUT_STEPS = {"functional_call_and_vmap"}
"""A transform is no call of the script's."""


@pytest.fixture
def require_readable(monkeypatch) -> Callable[[Path, str], None]:
    """Reads every tensor of a folder that a kind of training has left."""
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", "0")
    from smdebug.trials import create_trial

    def read(folder: Path, kind: str) -> None:
        if kind in WITHOUT_STEPS:
            assert not list(folder.glob("index/*/*.json"))
            return
        trial = create_trial(str(folder))
        assert trial.steps()
        assert bool(trial.tensor_names(collection="losses")) == (kind not in WITHOUT_LOSS)
        for step in trial.steps():
            names = trial.tensor_names(step=step)
            assert any(name.endswith("weight") for name in names)
            for name in names:
                assert trial.tensor(name).value(step) is not None

    return read
