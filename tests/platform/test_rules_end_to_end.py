"""Rules on the platform with the real launcher and the real evaluator: a sick run is stopped.

The scripts write tensors as the hook does; what needs torch is in sdk/test_stock_rules.py.
"""

from __future__ import annotations

import json

import pytest

from tests.platform.local_server import DEFAULT_BUCKET, statuses, wait_until

ENGINES = pytest.mark.parametrize(
    "engine", ["process", pytest.param("docker", marks=pytest.mark.docker)]
)
HOOK = {"S3OutputPath": f"s3://{DEFAULT_BUCKET}/debug"}
CHECKPOINTS = {"S3Uri": f"s3://{DEFAULT_BUCKET}/kept"}
STOP = r"[{\"name\": \"stoptraining\", \"training_job_prefix\": \"job\"}]"
SCRIPT = """
    import json, os, pathlib, signal, sys, time

    import numpy as np

    from stoker.debugging.tensors import Collection, SavedStep, write_collections, write_step

    root = pathlib.Path(os.environ["SM_OUTPUT_DIR"]).parent
    host = os.environ["SM_CURRENT_HOST"]
    tensors = str(root / "output/tensors")
    LOSS = "MSELoss_output_0"

    def save(step, loss):
        tensor = {LOSS: np.array(loss, np.float32)}
        saved = SavedStep(step=step, mode="TRAIN", mode_step=step, tensors=tensor)
        write_step(tensors, "worker_0", saved)

    def leave(*_):
        pathlib.Path(os.environ["SM_MODEL_DIR"], host).write_text("saved on the way out")
        print("leaving", host, flush=True)
        sys.exit(0)

    if host == "algo-1":
        losses = Collection(name="losses", tensor_names=(LOSS,))
        write_collections(tensors, "worker_0", [losses])
"""
EXPLODING = """
    signal.signal(signal.SIGTERM, leave)
    print("trains", flush=True)
    step = 0
    is_alone = len(json.loads(os.environ["SM_HOSTS"])) == 1
    while True:
        if host == "algo-1":
            is_ill = step >= 30 and (is_alone or (root / "output/data/go").exists())
            save(step, float("nan") if is_ill else 1.0 / (step + 1))
            (root / "checkpoints/state.sagemaker-ignore").write_text(str(step))
            (root / "checkpoints/state.sagemaker-ignore").replace(root / "checkpoints/state")
        step += 10
        time.sleep(0.05)
"""
HEALTHY = """
    for step in range(0, 100, 10):
        save(step, 1.0 / (step + 1))
    leave()
"""


def rule(name, rule_to_invoke, **parameters):
    parameters = {"rule_to_invoke": rule_to_invoke, **parameters}
    entry = {"RuleConfigurationName": name, "RuleEvaluatorImage": "503895931360.dkr/any:latest"}
    return {**entry, "RuleParameters": parameters}


def rules(*, stop=STOP):
    return [
        rule("Exploding", "ExplodingTensor", action_json=stop),
        rule("Flat", "LossNotDecreasing", num_steps="10", increase_threshold_percent="99"),
        rule("Vanishing", "VanishingGradient"),
        rule("Wrong", "NoSuchRule"),
    ]


def summary(job):
    return {
        each["RuleConfigurationName"]: each["RuleEvaluationStatus"]
        for each in job["DebugRuleEvaluationStatuses"]
    }


def submit(server, script, **parts):
    given = {"DebugHookConfig": HOOK, "DebugRuleConfigurations": rules(), **parts}
    return server.submit("job", SCRIPT + script, **given)


@ENGINES
def test_an_exploding_run_is_stopped_with_model_and_checkpoint_kept(make_server, engine):
    server = make_server(engine).start()
    submit(server, EXPLODING, CheckpointConfig=CHECKPOINTS)
    job = server.wait("job")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert statuses(job)[-4:] == ["Training", "Stopping", "Uploading", "Stopped"]
    assert "FailureReason" not in job
    found = {each["RuleConfigurationName"]: each for each in job["DebugRuleEvaluationStatuses"]}
    assert found["Exploding"]["RuleEvaluationStatus"] == "IssuesFound"
    words = "RuleEvaluationConditionMet: Evaluation of the rule Exploding at step 30 resulted in"
    assert found["Exploding"]["StatusDetails"].startswith(words)
    assert found["Wrong"]["RuleEvaluationStatus"] == "Error"
    assert "there is no rule 'NoSuchRule'" in found["Wrong"]["StatusDetails"]
    assert "InProgress" not in summary(job).values()
    model = server.archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert model == {"algo-1": b"saved on the way out"}
    assert int(server.get(f"s3://{DEFAULT_BUCKET}/kept/state")) >= 30
    text = server.get(f"s3://{DEFAULT_BUCKET}/out/job/rule-output/Exploding/findings.jsonl")
    (finding,) = map(json.loads, text.splitlines())
    assert (finding["rule"], finding["step"]) == ("Exploding", 30)
    page = server.get(f"s3://{DEFAULT_BUCKET}/out/job/rule-output/report.html").decode()
    assert "stopped by rule Exploding at step 30" in page
    assert any("rule Exploding at step 30" in line for line in server.log("job"))
    assert "debug/job/debug-output/training_job_end.ts" in server.keys("debug/job/")
    assert server.leftovers() == []


@ENGINES
def test_a_rule_on_the_leader_stops_both_hosts(make_server, engine):
    server = make_server(engine).start()
    submit(server, EXPLODING, ResourceConfig={"InstanceCount": 2})
    for host in ("algo-1", "algo-2"):  # one that is not there yet would not hear it
        wait_until(lambda host=host: "trains" in server.log("job", host), f"{host} listens")
    (server.root.host_dir("job", "algo-1") / "output/data/go").touch()
    job = server.wait("job")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert summary(job)["Exploding"] == "IssuesFound"
    model = server.archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert set(model) == {"algo-1", "algo-2"}
    for host in ("algo-1", "algo-2"):
        assert server.log("job", host).count(f"leaving {host}") == 1


def test_a_healthy_run_passes_and_what_was_never_saved_is_an_error(server):
    submit(server, HEALTHY)
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert summary(job) == {
        **{"Exploding": "NoIssuesFound", "Flat": "NoIssuesFound"},
        **{"Vanishing": "Error", "Wrong": "Error"},
    }
    assert len(server.keys("debug/job/debug-output/index/")) == 10


def test_a_run_that_is_stopped_ends_its_rules_too(server):
    submit(server, EXPLODING, DebugRuleConfigurations=rules()[1:])
    server.wait_for_line("job", "trains")
    wait_until(lambda: server.keys("debug/job/debug-output/index/"), "a step is saved")
    server.boto("sagemaker").stop_training_job(TrainingJobName="job")
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Stopped"
    assert summary(job)["Vanishing"] in ("Stopped", "Error")
    assert "InProgress" not in summary(job).values()
