"""What is tried without a change of the script reaches torch, and the process ends in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from stoker.errors import ConfigInvalid
from stoker.profiling.overrides import Overrides, read_overrides

SCRIPT = """
import atexit, json
import torch
import stoker.profiling.overrides as overrides
overrides.apply_overrides()
seen = {"saves": 0, "steps": 0}
atexit.register(lambda: print(json.dumps(seen)))
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, n): return torch.ones(3, 8, 8), n % 2
loader = torch.utils.data.DataLoader(Numbers(), 4, True, num_workers=0)
seen["workers"], seen["batch"] = loader.num_workers, loader.batch_size
seen["persistent"], seen["prefetch"] = loader.persistent_workers, loader.prefetch_factor
seen["threads"] = torch.get_num_threads()
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
real = torch.serialization.save
while True:
    for pictures, labels in torch.utils.data.DataLoader(Numbers(), batch_size=8):
        seen["batch"] = len(pictures)
        out = model(pictures)
        seen["dtype"] = str(out.dtype)
        loss = torch.nn.functional.cross_entropy(out.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        seen["steps"] += 1
        path = f"save-{seen['steps']}"
        torch.save({}, path)
        import os
        seen["saves"] += os.path.exists(path)
        seen["format"] = model[0].weight.is_contiguous(memory_format=torch.channels_last)
        optimizer.step()
"""


def test_every_setting_reaches_torch_and_the_script_ends_after_its_steps(tmp_path):
    words = "workers=1 prefetch=3 persistent_workers batch_size=16 threads=1 amp channels_last"
    environ = {**os.environ, "STOKER_TRY": f"{words} save_interval=2 steps=4"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**environ, "STOKER_ROOT": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen == {
        **{"workers": 1, "prefetch": 3, "persistent": True, "batch": 16, "threads": 1},
        **{"steps": 4, "saves": 2, "dtype": "torch.bfloat16", "format": True},
    }


def test_settings_are_read_and_unknown_ones_are_refused():
    assert read_overrides("workers=0, amp") == Overrides(workers=0, amp=1)
    for text in ("worker=2", "workers=two"):
        with pytest.raises(ConfigInvalid):
            read_overrides(text)
