"""The profiler's rules on the platform, with the real launcher, sampler, evaluator and report.

The script leaves the records of its steps as the step recorder does; torch is not needed for it.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.platform.local_server import DEFAULT_BUCKET, wait_until

SCRIPT = """
    import os, pathlib, time

    from stoker.bus.step_records import FIELDS, StepFacts, pack, steps_file, write_facts

    root = pathlib.Path(os.environ["SM_OUTPUT_DIR"]).parent
    host = os.environ["SM_CURRENT_HOST"]
    rank = int(host.removeprefix("algo-")) - 1
    file = steps_file(f"{root}/output/profiler", host=host, rank=rank, pid=os.getpid())
    os.makedirs(os.path.dirname(file), exist_ok=True)
    loader = {"num_workers": 64, "batch_size": 32}
    facts = StepFacts(host=host, rank=rank, pid=1, cpus=2, threads=1, loaders=(loader,))
    write_facts(file, facts)

    def step(number, start):
        row = dict.fromkeys(FIELDS, 0.0) | {"start": start, "total": 0.1, "longest": 0.1}
        row |= {"data_wait": 0.08, "forward": 0.01, "backward": 0.01}
        row |= {"step": number, "count": 1, "flags": 0, "ready_batches": -1}
        return pack(tuple(row[name] for name in FIELDS))

    number = 0
    while number < 60 or not os.path.exists(GO):
        with open(file, "ab") as opened:
            opened.write(step(number, time.time()))
        number += 1
        time.sleep(0.1)
"""
PROFILER = {
    "S3OutputPath": f"s3://{DEFAULT_BUCKET}/profiles",
    "ProfilingIntervalInMilliseconds": 100,
}


def rule(name, rule_to_invoke, **parameters):
    parameters = {"rule_to_invoke": rule_to_invoke, **parameters}
    entry = {"RuleConfigurationName": name, "RuleEvaluatorImage": "503895931360.dkr/any:latest"}
    return {**entry, "RuleParameters": parameters}


def profiler_statuses(job):
    return {
        each["RuleConfigurationName"]: (
            each["RuleEvaluationStatus"],
            each.get("StatusDetails", ""),
        )
        for each in job["ProfilerRuleEvaluationStatuses"]
    }


@pytest.fixture(scope="module")
def job(module_server, tmp_path_factory):
    """A profiled job that gets one more rule while it runs; its description and its server."""
    server = module_server
    go = tmp_path_factory.mktemp("go") / "go"
    rules = [
        rule("Report", "ProfilerReport", preset="quick", CPUBottleneck_threshold="40"),
        rule("LowGPU", "LowGPUUtilization"),
        rule("Wrong", "CPUBottleneck", treshold="1"),
    ]
    script = SCRIPT.replace("GO", repr(str(go)))
    server.submit("job", script, ProfilerConfig=PROFILER, ProfilerRuleConfigurations=rules)
    two_hosts = {"ResourceConfig": {"InstanceCount": 2}}
    server.submit("plain", script, ProfilerConfig=PROFILER, **two_hosts)
    steps = "profiles/job/profiler-output/stoker/steps"
    wait_until(lambda: server.keys(steps), "steps in S3")
    assert server.describe("job")["ProfilingStatus"] == "Enabled"
    added = rule("Slow", "SlowDataLoader", preset="quick", scan_interval_us="200000")
    server.boto("sagemaker").update_training_job(
        TrainingJobName="job", ProfilerRuleConfigurations=[*rules, added]
    )
    wait_until(
        lambda: profiler_statuses(server.describe("job"))["Slow"][0] == "IssuesFound",
        "the finding of the added rule",
    )
    server.wait_for_secondary("plain", "Training")
    server.boto("sagemaker").update_training_job(
        TrainingJobName="plain", ProfilerRuleConfigurations=[added]
    )
    go.touch()
    return server.wait("job"), server


def test_every_rule_ends_with_a_verdict_and_says_why_it_has_none(job):
    description, _ = job
    assert description["TrainingJobStatus"] == "Completed"
    found = profiler_statuses(description)
    assert found["Report"][0] == "IssuesFound"
    assert found["Slow"][0] == "IssuesFound"
    assert found["LowGPU"] == ("NoIssuesFound", "no GPU was measured, and it is about GPUs")
    assert found["Wrong"][0] == "Error"
    assert "did you mean threshold?" in found["Wrong"][1]


def test_what_they_saw_and_the_page_are_where_the_service_puts_them(job):
    _, server = job
    keys = set(server.keys())

    def read(key):
        return server.get(f"s3://{DEFAULT_BUCKET}/{key}")

    folder = "job/rule-output/Report/profiler-output"
    place = next(key for key in keys if key.endswith(f"{folder}/profiler-report.html"))
    base = place.removesuffix(f"{folder}/profiler-report.html")
    report = json.loads(read(f"{base}{folder}/profiler-reports/CPUBottleneck.json"))
    assert set(report) == {
        "RuleTriggered",
        "Violations",
        "Details",
        "Datapoints",
        "RuleParameters",
    }
    assert report["RuleParameters"].startswith("threshold:40")
    page = read(place).decode()
    assert "64 loader workers share" in page
    assert any("profiler-output/system/incremental" in key for key in keys)
    assert "profiles/job/profiler-output/system/training_job_end.ts" in keys


def test_a_rule_that_comes_to_a_job_without_any_is_evaluated_at_its_end(job):
    _, server = job
    assert profiler_statuses(server.wait("plain"))["Slow"][0] == "IssuesFound"


def test_the_page_in_s3_is_of_all_hosts_and_of_the_whole_job(job):
    _, server = job
    output = server.wait("plain")["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    # No rule of this job is a ProfilerReport; its page has a place nevertheless.
    place = f"{output}/plain/rule-output/ProfilerReport/profiler-output"
    page = server.get(f"{place}/profiler-report.html").decode()
    assert "algo-1 rank 0" in page
    assert "algo-2 rank 1" in page
    assert "Files of algo-2 are not there" not in page
    assert "No figure for upload" not in page
    skew = json.loads(server.get(f"{place}/profiler-reports/SkewedRanks.json"))
    assert set(skew["Details"]["step_seconds"]) == {"algo-1 rank 0", "algo-2 rank 1"}


def test_the_command_reads_a_job_with_its_stages(job, tmp_path):
    _, server = job
    page = tmp_path / "page.html"
    options = ["--root", str(server.root.folder), "--html", str(page)]
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "report", "job", *options],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "waits for data" in done.stdout
    assert "upload of model and output" in page.read_text()
