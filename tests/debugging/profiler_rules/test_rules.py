"""Each rule of the profiler on machines that have, and do not have, what it is about."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from stoker.bus.step_records import StepFacts
from stoker.bus.system_samples import CONTAINER_CPU, CPU_LIMIT, RUNNABLE
from stoker.debugging.evaluate.profile_watch import scan_all
from stoker.debugging.profiler_rules import EXTENSIONS, PROFILER_CATALOGUE, SERVICE_RULES
from stoker.debugging.profiler_rules.load_balancing import find_distance
from stoker.debugging.profiler_rules.profile import Event, Profile
from stoker.debugging.profiler_rules.reading import ProfileReader
from stoker.debugging.specs import make_rule, read_specs
from stoker.errors import RuleInvalid
from tests.debugging.profiler_rules.profiles import (
    START,
    make_machine,
    make_profile,
    make_series,
    make_steps,
    write_samples,
    write_steps,
)


def look(name, profile, **settings):
    rule = PROFILER_CATALOGUE[name]({key: str(value) for key, value in settings.items()})
    return rule, rule.scan(profile, is_last=True)


WAVES = np.tile([5.0, 95.0], 600)
BUSY = {"cpu0": 95, "cpu1": 20, "gpu0": 5, "gpu1": 90}
LEAK = np.concatenate([np.full(1195, 20.0), [80.0] * 5])
# Rule → (a machine with its sickness, one without).
MACHINES = {
    "BatchSize": (
        {"cpu0": 30, "cpu1": 40, "gpu0": 40, "gpu0_memory": 30},
        {"cpu0": 30, "cpu1": 40, "gpu0": 40, "gpu0_memory": 90},
    ),
    "CPUBottleneck": (BUSY, {**BUSY, "cpu0": 80}),
    "IOBottleneck": (
        {"cpu0_io": 60, "gpu0": 5},
        {"cpu0_io": 60, "gpu0": 60},
    ),
    "GPUMemoryIncrease": ({"gpu0_memory": LEAK}, {"gpu0_memory": 99}),
    "LoadBalancing": ({"gpu0": 99, "gpu1": 20}, {"gpu0": 99, "gpu1": 99.5}),
    "LowGPUUtilization": ({"gpu0": 50}, {"gpu0": 90}),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_rule_about_machines_fires_at_its_sickness_only(name):
    sick, healthy = (make_profile(algo_1=make_machine(**m)) for m in MACHINES[name])
    settings = {"increase": 0.5} if name == "GPUMemoryIncrease" else {}
    rule, finding = look(name, sick, **settings)
    assert finding is not None, rule.lacking
    assert finding.hint
    assert name.endswith("Bottleneck") or "algo-1" in finding.message
    assert (rule.report()["RuleTriggered"], rule.datapoints >= 1200) == (1, True)
    rule, finding = look(name, healthy)
    assert finding is None
    assert rule.report()["Datapoints"] == 1200
    assert not rule.lacking


@pytest.mark.parametrize("name", MACHINES)
def test_a_short_job_is_told_how_far_it_came_and_the_quick_preset_fires(name):
    machine = make_machine(
        25, **{k: v if np.isscalar(v) else v[-25:] for k, v in MACHINES[name][0].items()}
    )
    rule, finding = look(name, make_profile(algo_1=machine))
    assert finding is None
    assert "25 of the more than 1000" in rule.lacking
    assert 'preset="quick"' in rule.lacking
    (spec,) = read_specs(f"{name}(quick{', increase=0.5' if name == 'GPUMemoryIncrease' else ''})")
    assert make_rule(spec).scan(make_profile(algo_1=machine)) is not None


@pytest.mark.parametrize("name", [*SERVICE_RULES, *EXTENSIONS, "ProfilerReport"])
def test_a_rule_says_what_is_missing_when_nothing_was_measured(name):
    rule, finding = look(name, Profile())
    assert finding is None
    assert rule.lacking or name in ("OverallFrameworkMetrics", "ProfilerReport")
    report = rule.report()
    assert set(report) == {
        "RuleTriggered",
        "Violations",
        "Details",
        "Datapoints",
        "RuleParameters",
    }
    json.dumps(report)


def test_the_parameters_are_those_of_the_service_in_its_order():
    lines = {name: PROFILER_CATALOGUE[name]().report()["RuleParameters"] for name in SERVICE_RULES}
    assert lines["CPUBottleneck"].split() == [
        *("threshold:50", "cpu_threshold:90", "gpu_threshold:10", "patience:1000"),
    ]
    assert lines["GPUMemoryIncrease"].split() == ["increase:5", "patience:1000", "window:10"]
    assert lines["StepOutlier"].split() == [
        *("threshold:3", "mode:None", "n_outliers:10", "stddev:3"),
    ]
    assert lines["BatchSize"].split()[-2:] == ["patience:1000", "window:500"]


def test_gpus_of_two_hosts_are_compared_and_the_distance_is_bounded():
    one, other = make_machine(gpu0=100), make_machine(gpu0=10)
    rule, finding = look("LoadBalancing", make_profile(algo_1=one, algo_2=other))
    assert "algo-1" in finding.message
    assert "algo-2" in finding.message
    distance = rule.details["algo-1"]["distances"]["gpu0"]["algo-2 gpu0"]
    assert distance == pytest.approx(math.sqrt(math.log(2)))
    assert sum(rule.details["algo-1"]["workloads"]["gpu0"]) == 1200  # also of what is above 98 %
    same = np.array([0.5, 0.5])
    assert find_distance(same, same) == 0


def test_a_gpu_that_goes_up_and_down_is_low_utilization():
    _, finding = look("LowGPUUtilization", make_profile(algo_1=make_machine(gpu0=WAVES)))
    assert "goes from" in finding.message


def test_step_outliers_are_found_and_their_operators_named():
    seconds = np.full(500, 0.1)
    seconds[50::40] = 2.0
    steps = make_steps(seconds)
    late = float(steps.starts[50])
    events = [
        Event(node="algo-1", phase="cpu_functions", name="aten::conv", start=late, seconds=1.0),
        Event(node="algo-1", phase="cpu_functions", name="aten::relu", start=0.0, seconds=9.0),
    ]
    profile = Profile(steps=[steps], events=events)
    rule, finding = look("StepOutlier", profile)
    assert finding.values["outliers"] == 12
    details = rule.details["step_details"]["algo-1"]
    assert details["step_numbers"][0] == 50 - 0
    assert details["number_of_outliers"] == 12
    assert rule.details["CPU"] == {"aten::conv": 100.0}
    _, finding = look("StepOutlier", Profile(steps=[make_steps(np.full(500, 0.1))]))
    assert finding is None
    _, finding = look("StepOutlier", profile, mode="EVAL")
    assert finding is None


def test_a_late_first_step_fires_and_no_step_at_all_does_not():
    machine = make_machine(3000, cpu0=1)
    late = make_steps([0.1] * 5, start=START + 1300)
    rule, finding = look("MaxInitializationTime", make_profile(late, algo_1=machine))
    assert "21.7 minutes" in finding.message
    assert rule.details["step_num"]["first"] == (START + 1300) * 1e6
    rule, finding = look("MaxInitializationTime", make_profile(algo_1=machine))
    assert finding is None
    assert "no step was measured" in rule.lacking


def test_statistics_of_the_machines_are_in_the_services_shape():
    profile = make_profile(algo_1=make_machine(cpu0=10, cpu1=30, gpu0=-4))
    rule, _ = look("OverallSystemUsage", profile)
    assert rule.details["CPU"]["algo-1"] == dict.fromkeys(("max", "p99", "p95", "p50", "min"), 20)
    assert rule.details["GPU"]["algo-1"]["max"] == 0
    assert list(rule.details) == ["CPU", "GPU", "CPU memory", "GPU memory", "I/O", "Network"]


def test_time_between_steps_counts_once_as_others():
    one = make_steps([1.0] * 4)
    other = make_steps([1.0] * 2, mode="EVAL", start=START + 8)
    rule, _ = look("OverallFrameworkMetrics", Profile(steps=[one, other]))
    assert rule.details["phase"] == {
        "Step:ModeKeys.TRAIN": 40.0,
        "Step:ModeKeys.EVAL": 20.0,
        "others": 40.0,
    }


def test_the_phases_of_smdebugs_own_hook_are_halves_of_a_step():
    # Its timelines have a third one: from the end of forward to the start of backward.
    phases = ("Forward", "Backward(post-forward)", "Backward")
    events = [
        Event(node="algo-1", phase=f"{p}-SubModuleInternal", name=p, start=START, seconds=1.0)
        for p in phases
    ]
    steps = make_steps(np.full(5, 1.0))
    rule, _ = look("OverallFrameworkMetrics", Profile(steps=[steps], events=events))
    shares = rule.details["forward_backward"]
    assert shares == {
        "Forward pass": pytest.approx(100 / 3),
        "Backward pass": pytest.approx(200 / 3),
    }
    assert not rule.details["general"]


@pytest.mark.parametrize(("workers", "fires"), [(8, True), (2, False), (0, True)])
def test_loader_workers_are_compared_with_the_cores(workers, fires):
    facts = StepFacts(host="algo-1", rank=0, pid=1, cpus=2, loaders=({"num_workers": workers},))
    profile = Profile(steps=[make_steps([0.1] * 20, data_wait=0.05)], facts=[facts])
    rule, finding = look("Dataloader", profile, min_threshold=70 if workers else 120)
    assert (finding is not None) == fires
    assert rule.details["cores"] == 2
    assert rule.details["num_workers"] == workers


def test_the_extensions_evaluate_machines_without_gpus():
    machine = make_machine(cpu0=98, cpu1=99) | {
        (CONTAINER_CPU, "container"): make_series([99.0] * 1200),
        (CPU_LIMIT, ""): make_series([2.0] * 1200),
        (RUNNABLE, ""): make_series([9.0] * 1200),
        ("Memory", "MemoryUsedPercent"): make_series(np.linspace(10, 95, 1200)),
    }
    slow = make_steps([0.2] * 200, data_wait=0.1, forward=0.05)
    fast = make_steps([0.2] * 200, rank=1, data_wait=0.01, forward=0.05)
    profile = make_profile(slow, fast, algo_1=machine)
    found = {name: look(name, profile)[1] for name in EXTENSIONS}
    fired = {name for name, finding in found.items() if finding}
    assert fired == {
        *("CPUSaturated", "CPUMemoryIncrease", "MemoryNearLimit"),
        *("SlowDataLoader", "SkewedRanks"),
    }
    assert found["SlowDataLoader"].values["percent"] == pytest.approx(50)
    # All steps take equally long: rank 1 waits for rank 0 in backward.
    assert found["SkewedRanks"].values["ratio"] == pytest.approx(0.2 / 0.11)
    idle = make_profile(algo_1=make_machine(cpu0=10, cpu1=20))
    assert look("LowCPUUtilization", idle)[1] is not None
    crowded = {("PressureStall", "cpu some"): make_series([90.0] * 1200)}
    shared = make_profile(algo_1=make_machine(cpu0=10, cpu1=20) | crowded)
    assert look("LowCPUUtilization", shared)[1] is None


def test_the_report_runs_all_rules_with_their_own_parameters_in_both_forms():
    profile = make_profile(algo_1=make_machine(**BUSY))
    rule, finding = look("ProfilerReport", profile)
    assert "CPUBottleneck" in finding.message
    assert list(rule.reports()) == [*SERVICE_RULES, *EXTENSIONS]
    for settings in (
        {"cpubottleneck_CPU_threshold": "99", "LowGPUUtilization_threshold_p95": "1"},
        {
            "custom_rule_parameters": '{"CPUBottleneck_cpu_threshold": "99", '
            '"LowGPUUtilization_threshold_p95": 1}',
            "opt_out_telemetry": "True",
        },
    ):
        rule, finding = look(
            "ProfilerReport",
            profile,
            LoadBalancing_threshold=1,
            LowGPUUtilization_threshold_p5=1,
            **settings,
        )
        assert finding is None, finding
        assert "cpu_threshold:99" in rule.reports()["CPUBottleneck"]["RuleParameters"]


@pytest.mark.parametrize(
    "name", ["CPUBotleneck_threshold", "CPUBottleneck_treshold", "nothing", "opt_out_telemetry"]
)
def test_the_report_refuses_parameters_that_do_not_exist(name):
    with pytest.raises(RuleInvalid):
        PROFILER_CATALOGUE["ProfilerReport"]({name: "x"})


def test_an_issue_of_an_early_window_is_still_an_issue_at_the_end():
    figures = np.concatenate([np.full(1200, 30.0), np.full(2400, 90.0)])
    profile = make_profile(algo_1={**make_machine(3600, cpu0=90, gpu0=figures)})
    rule = PROFILER_CATALOGUE["ProfilerReport"]()
    assert look("ProfilerReport", profile)[1] is None
    scan_all(rule, profile)
    assert "LowGPUUtilization" in rule.findings


def test_the_files_are_read_as_they_grow_and_damaged_ones_are_left_out(tmp_path):
    figures = {("cpu", "CPUUtilization", "cpu0"): np.arange(300.0)}
    write_samples(tmp_path, figures)
    reader = ProfileReader(str(tmp_path))
    first = reader.read()
    assert list(first.samples["algo-1"]["CPUUtilization", "cpu0"].values) == list(range(300))
    write_samples(tmp_path, {("cpu", "CPUUtilization", "cpu0"): np.arange(500.0)})
    file = max(tmp_path.rglob("*.algo-1.json"))
    file.write_text(file.read_text() + '{"Type": "cpu", "Val')
    write_steps(tmp_path, [{"total": 0.1, "data_wait": 0.05}] * 10 + [{"total": 0.2, "flags": 1}])
    steps = next(tmp_path.rglob("*.steps"))
    steps.write_bytes(steps.read_bytes() + b"half")
    timeline = tmp_path / "framework/pevents/2020091312/1_1-algo-1_pythontimeline.json"
    timeline.parent.mkdir(parents=True)
    timeline.write_text("[{")
    grown = reader.read()
    assert len(grown.samples["algo-1"]["CPUUtilization", "cpu0"]) == 500
    assert [(one.mode, one.steps) for one in grown.steps] == [("TRAIN", 10), ("EVAL", 1)]
    assert reader.damaged == [str(timeline)]
