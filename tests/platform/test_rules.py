"""Rules on the platform: carried to the leader, their statuses shown, their wish to stop heard.

A program that is not Stoker's plays the evaluator at the level of its files, so that each moment
can be held; the real one is in test_rules_end_to_end.py.
"""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from botocore.exceptions import ClientError

from tests.platform.local_server import DEFAULT_BUCKET, statuses, wait_until

MARKER = "debug/job/debug-output/training_job_end.ts"
PROGRAM = ["python3", "/opt/ml/input/data/code/train.py"]
EVALUATOR = """
    import json, os, pathlib, signal, sys, time

    root = pathlib.Path(os.environ["STOKER_ROOT"])
    host = json.loads((root / "input/config/resourceconfig.json").read_text())["current_host"]

    def write(path, text):
        path = root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name("new.sagemaker-ignore").write_text(text)
        path.with_name("new.sagemaker-ignore").rename(path)

    def say(**statuses):
        rules = [{"name": n, "status": s, "details": f"{n} at 7"} for n, s in statuses.items()]
        write("output/data/stoker/rules.json", json.dumps({"version": 1, "rules": rules}))

    def find(*rules):
        lines = [json.dumps({"rule": rule, "step": 7, "host": host}) for rule in rules]
        write("output/data/stoker/findings.jsonl", "".join(line + "\\n" for line in lines))

    def ask_for_stop():
        stop = {"by": "rule a", "step": 7, "reason": "it explodes"}
        write("output/stoker/stop.json", json.dumps(stop))

    def wait_for(name):
        while not (go / name).exists():
            time.sleep(0.02)

    go = pathlib.Path(GO)
"""


def rule(name, **parameters):
    rule = {"RuleConfigurationName": name, "RuleEvaluatorImage": "503895931360.dkr/any:latest"}
    return {**rule, "RuleParameters": {"rule_to_invoke": "AllZero", **parameters}}


def submit(server, name, script, *, rules=("a", "b"), **parts):
    """A job whose only program is the script."""
    go = server.root.folder.parent / name
    go.mkdir()
    script = dedent(EVALUATOR).replace("GO", repr(str(go))) + dedent(script)
    parts.setdefault("DebugRuleConfigurations", [rule(name) for name in rules])
    server.submit(name, script, AlgorithmSpecification={"ContainerEntrypoint": PROGRAM}, **parts)
    return go


def summary(job):
    return {
        each["RuleConfigurationName"]: each["RuleEvaluationStatus"]
        for each in job["DebugRuleEvaluationStatuses"]
    }


def test_statuses_are_shown_while_the_job_runs_and_kept_after_its_end(server):
    script = """
    say(a="InProgress", b="InProgress")
    wait_for("on")
    say(a="IssuesFound", b="InProgress")
    find("a", "a", "other")
    wait_for("end")
    say(a="IssuesFound", b="NoIssuesFound")
    """
    go = submit(server, "job", script)
    job = server.wait_for_secondary("job", "Training")
    assert summary(job) == {"a": "InProgress", "b": "InProgress"}
    (go / "on").touch()
    job = server.wait_for("job", lambda job: summary(job)["a"] == "IssuesFound")
    assert job["TrainingJobStatus"] == "InProgress"
    (go / "end").touch()
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Completed"
    first, second = job["DebugRuleEvaluationStatuses"]
    assert (first["RuleEvaluationStatus"], first["StatusDetails"]) == ("IssuesFound", "a at 7")
    assert second["RuleEvaluationStatus"] == "NoIssuesFound"
    assert ":processing-job/job-a-" in first["RuleEvaluationJobArn"]
    assert first["LastModifiedTime"] <= second["LastModifiedTime"] <= job["LastModifiedTime"]
    assert server.keys("out/job/rule-output/") == ["out/job/rule-output/a/findings.jsonl"]
    found = server.get(f"s3://{DEFAULT_BUCKET}/out/job/rule-output/a/findings.jsonl")
    assert [json.loads(line)["step"] for line in found.splitlines()] == [7, 7]
    assert server.leftovers() == []


def test_statuses_survive_a_kill_of_the_server(server):
    script = """
    say(a="IssuesFound", b="InProgress")
    wait_for("end")
    """
    go = submit(server, "job", script)
    server.wait_for("job", lambda job: summary(job)["a"] == "IssuesFound")
    server.kill()
    server.start()
    assert summary(server.describe("job"))["a"] == "IssuesFound"
    (go / "end").touch()
    job = server.wait("job")
    assert summary(job) == {"a": "IssuesFound", "b": "Error"}


def test_the_rules_reach_the_leader_alone_and_no_other_rules_with_them(server):
    script = """
    rules = {k: v for k, v in os.environ.items() if k.startswith("STOKER_RULES")}
    write(f"model/{host}.json", json.dumps(rules))
    """
    action = r"[{\"name\": \"stoptraining\", \"training_job_prefix\": \"Job\"}]"
    submit(
        server,
        "job",
        script,
        ResourceConfig={"InstanceCount": 2},
        Environment={
            **{"STOKER_RULES": "AllZero", "STOKER_RULES_1": ", DeadRelu"},
            "STOKER_RULES_DRY_RUN": "1",
        },
        DebugRuleConfigurations=[rule("Grüße", action_json=action)],
    )
    job = server.wait("job")
    model = server.archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    leader, other = (json.loads(model[f"algo-{n}.json"]) for n in (1, 2))
    assert leader.keys() == {"STOKER_RULES", "STOKER_RULES_DRY_RUN"}
    (carried,) = json.loads(leader["STOKER_RULES"])
    assert carried["RuleConfigurationName"] == "Grüße"
    assert carried["RuleParameters"] == {"rule_to_invoke": "AllZero", "action_json": action}
    assert other == {"STOKER_RULES_DRY_RUN": "1"}


def test_a_foreign_image_ends_as_an_error_not_as_no_issues(server):
    submit(server, "job", "print('I evaluate nothing')")
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Completed"
    assert summary(job) == {"a": "Error", "b": "Error"}
    assert "no evaluator" in job["DebugRuleEvaluationStatuses"][0]["StatusDetails"]


STOPPED_BY_A_RULE = """
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("SIGTERM"))
    write(f"model/{host}", "saved")
    print("started", flush=True)
    if host == "algo-1":
        wait_for("stop")
        say(a="IssuesFound", b="InProgress")
        ask_for_stop()
        wait_for("end")
        say(a="IssuesFound", b="NoIssuesFound")
        write("checkpoints/step-7", "saved")
        print("the leader was told", told, flush=True)
        sys.exit(1 if told else 0)
    while not told:
        time.sleep(0.02)
    wait_for("end")
    print("a peer was told", told, flush=True)
    sys.exit(143)
"""


def test_a_rule_stops_all_hosts_and_the_leader_only_once(server):
    go = submit(
        server,
        "job",
        STOPPED_BY_A_RULE,
        ResourceConfig={"InstanceCount": 2},
        CheckpointConfig={"S3Uri": f"s3://{DEFAULT_BUCKET}/kept"},
    )
    for host in ("algo-1", "algo-2"):
        wait_until(lambda host=host: "started" in server.log("job", host), f"{host} runs")
    (go / "stop").touch()
    job = server.wait_for_secondary("job", "Stopping")
    assert job["TrainingJobStatus"] == "Stopping"
    message = job["SecondaryStatusTransitions"][-1]["StatusMessage"]
    assert message == "Stopping the training job (rule a, step 7: it explodes)"
    (go / "end").touch()
    job = server.wait("job")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert statuses(job)[-4:] == ["Training", "Stopping", "Uploading", "Stopped"]
    assert "FailureReason" not in job
    assert summary(job) == {"a": "IssuesFound", "b": "NoIssuesFound"}
    model = server.archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert set(model) == {"algo-1", "algo-2"}
    assert server.get(f"s3://{DEFAULT_BUCKET}/kept/step-7") == b"saved"
    assert "the leader was told []" in server.log("job")
    assert "a peer was told ['SIGTERM']" in server.log("job", "algo-2")


def test_a_stop_that_was_asked_for_in_the_last_moment_counts(make_server, tmp_path):
    (tmp_path / "hold").touch()
    server = make_server().start(STOKER_HOLD=f"job/launching={tmp_path / 'hold'}")
    go = submit(server, "job", "say(a='IssuesFound'); ask_for_stop(); write('model/m', 'x')")
    # The leader has ended before the platform looks for the first time.
    wait_until((tmp_path / "hold.reached").exists, "it is launched")
    leader = server.root.host_dir("job", "algo-1")
    wait_until((leader / "model/m").exists, "it has done its work")
    (tmp_path / "hold").unlink()
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Stopped"
    assert summary(job) == {"a": "IssuesFound", "b": "Stopped"}
    assert go.exists()


def test_a_stop_request_of_another_process_is_not_a_rules(server):
    script = """
    write("output/stoker/stop.json", json.dumps({"by": "the script itself", "step": 3}))
    wait_for("end")
    """
    go = submit(server, "job", script, DebugRuleConfigurations=[])
    server.wait_for_secondary("job", "Training")
    (go / "end").touch()
    assert server.wait("job")["TrainingJobStatus"] == "Completed"


def test_statuses_and_findings_continue_after_an_interruption(make_server, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    server = make_server().start(STOKER_HOLD=f"job/tell-interrupted={hold}")
    script = """
    saved = root / "checkpoints/step"
    if saved.exists():
        wait_for("end")
        say(a="NoIssuesFound", b="IssuesFound")
        find("b")
        sys.exit(0)
    say(a="IssuesFound", b="NoIssuesFound")
    find("a", "b")
    write("output/tensors/training_job_end.ts", "")
    write("checkpoints/step", "7")
    while True:
        time.sleep(0.02)
    """
    go = submit(
        server,
        "job",
        script,
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 500, "MaxWaitTimeInSeconds": 500},
        Environment={"STOKER_SPOT": "after=100ms,pause=100ms"},
        CheckpointConfig={"S3Uri": f"s3://{DEFAULT_BUCKET}/kept"},
        DebugHookConfig={"S3OutputPath": f"s3://{DEFAULT_BUCKET}/debug"},
    )
    for key in ("kept/step", MARKER):
        wait_until(lambda key=key: key in server.keys(key), f"{key} is in S3")
    hold.unlink()
    job = server.wait_for("job", lambda job: statuses(job).count("Training") == 2)
    assert summary(job) == {"a": "IssuesFound", "b": "InProgress"}
    assert MARKER not in server.keys("debug/")  # more will come
    (go / "end").touch()
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Completed"
    assert summary(job) == {"a": "IssuesFound", "b": "IssuesFound"}
    found = server.keys("out/job/rule-output/")
    names = ("a/findings.jsonl", "b/findings-2.jsonl", "b/findings.jsonl")
    assert found == [f"out/job/rule-output/{name}" for name in names]
    assert MARKER in server.keys("debug/")


def test_tensors_are_whole_in_s3_with_the_marker_that_readers_wait_for(server):
    script = """
    for step in range(20):
        write(f"output/tensors/events/{step}", str(step))
    """
    submit(
        server,
        "job",
        script,
        DebugHookConfig={"S3OutputPath": f"s3://{DEFAULT_BUCKET}/debug/"},
        ProfilerConfig={"S3OutputPath": f"s3://{DEFAULT_BUCKET}/profile"},
        DebugRuleConfigurations=[],
    )
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Completed"
    assert "DebugRuleEvaluationStatuses" not in job
    kept = server.keys("debug/job/debug-output/")
    assert len(kept) == 21
    assert kept[-1] == MARKER
    assert server.keys("profile/") == [
        "profile/job/profiler-output/framework/training_job_end.ts",
        "profile/job/profiler-output/system/training_job_end.ts",
    ]


def test_a_place_for_findings_that_is_not_there_is_refused(server):
    with pytest.raises(ClientError, match="S3 bucket nobodys-bucket does not exist"):
        server.submit(
            "job", DebugRuleConfigurations=[{**rule("a"), "S3OutputPath": "s3://nobodys-bucket/x"}]
        )
