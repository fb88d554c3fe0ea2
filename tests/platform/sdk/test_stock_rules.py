"""Unmodified SDK code with `debugger_hook_config=` and `rules=` runs here as in the cloud.

The scripts of the jobs (rules_source/) have no line of Stoker's. One process of a user submits a
run that learns, without rules and with four, one that explodes, and one that does on two hosts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import stoker
from stoker.contract.debugger import join_rules
from stoker.debugging.hook.request import read_request
from stoker.debugging.specs import Action, read_specs
from tests.sdks import IMAGE, run_sdk

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
SOURCE = str(HERE / "rules_source")
# What smdebug's documentation shows for looking at a trial.
READ = """
import json, sys
import smdebug.pytorch as smd

trial = smd.create_trial(sys.argv[1])
names = trial.tensor_names()
steps = trial.steps()
loss = trial.tensor(trial.tensor_names(collection="losses")[0])
gradients = trial.tensor_names(collection="gradients")
print(json.dumps({
    "names": names,
    "steps": steps,
    "losses": [float(loss.value(step)) for step in loss.steps()],
    "gradients": {n: list(trial.tensor(n).value(5).shape) for n in gradients},
    "ended": trial.loaded_all_steps,
}))
"""


@pytest.fixture(scope="module")
def jobs(platform):
    """What DescribeTrainingJob and rule_job_summary() said of each job at its end."""
    environ = {**platform.environ, "AWS_REGION": "us-east-1"}
    return run_sdk("v2", HERE / "rules_v2.py", IMAGE, SOURCE, environ=environ)


def model(platform, job) -> list[str]:
    with tarfile.open(platform.file(job["ModelArtifacts"]["S3ModelArtifacts"])) as archive:
        return sorted(member.name for member in archive if member.isfile())


def summary(job) -> dict[str, str]:
    return {rule["RuleConfigurationName"]: rule["RuleEvaluationStatus"] for rule in job["summary"]}


def details(job) -> dict[str, str]:
    return {
        rule["RuleConfigurationName"]: rule.get("StatusDetails", "") for rule in job["summary"]
    }


def test_a_healthy_run_passes_its_rules(jobs, platform):
    job = jobs["healthy"]
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert summary(job) == {
        "VanishingGradient": "NoIssuesFound",
        "ExplodingTensor": "NoIssuesFound",
        "LossNotDecreasing": "NoIssuesFound",
        "LargeGradient": "NoIssuesFound",
    }, details(job)
    assert model(platform, job) == ["model.pt"]


def test_smdebug_reads_from_s3_what_an_untouched_script_left(jobs, platform):
    done = subprocess.run(
        [sys.executable, "-c", READ, jobs["tensors"]["tensors"]],
        env={**platform.environ, "AWS_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["steps"] == list(range(60))
    assert len(found["losses"]) == 60
    assert found["losses"][-1] < found["losses"][0]
    assert found["gradients"] == {
        "gradient/Sequential_0.bias": [8],
        "gradient/Sequential_0.weight": [8, 4],
        "gradient/Sequential_2.bias": [2],
        "gradient/Sequential_2.weight": [2, 8],
    }
    assert found["ended"]


def test_rules_of_the_profiler_are_in_the_summary_and_their_page_in_s3(jobs, platform):
    job = jobs["tensors"]
    assert set(summary(job)) == {"ProfilerReport", "LowGPUUtilization"}
    assert summary(job)["LowGPUUtilization"] == "NoIssuesFound", details(job)
    assert summary(job)["ProfilerReport"] in ("NoIssuesFound", "IssuesFound"), details(job)
    place = f"{job['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{job['TrainingJobName']}"
    folder = f"{place}/rule-output/ProfilerReport/profiler-output"
    assert "The bill" in platform.file(f"{folder}/profiler-report.html").read_text()
    report = json.loads(platform.file(f"{folder}/profiler-reports/CPUBottleneck.json").read_text())
    assert report["RuleParameters"].startswith("threshold:40")


def test_an_exploding_run_is_stopped_and_keeps_model_and_checkpoint(jobs, platform):
    job = jobs["exploding"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert "FailureReason" not in job
    assert model(platform, job) == ["model.pt"]
    assert platform.file(f"{job['CheckpointConfig']['S3Uri']}/state.pt").stat().st_size > 0
    stopping = job["SecondaryStatusTransitions"][-3]
    assert stopping["Status"] == "Stopping"
    assert "rule ExplodingTensor" in stopping["StatusMessage"]


def test_the_summary_names_the_step_in_the_services_words(jobs):
    job = jobs["exploding"]
    assert summary(job)["ExplodingTensor"] == "IssuesFound"
    assert details(job)["ExplodingTensor"].startswith(
        "RuleEvaluationConditionMet: Evaluation of the rule ExplodingTensor at step "
    )
    assert all(status != "InProgress" for status in summary(job).values())
    for rule in job["summary"]:
        assert ":processing-job/rules-v2-exploding-" in rule["RuleEvaluationJobArn"]
        assert rule["LastModifiedTime"]


def test_its_findings_are_in_s3(jobs, platform):
    job = jobs["exploding"]
    place = f"{job['OutputDataConfig']['S3OutputPath'].rstrip('/')}/{job['TrainingJobName']}"
    text = platform.file(f"{place}/rule-output/ExplodingTensor/findings.jsonl").read_text()
    (finding,) = map(json.loads, text.splitlines())
    assert finding["rule"] == "ExplodingTensor"
    assert "holds" in finding["message"]


def test_a_rule_stops_two_containers(jobs, platform):
    job = jobs["two_hosts"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert summary(job)["ExplodingTensor"] == "IssuesFound", details(job)
    with tarfile.open(platform.file(job["ModelArtifacts"]["S3ModelArtifacts"])) as archive:
        left = {member.name: archive.extractfile(member).read() for member in archive}
    assert left == {"rank-0": b"told 1 times", "rank-1": b"told 1 times"}


def test_sdk_v3_carries_rules_by_its_resources(platform):
    job = run_sdk("v3", HERE / "rules_v3.py", IMAGE, SOURCE, environ=platform.environ)
    assert job["TrainingJobStatus"] == "Stopped", job.get("FailureReason")
    (status,) = job["DebugRuleEvaluationStatuses"]
    assert status["RuleEvaluationStatus"] == "IssuesFound", status
    assert model(platform, job) == ["model.pt"]


@pytest.mark.parametrize("sdk", ["v2", "v3"])
def test_the_same_rules_become_variables_for_the_cloud(sdk, tmp_path):
    # Our package alone: what else lies beside it belongs to another environment.
    (tmp_path / "stoker").symlink_to(Path(stoker.__file__).parent)
    variables = run_sdk(
        sdk,
        *(HERE / "rules_variables.py", sdk, SOURCE),
        environ={"PYTHONPATH": str(tmp_path)},
    )
    del variables["printed"]
    vanishing, loss, relu, mine = read_specs(join_rules(variables))
    assert vanishing.actions == (
        *(Action(kind="stop"), Action(kind="email", target="me@example.com")),
    )
    assert loss.parameters == {"num_steps": "5"}
    assert relu.rule == "DeadRelu"
    assert mine.rule == "my_rules.py:CustomGradientRule"
    asked = {w.collection: w for w in read_request(variables["STOKER_DEBUG"]).wanted}
    assert asked["losses"].schedules["TRAIN"].save_interval == 2
    assert set(asked) == {"losses", "gradients", "relu_output"}
