"""What a job finds of tracking inside of its container, and what becomes of what it writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.platform.local_server import channel, wait_until


@pytest.fixture(scope="module")
def api(module_server):
    return module_server.boto("sagemaker")


def read_metrics(api, job) -> dict[str, tuple[int, float]]:
    run = api.describe_trial_component(TrialComponentName=f"{job}-aws-training-job")
    return {each["MetricName"]: (each["Count"], each["Last"]) for each in run["Metrics"]}


def test_a_job_has_its_run_and_leaves_what_it_was(module_server, api, tmp_path):
    server = module_server
    script = """
        import json, os, time, urllib.request, base64
        import stoker
        e = os.environ
        for step in (0, 10, 20):
            stoker.job().log(step, loss=1 / (step + 1))
        with open(e["SAGEMAKER_METRICS_DIRECTORY"] + "/7.json", "a") as file:
            for step, value in ((3, 0.5), (4, 0.75)):
                file.write(json.dumps({"MetricName": "acc", "Value": value,
                    "Timestamp": time.time(), "IterationNumber": step}) + "\\n")
            file.write("not JSON\\n")
        keys = f"{e['MLFLOW_TRACKING_USERNAME']}:{e['MLFLOW_TRACKING_PASSWORD']}".encode()
        request = urllib.request.Request(
            e["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/get?run_id=" + e["MLFLOW_RUN_ID"],
            headers={"Authorization": "Basic " + base64.b64encode(keys).decode()})
        run = json.load(urllib.request.urlopen(request))["run"]["info"]
        print("SEEN", run["run_name"], e["MLFLOW_EXPERIMENT_NAME"])
    """
    data = server.put("data/inside/a.csv", "1,2")
    server.submit(
        "inside",
        script,
        InputDataConfig=[channel("train", data)],
        HyperParameters={"lr": "0.5"},
        Environment={"STOKER_GIT_COMMIT": "0123456789-dirty"},
        MlflowConfig={
            "MlflowResourceArn": "arn:aws:sagemaker:us-east-1:000000000000:mlflow-app/a",
            "MlflowExperimentName": "Of config",
            "MlflowRunName": "named",
        },
    )
    job = server.wait("inside")
    assert job["TrainingJobStatus"] == "Completed", server.log("inside")
    assert "SEEN named Of config" in server.log("inside")
    assert read_metrics(api, "inside") == {"loss": (3, pytest.approx(1 / 21)), "acc": (2, 0.75)}
    (answer,) = server.boto("sagemaker-metrics").batch_get_metrics(
        MetricQueries=[
            {
                "MetricName": name,
                "ResourceArn": job["TrainingJobArn"],
                "MetricStat": "Last",
                "Period": "IterationNumber",
                "XAxisType": "IterationNumber",
            }
            for name in ("loss",)
        ]
    )["MetricQueryResults"]
    assert answer["XAxisValues"] == [0, 10, 20]
    assert job["MlflowConfig"]["MlflowRunName"] == "named"
    assert set(job["MlflowDetails"]) == {"MlflowExperimentId", "MlflowRunId"}
    output = job["ModelArtifacts"]["S3ModelArtifacts"].replace("model.tar.gz", "output.tar.gz")
    left = json.loads(server.archive(output)["stoker/run.json"])
    assert (left["job"], left["status"], left["hyperparameters"]["lr"]) == (
        *("inside", "Completed"),
        "0.5",
    )
    assert (left["git_commit"], left["git_dirty"]) == ("0123456789", True)
    assert left["metrics"]["loss"]["step"] == 20
    assert left["packages"]["torch"]
    assert left["inputs"]["code"]["uri"].startswith("s3://")
    assert left["source_code"]["hash"].startswith("sha256:")
    # Another root knows nothing of the job, as after a training in the cloud.
    place = ["--root", str(tmp_path / "other")]
    stoker(server, "import", output.rpartition("/")[0], "--experiment", "Cloud", *place)
    imported = json.loads(stoker(server, "show", "inside", "--json", *place))
    assert (imported["experiment"], imported["parameters"]["lr"]) == ("Cloud", 0.5)
    own = json.loads(stoker(server, "show", "inside", "--json", "--root", str(server.root.folder)))
    assert imported["lineage"]["inputs"]["train"] == own["lineage"]["inputs"]["train"]
    assert own["lineage"]["inputs"]["train"]["hash"].startswith("sha256:")
    loss = imported["metrics"]["loss"]
    assert (loss["count"], loss["last"]) == (3, pytest.approx(1 / 21))


def stoker(server, *words: str) -> str:
    """`stoker runs` in a shell with the variables of the platform."""
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "runs", *words],
        env=server.environ(**server.sdk_environ()),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_server_of_the_users_own_gets_the_run_and_the_metrics(module_server, api):
    """The platform itself stands for it: the job has only an address and a login."""
    server = module_server
    keys = json.loads(server.root.credentials_file.read_text())
    own = {
        "MLFLOW_TRACKING_URI": server.endpoint.replace("127.0.0.1", "localhost"),
        "MLFLOW_TRACKING_USERNAME": keys["access_key"],
        "MLFLOW_TRACKING_PASSWORD": keys["secret_key"],
        "MLFLOW_EXPERIMENT_NAME": "Elsewhere",
    }
    script = """
        import os, stoker
        for step in range(1500):
            stoker.job().log(step, loss=float("nan") if step == 7 else step, acc=1.0)
        stoker.job().log(0, **{"top@5": 0.5})  # MLflow refuses a batch with such a name
        print("RUN", os.environ["MLFLOW_RUN_ID"])
    """
    server.submit("to-server", script, Environment=own, HyperParameters={"lr": "0.5"})
    server.wait("to-server")
    where = {"Filters": [{"Name": "Parents.ExperimentName", "Value": "Elsewhere"}]}
    (found,) = api.search(Resource="ExperimentTrialComponent", SearchExpression=where)["Results"]
    run = found["TrialComponent"]
    assert (run["DisplayName"], run["Status"]["PrimaryStatus"]) == ("to-server", "Completed")
    assert run["Parameters"]["lr"] == {"StringValue": "0.5"}
    metrics = {each["MetricName"]: (each["Count"], each["Last"]) for each in run["Metrics"]}
    assert metrics == {"loss": (1500, 1499.0), "acc": (1500, 1.0), "top_5": (1, 0.5)}

    own["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"  # no server is there
    server.submit("server-down", script.replace('"MLFLOW_RUN_ID"', '"HOME"'), Environment=own)
    assert server.wait("server-down")["TrainingJobStatus"] == "Completed"
    said = [line for line in server.log("server-down") if "MLflow does not take" in line]
    assert len(said) == 1
    assert read_metrics(api, "server-down")["acc"] == (1500, 1.0)


def test_the_first_host_has_the_run_and_the_same_one_after_an_interruption(make_server, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    server = make_server().start(STOKER_HOLD=f"two-hosts/tell-interrupted={hold}")
    script = """
        import os, pathlib, time
        import stoker
        run = os.environ.get("MLFLOW_RUN_ID", "none")
        attempt = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], os.environ["SM_CURRENT_HOST"])
        count = int(attempt.read_text()) if attempt.exists() else 0
        attempt.write_text(str(count + 1))
        print("RUN", run, os.environ["MLFLOW_EXPERIMENT_NAME"], flush=True)
        stoker.job().log(count, loss=float(count))
        while count == 0:
            time.sleep(0.05)
    """
    server.submit(
        "two-hosts",
        script,
        ResourceConfig={"InstanceCount": 2},
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 500, "MaxWaitTimeInSeconds": 500},
        Environment={"STOKER_SPOT": "every=100ms,times=1,pause=100ms"},
        CheckpointConfig={"S3Uri": "s3://sagemaker-us-east-1-000000000000/two-hosts"},
        ExperimentConfig={"ExperimentName": "two"},
    )

    def read_ids(host: str) -> list[str]:
        lines = server.log("two-hosts", host)
        return [line.split()[1] for line in lines if line.startswith("RUN")]

    for host in ("algo-1", "algo-2"):
        wait_until(lambda host=host: read_ids(host), f"{host} has begun")
    hold.unlink()
    assert server.wait("two-hosts")["TrainingJobStatus"] == "Completed"
    first, second = read_ids("algo-1"), read_ids("algo-2")
    run = server.boto("sagemaker").describe_trial_component(
        TrialComponentName="two-hosts-aws-training-job"
    )
    assert (len(first), len(set(first)), set(second)) == (2, 1, {"none"})
    assert re.fullmatch("[0-9a-f]{32}", first[0])
    (loss,) = run["Metrics"]
    assert (loss["MetricName"], loss["Count"], loss["Last"]) == ("loss", 2, 1.0)


def test_a_tuning_job_is_the_parent_of_its_trials(module_server, api):
    server = module_server
    request = server.request("unused", "print('acc=0.5')")
    resources = {**request["ResourceConfig"], "VolumeSizeInGB": 1}
    api.create_hyper_parameter_tuning_job(
        HyperParameterTuningJobName="search-1",
        HyperParameterTuningJobConfig={
            "Strategy": "Random",
            "HyperParameterTuningJobObjective": {"Type": "Maximize", "MetricName": "acc"},
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 2},
            "ParameterRanges": {
                "ContinuousParameterRanges": [{"Name": "lr", "MinValue": "0", "MaxValue": "1"}]
            },
        },
        TrainingJobDefinition={
            "StaticHyperParameters": request["HyperParameters"],
            "AlgorithmSpecification": {
                **request["AlgorithmSpecification"],
                "MetricDefinitions": [{"Name": "acc", "Regex": "acc=([0-9.]+)"}],
            },
            "RoleArn": request["RoleArn"],
            "InputDataConfig": request["InputDataConfig"],
            "OutputDataConfig": request["OutputDataConfig"],
            "ResourceConfig": resources,
            "StoppingCondition": request["StoppingCondition"],
        },
    )
    describe = api.describe_hyper_parameter_tuning_job
    wait_for_end(lambda: describe(HyperParameterTuningJobName="search-1"))
    where = {"Filters": [{"Name": "Parents.ExperimentName", "Value": "search-1-aws-tuning-job"}]}
    found = api.search(Resource="ExperimentTrialComponent", SearchExpression=where)["Results"]
    runs = {each["TrialComponent"]["Source"]["SourceType"]: each for each in found}
    assert sorted(runs) == ["SageMakerHyperParameterTuningJob", "SageMakerTrainingJob"]
    assert len(found) == 3
    trial = runs["SageMakerTrainingJob"]["TrialComponent"]
    parent = [tag["Value"] for tag in trial["Tags"] if tag["Key"] == "mlflow.parentRunId"]
    assert len(parent) == 1
    top = runs["SageMakerHyperParameterTuningJob"]["TrialComponent"]
    assert top["Parameters"]["Strategy"] == {"StringValue": "Random"}
    assert top["Status"]["PrimaryStatus"] == "Completed"


def wait_for_end(describe) -> None:
    over = ("Completed", "Failed", "Stopped")
    wait_until(lambda: describe()["HyperParameterTuningJobStatus"] in over, "the tuning job's end")
