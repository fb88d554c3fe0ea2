"""The sampler: what it reads, what it writes, and that nothing disturbs it or the job."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest

from stoker.bus.job_phases import read_phases
from stoker.bus.system_samples import list_sample_files, read_events
from stoker.contract.files import write_atomically
from stoker.debugging.profiler_rules.reading import ProfileReader
from stoker.profiling.sampling.control_group import ControlGroup
from stoker.profiling.sampling.sample import Sampler
from stoker.profiling.sampling.sample_file import SampleFiles

SECOND_VERSION = {
    "cgroup.controllers": "cpu memory io",
    "cpu.stat": "usage_usec 2500000\nnr_periods 40\nnr_throttled 10\n",
    "cpu.max": "150000 100000",
    "memory.current": "5000000",
    "memory.stat": "anon 1\ninactive_file 1000000\n",
    "memory.max": "8000000",
    "io.stat": "8:0 rbytes=100 wbytes=200 rios=1\n8:16 rbytes=1 wbytes=2\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\n",
    "memory.pressure": "some avg10=0.00 total=0\nfull avg10=0.00 total=1000000\n",
}
FIRST_VERSION = {
    "cpuacct/cpuacct.usage": "2500000000",
    "cpu/cpu.stat": "nr_periods 40\nnr_throttled 10\n",
    "cpu/cpu.cfs_quota_us": "150000",
    "cpu/cpu.cfs_period_us": "100000",
    "memory/memory.usage_in_bytes": "5000000",
    "memory/memory.stat": "inactive_file 5\ntotal_inactive_file 1000000\n",
    "memory/memory.limit_in_bytes": "8000000",
    "blkio/blkio.throttle.io_service_bytes": "8:0 Read 100\n8:0 Write 200\n8:16 Read 1\n"
    "8:16 Write 2\nTotal 303\n",
}


@pytest.mark.parametrize("version", [SECOND_VERSION, FIRST_VERSION], ids=["v2", "v1"])
def test_both_versions_of_control_groups_are_read(tmp_path, version):
    for name, content in version.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    membership = tmp_path / "membership"
    lines = "0::/docker/x\n" + "".join(
        f"{n}:{c}:/docker/x\n" for n, c in enumerate(("cpuacct", "cpu", "memory", "blkio"))
    )
    membership.write_text(lines)
    group = ControlGroup(str(tmp_path), str(membership))
    assert group.cpu_seconds() == 2.5
    assert group.cpu_limit() == 1.5
    assert group.throttled() == (10, 40)
    assert group.memory_bytes() == 4_000_000
    assert group.memory_limit_bytes() == 8_000_000
    assert group.disk_bytes() == (101, 202)


def test_without_control_groups_the_machine_is_measured(tmp_path, monkeypatch):
    nothing = ControlGroup(str(tmp_path), str(tmp_path / "none"))
    assert nothing.cpu_seconds() == nothing.cpu_limit() == nothing.memory_bytes() == -1
    sampler = Sampler(str(tmp_path))
    monkeypatch.setattr(sampler, "_group", nothing)
    assert sampler.take(0.0) == []
    events = sampler.take(1.0)
    names = {(dimension, name) for _, name, dimension, _ in events}
    assert {("CPUUtilization", f"cpu{n}") for n in os.sched_getaffinity(0)} <= names
    assert ("Memory", "MemoryUsedPercent") in names
    assert all(math.isfinite(value) for *_, value in events)


def test_cores_behind_a_quota_are_shown_as_those_it_leaves(tmp_path, monkeypatch):
    sampler = Sampler(str(tmp_path))
    sampler._limit = 1.5
    used = iter([0.0, 1.5])
    monkeypatch.setattr(sampler._group, "cpu_seconds", lambda: next(used))
    seconds = iter([dict.fromkeys(range(8), (0.0, 0.0)), dict.fromkeys(range(8), (1.0, 0.0))])
    monkeypatch.setattr(sampler._machine, "core_seconds", lambda: next(seconds))
    sampler.take(0.0)
    values = {n: v for _, n, dimension, v in sampler.take(1.0) if dimension == "CPUUtilization"}
    assert values == {"cpu0": pytest.approx(100), "cpu1": pytest.approx(100)}


def test_a_job_is_sampled_from_start_to_end(tmp_path):
    """Two seconds long, with a new interval on the way, and a process that is named oddly."""
    code = """
import json, os, time
root = os.environ["STOKER_ROOT"]
def times():
    found = set()
    for folder, _, names in os.walk(f"{root}/output/profiler/system"):
        for name in names:
            with open(f"{folder}/{name}") as file:
                found |= {json.loads(line)["Timestamp"] for line in file if line.endswith("}\\n")}
    return sorted(found)
with open("/proc/self/comm", "w") as comm: comm.write('a "b" \\\\')
end = time.time() + 1.5
while time.time() < end: pass
with open(f"{root}/new.json", "w") as file:
    json.dump({"ProfilingIntervalInMilliseconds": 100, "DisableProfiler": False}, file)
os.replace(f"{root}/new.json", f"{root}/input/config/profilerconfig.json")
end = time.time() + 60
while time.time() < end and not any(b - a < 0.45 for a, b in zip(times(), times()[1:])):
    time.sleep(0.05)
"""
    run = _run_job(tmp_path, code, {"ProfilingIntervalInMilliseconds": 500})
    assert run.returncode == 0, run.stderr
    profiler = tmp_path / "output/profiler"
    for file, node, _ in list_sample_files(str(profiler)):
        assert node == "algo-1"
        with open(file) as lines:
            assert all(json.loads(line) for line in lines)
    series = ProfileReader(str(profiler)).read().samples["algo-1"]
    used = series["ContainerCPUUtilization", "container"]
    gaps = [b - a for a, b in zip(used.times, used.times[1:], strict=False)]
    assert min(gaps[:-1]) < 0.45 <= max(gaps)  # the script has waited for it
    assert any(name.endswith("a ?b? ?") for kind, name in series if "Process" in kind)
    assert (profiler / "system/training_job_end.ts").exists()
    phases = {phase.phase: phase for phase in read_phases(str(profiler))}
    assert list(phases) == ["start", "training", "finish"]
    assert phases["training"].end - phases["training"].start > 1.5


@pytest.mark.parametrize("environ", [{}, {"STOKER_PROFILE": "off"}])
def test_a_job_that_is_not_profiled_has_no_profile(tmp_path, environ):
    config = {"DisableProfiler": not environ}
    assert _run_job(tmp_path, "", config, **environ).returncode == 0
    assert not (tmp_path / "output/profiler").exists()


def test_a_sampler_that_is_killed_and_a_folder_that_is_none_do_not_touch_the_job(tmp_path):
    code = """
import os, signal, time
pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
def arguments(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file, open(f"/proc/{pid}/environ") as environ:
            return file.read() + environ.read()
    except OSError:
        return ""
for pid in pids:
    said = arguments(pid)
    if "stoker.profiling.sampling" in said and os.environ["STOKER_ROOT"] + "\\0" in said:
        os.kill(pid, signal.SIGKILL)
"""
    (tmp_path / "output").mkdir()
    (tmp_path / "output/profiler").write_text("in the way")
    run = _run_job(tmp_path, code, {"ProfilingIntervalInMilliseconds": 100})
    assert run.returncode == 0
    assert run.stderr.count("profiler") <= 2


def test_the_files_stay_below_their_limit_and_a_clock_may_jump(tmp_path):
    files = SampleFiles(str(tmp_path), "algo-1", most_bytes=20_000)
    slowness = []
    for n in range(400):
        # The clock goes back by an hour in the middle.
        files.write([("cpu", "cpu0", "CPUUtilization", 1.0)], 1e9 + n - (n > 200) * 3600)
        slowness.append(files.slowness)
    files.close()
    written = sum(os.path.getsize(file) for file, _, _ in list_sample_files(str(tmp_path)))
    assert written <= 20_000
    assert slowness[0] == 1 < slowness[-1]
    assert "no more" in files.trouble
    samples = ProfileReader(str(tmp_path)).read().samples
    assert len(samples["algo-1"]["CPUUtilization", "cpu0"].values) > 100


def test_a_damaged_file_is_read_as_far_as_it_is_whole(tmp_path):
    file = tmp_path / "x.json"
    file.write_text('{"Value": 1}\nnot json\n{"Value": 2}\n{"Val')
    assert [event["Value"] for event in read_events(str(file))] == [1, 2]


def _run_job(root, code, config, **environ):
    (root / "input/config").mkdir(parents=True)
    (root / "code").mkdir()
    (root / "code/train.py").write_text(code)
    write_atomically(str(root / "input/config/profilerconfig.json"), json.dumps(config))
    parameters = {
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": json.dumps(str(root / "code")),
    }
    (root / "input/config/hyperparameters.json").write_text(json.dumps(parameters))
    return subprocess.run(
        [sys.executable, "-m", "stoker.runtime"],
        env={**os.environ, "STOKER_ROOT": str(root), **environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_sampler_ends_with_its_launcher(tmp_path):
    (tmp_path / "input/config").mkdir(parents=True)
    environ = {**os.environ, "STOKER_ROOT": str(tmp_path), "STOKER_PROFILE": "auto"}
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-m', 'stoker.profiling.sampling'])\n"
        "print(p.pid, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True
    ) as launcher:
        pid = int(launcher.stdout.readline())
        while not any(list_sample_files(str(tmp_path / "output/profiler"))):
            time.sleep(0.05)
        launcher.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}") and _state(pid) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
