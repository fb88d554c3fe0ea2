"""smdebug's readers and charts, in a real kernel, over the files of a job of the platform."""

from __future__ import annotations

import json
import os

import pytest
from jupyter_client.manager import start_new_kernel

from stoker.platform.model.root import DEFAULT_BUCKET, REGION
from stoker.runtime.processes import descendants
from tests.conftest import OF_THE_SESSION

SCRIPT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.005)
        return super().__getitem__(index)

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Slow(torch.ones(40, 4), torch.ones(40, 1)), batch_size=2, num_workers=1)
for epoch in range(2):
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        time.sleep(0.01)  # pyinstrument looks every millisecond, and the step takes little more
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
time.sleep(1)
"""
PROFILER = {
    "S3OutputPath": f"s3://{DEFAULT_BUCKET}/profiles",
    "ProfilingIntervalInMilliseconds": 100,
    "ProfilingParameters": {
        "DetailedProfilingConfig": json.dumps({"StartStep": 5, "NumSteps": 1}),
        "PythonProfilingConfig": json.dumps(
            {"StartStep": 9, "NumSteps": 3, "ProfilerName": "cprofile", "cProfileTimer": "default"}
        ),
    },
}
INSTRUMENTED = {
    **PROFILER,
    "ProfilingParameters": {
        "PythonProfilingConfig": json.dumps(
            {"StartStep": 9, "NumSteps": 3, "ProfilerName": "pyinstrument"}
        )
    },
}
CHARTS = "smdebug.profiler.analysis.notebook_utils"
UTILITIES = "smdebug.profiler.analysis.utils"
START = f"""
import logging, warnings
from {CHARTS}.training_job import TrainingJob
job = TrainingJob("profiled", "{REGION}")
job.wait_for_sys_profiling_data_to_be_available()
job.wait_for_framework_profiling_data_to_be_available()
system, framework = job.get_systems_metrics_reader(), job.get_framework_metrics_reader()
path = job.profiler_s3_output_path
from {UTILITIES}.profiler_data_to_pandas import PandasFrame
frame = PandasFrame(path)
hardware, steps = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
"""
DRAWN = {
    "MetricsHistogram": f"""
from {CHARTS}.metrics_histogram import MetricsHistogram
MetricsHistogram(system).plot()
""",
    "StepHistogram": f"""
from {CHARTS}.step_histogram import StepHistogram
StepHistogram(framework).plot()
""",
    "StepTimelineChart": f"""
from {CHARTS}.step_timeline_chart import StepTimelineChart
chart = StepTimelineChart(framework)
""",
    "TimelineCharts": f"""
from {CHARTS}.timeline_charts import TimelineCharts
charts = TimelineCharts(system, framework, select_dimensions=["CPU", "GPU"])
""",
    "the chart of a selection": f"""
from {CHARTS}.timeline_charts import TimelineCharts
TimelineCharts(system, framework).plot_detailed_profiler_data([0, 20])
""",
    "Heatmap": f"""
from {CHARTS}.heatmap import Heatmap
heatmap = Heatmap(system, select_dimensions=["CPU", "I/O", "Memory"], plot_height=450)
""",
}
PRINTED = {
    # As AWS's notebook "interactive analysis of profiling data" calls them.
    "the configuration of the job": """
asked = job.profiler_config["ProfilingParameters"]
assert eval(asked.get("PythonProfilingConfig"))["StartStep"] == 9
""",
    "a selection of framework metrics": """
names = ["Step:ModeKeys.TRAIN", "Step:ModeKeys.GLOBAL"]
chosen = frame.get_all_framework_metrics(selected_framework_metrics=names)
assert {"pid", "tid", "step", "start_time_us", "end_time_us"} <= set(chosen.columns)
none = frame.get_all_framework_metrics(selected_framework_metrics=["a::name::of::TensorFlow"])
assert len(none) == 0, none
""",
    "annotations of a selection": f"""
from {CHARTS}.timeline_charts import TimelineCharts
TimelineCharts(system, framework, select_events=["total"]).find_time_annotations([0, 20])
""",
    "cProfileAnalysis by phases": """
import tempfile
from smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase
from smdebug.profiler.analysis.python_profile_analysis import cProfileAnalysis
profiles = cProfileAnalysis(local_profile_dir=tempfile.mkdtemp(), s3_path=path)
profiles.fetch_pre_step_zero_profile_stats()
profiles.fetch_post_hook_close_profile_stats()
assert "training_loop" in profiles.fetch_profile_stats_by_job_phase()
start = StepPhase.STEP_START
profiles.fetch_profile_stats_by_step(
    start_step=9, end_step=10, start_phase=start, end_phase=start, mode=PythonProfileModes.TRAIN
)
""",
    "PandasFrame": """
assert set(hardware["dimension"]) >= {"CPUUtilization", "I/OWaitPercentage", "Memory", "Algorithm"}
assert set(hardware["nodeID"]) == {"algo-1"}
train = frame.get_all_framework_metrics(selected_framework_metrics=["Step:ModeKeys.TRAIN"])
assert sorted(train["step"]) == list(range(40)), train
""",
    "PandasFrameAnalysis": f"""
from {UTILITIES}.pandas_data_analysis import PandasFrameAnalysis, Resource, StatsBy
analysis = PandasFrameAnalysis(hardware, steps)
assert analysis.get_job_statistics()["job_duration"] > 1e6
analysis.get_step_statistics(by=StatsBy.PROCESS)
analysis.get_utilization_stats(resource=[Resource.CPU], by=StatsBy.TRAINING_PHASE)
analysis.get_device_usage_stats(device=[Resource.CPU])
""",
    "PT_dataloader_analysis": f"""
from {UTILITIES}.pytorch_dataloader_analysis import PT_dataloader_analysis
loaders = PT_dataloader_analysis(frame)
assert len(loaders.initialize_metric) == 2
loaders.analyze_dataloaderIter_initialization()
loaders.analyze_dataloader_getnext()
loaders.analyze_batchtime()
""",
    "MergedTimeline": f"""
import json, os, tempfile
from {UTILITIES}.merge_timelines import MergedTimeline, MergeUnit
folder = tempfile.mkdtemp()
MergedTimeline(path, output_directory=folder).merge_timeline(2, 10, unit=MergeUnit.STEP)
(name,) = os.listdir(folder)
with open(os.path.join(folder, name)) as file:
    assert len(json.load(file)) > 30
""",
    "cProfileAnalysis": f"""
import tempfile
from smdebug.profiler.analysis.python_profile_analysis import cProfileAnalysis
from {UTILITIES}.python_profile_analysis_utils import Metrics
profiles = cProfileAnalysis(local_profile_dir=tempfile.mkdtemp(), s3_path=path)
assert list(profiles.list_profile_stats()["start_step"]) == [9, 10, 11]
stats = profiles.fetch_profile_stats_by_step(9, 11)
stats.print_top_n_functions(Metrics.TOTAL_TIME, n=3)
assert len(stats.get_function_stats())
""",
    "PyinstrumentAnalysis": """
import os, tempfile
from smdebug.profiler.analysis.python_profile_analysis import PyinstrumentAnalysis
place = path.replace("/profiled/", "/instrumented/")
profiles = PyinstrumentAnalysis(local_profile_dir=tempfile.mkdtemp(), s3_path=place)
found = profiles.fetch_profile_stats_by_step(9, 11)
assert len(found) >= 2, found
for one in found:
    assert "train" in str(one.json_stats["root_frame"])
    assert os.path.getsize(one.html_file_path) > 1000
""",
}


@pytest.fixture(scope="module")
def notebook(module_server):
    """Runs a cell; returns how it ended and the kinds of what it has shown."""
    jobs = {"profiled": PROFILER, "instrumented": INSTRUMENTED}
    for name, config in jobs.items():
        module_server.submit(name, SCRIPT, ProfilerConfig=config)
    for name in jobs:
        assert module_server.wait(name)["TrainingJobStatus"] == "Completed"
    before = set(descendants(os.getpid()))
    manager, client = start_new_kernel(kernel_name="python3", env=module_server.sdk_environ())
    kept = set(descendants(os.getpid())) - before
    OF_THE_SESSION.update(kept)
    try:
        _run(client, START)
        yield lambda cell: _run(client, cell)
    finally:
        OF_THE_SESSION.difference_update(kept)
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


@pytest.mark.functional
@pytest.mark.parametrize("name", DRAWN)
def test_the_chart_is_drawn(notebook, name):
    assert "application/vnd.bokehjs_exec.v0+json" in notebook(DRAWN[name])


@pytest.mark.functional
@pytest.mark.parametrize("name", PRINTED)
def test_the_analysis_finds_the_job(notebook, name):
    notebook(PRINTED[name])


def _run(client, cell):
    shown, errors = [], []

    def take(message):
        content = message["content"]
        if message["msg_type"] == "error":
            errors.append("\n".join(content["traceback"]))
        shown.extend(content.get("data", ()))

    reply = client.execute_interactive(cell, output_hook=take, timeout=240)
    assert reply["content"]["status"] == "ok", errors
    return shown
