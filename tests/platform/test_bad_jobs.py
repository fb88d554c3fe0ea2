"""Faults around a job: nothing hangs, nothing is left, and the reason says what to do."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from stoker.platform.engines.engine import root_id
from tests.platform.local_server import DEFAULT_BUCKET, channel, statuses, wait_until

WAITS = """
    import pathlib, time
    print("started", flush=True)
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.02)
"""
MB = 1024 * 1024


def find_container(server):
    """That of the only job; other servers on this machine may have jobs of the same name."""
    label = f"label=stoker.root={root_id(server.root.folder)}"
    return subprocess.check_output(["docker", "ps", "-q", "--filter", label], text=True).strip()


def test_input_that_vanishes_is_the_clients_error(make_server, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    server = make_server().start(STOKER_HOLD=f"job/downloading={hold}")
    data = server.put("data/a.txt", "rows").removesuffix("a.txt")
    server.submit("job", InputDataConfig=[channel("train", data)])
    wait_until((tmp_path / "hold.reached").exists, "it is about to download")
    server.boto("s3").delete_object(Bucket=DEFAULT_BUCKET, Key="data/a.txt")
    hold.unlink()
    job = server.wait("job")
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: ")
    assert "data" in job["FailureReason"]
    assert "fix: " in job["FailureReason"]
    assert statuses(job) == ["Starting", "Downloading", "Failed"]
    assert server.leftovers() == []


def test_an_output_bucket_that_vanishes_is_the_clients_error(make_server, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    server = make_server().start(STOKER_HOLD=f"job/uploading={hold}")
    server.boto("s3").create_bucket(Bucket="mine")
    script = """
    import os, pathlib
    pathlib.Path(os.environ["SM_MODEL_DIR"], "weights").write_text("dear")
    """
    server.submit("job", script, OutputDataConfig={"S3OutputPath": "s3://mine/out"})
    wait_until((tmp_path / "hold.reached").exists, "it is about to upload")
    shutil.rmtree(server.root.s3_dir / "mine")
    hold.unlink()
    job = server.wait("job")
    assert job["FailureReason"].startswith("ClientError: ")
    assert "s3://mine/out/job/output/model.tar.gz" in job["FailureReason"]
    kept = server.root.kept_dir("job")
    assert f"(kept in {kept})" in job["FailureReason"]
    assert (kept / "algo-1/model/weights").read_text() == "dear"
    assert server.leftovers() == []


def test_a_full_disk_fails_the_job_and_not_the_server(make_server):
    """No file may grow beyond a limit: what the model's archive meets on a full disk."""
    server = make_server().start()
    limit = 8 * MB
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    script = f"""
    import os, pathlib
    model = pathlib.Path(os.environ["SM_MODEL_DIR"])
    for number in range(2):
        (model / str(number)).write_bytes(os.urandom({limit} * 3 // 4))
    """
    server.submit("large", script)
    job = server.wait("large")
    assert job["TrainingJobStatus"] == "Failed", job
    assert "model" in job["FailureReason"]
    assert "fix: " in job["FailureReason"]
    server.submit("small")
    assert server.wait("small")["TrainingJobStatus"] == "Completed"
    assert server.leftovers() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
@pytest.mark.parametrize("takes_spare", [False, True])
def test_a_job_that_fills_the_disk_of_the_platform_is_recorded_as_failed(make_server, takes_spare):
    """Its exit code and its record have space that was taken before.

    A script that still writes when the platform gives that space back takes it, too.
    """
    server = make_server()
    server.root.folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(server.root.folder)]
    subprocess.run(mounted, check=True)
    try:
        server.start()
        spare = str(server.root.folder / "spare") if takes_spare else "/nonexistent"
        server.submit(
            "greedy",
            f"""
    import os, pathlib
    pathlib.Path({spare!r}).unlink(missing_ok=True)
    (pathlib.Path(os.environ["SM_MODEL_DIR"]) / "all").write_bytes(bytes(200 << 20))
    """,
        )
        job = server.wait("greedy")
        assert job["TrainingJobStatus"] == "Failed", job
        # The script meets it, or the platform just before the script's end is seen.
        assert "No space left on device" in job["FailureReason"]
        server.end()
    finally:
        subprocess.run(["umount", "--lazy", str(server.root.folder)], check=True)


def test_a_checkpoint_that_cannot_be_uploaded_costs_the_job_but_not_its_model(server):
    script = """
    import os, pathlib
    model = pathlib.Path(os.environ["SM_MODEL_DIR"])
    (model / "weights").write_text("hours of work")
    folder = os.fsencode(model.parent / "checkpoints")
    open(os.path.join(folder, b"\\xff"), "w").close()
    """
    server.submit("job", script, CheckpointConfig={"S3Uri": f"s3://{DEFAULT_BUCKET}/kept"})
    job = server.wait("job")
    assert job["FailureReason"].startswith("ClientError: ")
    assert "is not UTF-8" in job["FailureReason"]
    assert statuses(job)[-2:] == ["Uploading", "Failed"]
    archive = server.archive(job["ModelArtifacts"]["S3ModelArtifacts"])
    assert archive == {"weights": b"hours of work"}
    assert server.leftovers() == []


def test_a_second_server_on_the_same_root_ends_at_once(server):
    ended = subprocess.run(
        server.command(), env=server.environ(), capture_output=True, text=True, timeout=240
    )
    assert ended.returncode == 2
    assert str(server.process.pid) in ended.stderr
    assert server.endpoint in ended.stderr
    server.submit("job")
    assert server.wait("job")["TrainingJobStatus"] == "Completed"


def test_a_flood_is_refused_at_a_limit_and_the_jobs_before_it_live(make_server, tmp_path):
    server = make_server(slots=1).start()
    go = tmp_path / "go"
    server.submit("busy", WAITS.format(go=str(go)))
    server.wait_for_line("busy", "started")
    request = server.request("flood")
    client = server.boto("sagemaker")

    def create(number):
        try:
            client.create_training_job(**{**request, "TrainingJobName": f"flood-{number}"})
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "taken"

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(create, range(230)))
    assert set(answers) == {"taken", "ResourceLimitExceeded"}
    assert answers.count("taken") >= 199
    taken = [f"flood-{number}" for number, answer in enumerate(answers) if answer == "taken"]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: client.stop_training_job(TrainingJobName=name), taken))
    for name in taken:
        assert server.wait(name)["TrainingJobStatus"] == "Stopped"
    go.touch()
    assert server.wait("busy")["TrainingJobStatus"] == "Completed"


def test_a_loud_job_loses_no_line(server):
    server.submit("loud", "for i in range(50_000): print('line', i)\nprint('x' * 600_000)")
    job = server.wait("loud")
    assert job["TrainingJobStatus"] == "Completed"
    lines = server.log("loud")
    said = [line for line in lines if line.startswith("line ")]
    assert said == [f"line {i}" for i in range(50_000)]
    assert sum(line.count("x") for line in lines if line.startswith("xxx")) == 600_000


def test_a_run_that_is_lost_is_our_fault_and_tried_again_if_allowed(server, tmp_path):
    go = tmp_path / "go"
    script = WAITS.format(go=str(go))
    server.submit("fails", script)
    server.submit("retried", script, RetryStrategy={"MaximumRetryAttempts": 1})
    for name in ("fails", "retried"):
        server.wait_for_line(name, "started")
        keeper = server.root.folder / f"processes/{name}-algo-1-1/keeper.json"
        os.kill(json.loads(keeper.read_text())["pid"], signal.SIGKILL)
    go.touch()
    reason = server.wait("fails")["FailureReason"]
    assert reason.startswith("InternalServerError: ")
    assert "fix: " in reason
    job = server.wait("retried")
    assert job["TrainingJobStatus"] == "Completed"
    assert statuses(job).count("Training") == 2
    assert server.leftovers() == []


@pytest.mark.docker
def test_a_container_that_vanishes_is_our_fault(make_server):
    server = make_server("docker").start()
    server.submit("gone", WAITS.format(go="/nothing"))
    server.wait_for_line("gone", "started")
    subprocess.run(["docker", "rm", "-f", find_container(server)], check=True, capture_output=True)
    job = server.wait("gone")
    assert job["FailureReason"].startswith("InternalServerError: ")
    assert server.leftovers() == []


@pytest.mark.docker
def test_a_container_out_of_memory_is_told_from_other_failures(make_server):
    server = make_server("docker").start()
    script = """
    import os, pathlib, time
    print("started", flush=True)
    while not pathlib.Path("/opt/ml/output/data/go").exists():
        time.sleep(0.05)
    hoard = [bytearray(os.urandom(1024 * 1024)) for _ in range(400)]
    """
    server.submit("oom", script)
    server.wait_for_line("oom", "started")
    update = ["docker", "update", "--memory", "64m", "--memory-swap", "64m"]
    subprocess.run([*update, find_container(server)], check=True, capture_output=True)
    (server.root.host_dir("oom", "algo-1") / "output/data/go").touch()
    job = server.wait("oom")
    assert job["TrainingJobStatus"] == "Failed"
    assert "out of memory" in job["FailureReason"].lower()
    assert server.leftovers() == []


@pytest.mark.docker
def test_an_image_for_another_machine_is_named_as_the_reason(make_server, tmp_path):
    train = tmp_path / "bin/train"
    train.parent.mkdir()
    train.write_bytes(b"\x7fELF of another machine")
    train.chmod(0o755)
    image = f"other-machine-{tmp_path.name}:{os.getpid()}".replace("_", "-")
    packed = subprocess.run(["tar", "-cC", tmp_path, "bin"], capture_output=True, check=True)
    subprocess.run(
        ["docker", "import", "-", image], input=packed.stdout, capture_output=True, check=True
    )
    server = make_server("docker").start()
    try:
        server.submit("job", AlgorithmSpecification={"TrainingImage": image})
        reason = server.wait("job")["FailureReason"]
    finally:
        subprocess.run(["docker", "image", "rm", image], capture_output=True, check=False)
    assert "exec format error" in reason
    assert "build it with --platform linux/amd64" in reason


def test_a_failure_file_that_is_a_link_leaks_nothing(server, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("not for the job's eyes")
    script = f"""
    import os, pathlib
    failure = pathlib.Path(os.environ["SM_OUTPUT_DIR"]) / "failure"
    failure.symlink_to({str(secret)!r})
    os._exit(3)
    """
    server.submit("link", script)
    job = server.wait("link")
    assert job["TrainingJobStatus"] == "Failed"
    assert "not for the job's eyes" not in job["FailureReason"]


def test_a_pipe_that_breaks_ends_the_job_at_once(server):
    """Else the script would wait for its next FIFO until MaxRuntime."""
    rows = server.put("pipe/a.txt", "rows")
    script = """
    import os, time
    os.unlink(os.environ["SM_CHANNEL_TRAIN"] + "_0")
    time.sleep(600)
    """
    piped = channel("train", rows.removesuffix("a.txt"), InputMode="Pipe")
    server.submit("piped", script, InputDataConfig=[piped])
    job = server.wait("piped")
    assert job["TrainingJobStatus"] == "Failed"
    assert "the pipe of channel 'train'" in job["FailureReason"]
    assert server.leftovers() == []
