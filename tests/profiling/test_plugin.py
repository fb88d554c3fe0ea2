"""What TensorBoard's profiler plug-in makes of our traces."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker.profiling.traces import Traces
from stoker.profiling.window import Window

from .training import Training

pytest.importorskip("torch_tb_profiler", reason="an image has it; see docker/common.in")

# In a process of its own: the plug-in changes werkzeug, and imports with warnings.
READ = """
import sys
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator
data = RunProfileData.parse("algo-1_0", 1, sys.argv[1], sys.argv[2])
profile = RunGenerator("algo-1_0", 1, data).generate_run_profile()
print(*[view.display_name for view in profile.views])
print(*[row["name"] for row in profile.operation_table_by_name["data"]])
print(len(profile.get_memory_stats()["rows"]["CPU"]))
print(len(profile.overview["steps"]["rows"]))
"""


def test_the_plug_in_finds_every_view_that_a_cpu_has(tmp_path):
    training = Training()
    traces = Traces(str(tmp_path), Window(wait=0, active=2), worker="algo-1_0")
    with traces:
        for _ in range(3):
            training()
            traces.step()
    done = subprocess.run(
        [sys.executable, "-c", READ, traces.files[0], str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    views, operators, memory_rows, steps = done.stdout.splitlines()
    assert set(views.split()) >= {"Overview", "Operator", "Trace", "Memory"}
    assert "aten::linear" in operators
    assert int(memory_rows) > 0
    assert int(steps) == 2
