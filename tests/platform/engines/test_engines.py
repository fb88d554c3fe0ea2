"""One suite for both engines: what a job relies on, whatever runs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from stoker.machine import stock_images
from stoker.machine.docker import find_client
from stoker.machine.failures import EngineLost, ImageMissing
from stoker.platform.engines.container import (
    broken_variables,
    environment_file,
    make_create_arguments,
    with_certificates,
)
from stoker.platform.engines.docker import DockerEngine
from stoker.platform.engines.engine import EngineFailed, Exit, Launch, LayersRefused, root_id
from stoker.platform.engines.process import ProcessEngine
from stoker.platform.model.mount import Mount
from stoker.platform.model.root import Root

IMAGE = os.environ.get("STOKER_TEST_IMAGE", "stoker:cpu")
DEADLINE_SECONDS = 120
DOCKER = pytest.param("docker", marks=pytest.mark.docker)


class Stage:
    """An engine over a root of its own, and short ways to use it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.root = Root(folder)
        self.engine = self.make_engine()

    def make_engine(self):
        """Also what a restarted server would make."""
        if self.kind == "docker":
            return DockerEngine(self.root, client=[find_client()], reason="a test")
        environment = {**os.environ, "AWS_SECRET_ACCESS_KEY": "the user's own"}
        return ProcessEngine(self.root, reason="a test", environment=environment)

    def launch(self, shell: str | None = None, **parts: object) -> Launch:
        """One host; `shell` is run instead of `train`."""
        host, job = parts.setdefault("host", "algo-1"), parts.setdefault("job", "job")
        folder = self.root.host_dir(job, host)
        (folder / "input/config").mkdir(parents=True, exist_ok=True)
        (folder / "output").mkdir(exist_ok=True)
        if shell is not None:
            parts |= {"entrypoint": ("/bin/sh", "-c"), "arguments": (textwrap.dedent(shell),)}
        defaults = {"name": f"{job}-{host}-1", "attempt": 1, "image": IMAGE}
        defaults |= {"environment": {}, "host_dir": folder}
        return Launch(**{**defaults, **parts})

    def start(self, shell: str | None = None, **parts: object) -> str:
        launch = self.launch(shell, **parts)
        self.engine.start(launch)
        return launch.name

    def end(self, name: str) -> Exit:
        ended = self.engine.wait(name, DEADLINE_SECONDS)
        assert ended is not None, f"{name} did not end"
        return ended

    def run(self, shell: str | None = None, **parts: object) -> tuple[Exit, str]:
        """A run to its end, and all it said."""
        name = self.start(shell, **parts)
        return self.end(name), self.log(name)

    def log(self, name: str, start_byte: int = 0) -> str:
        return b"".join(self.engine.read_log(name, start_byte)).decode()

    def output(self, name: str, host: str = "algo-1") -> Path:
        return self.root.host_dir("job", host) / "output" / name

    def wait_for(self, name: str) -> Path:
        file, deadline = self.output(name), time.monotonic() + DEADLINE_SECONDS
        while not file.exists():
            assert time.monotonic() < deadline, f"{file} did not appear"
            time.sleep(0.02)
        return file


@pytest.fixture(params=["process", DOCKER])
def stage(request, tmp_path):
    stage = Stage(request.param, tmp_path / "root")
    yield stage
    for run in stage.engine.list_runs():
        stage.engine.remove(run.name)
    stage.engine.remove_network("job")
    assert stage.engine.list_runs() == []
    stage.engine.close()
    if request.param == "docker":
        label = f"label=stoker.root={root_id(stage.root.folder)}"
        for kind in (("ps", "--all"), ("network", "ls"), ("volume", "ls")):
            assert docker(*kind, "--quiet", "--filter", label) == ""


def docker(*arguments: str) -> str:
    return subprocess.run(
        [find_client(), *arguments], capture_output=True, text=True, timeout=240, check=True
    ).stdout.strip()


def require_namespaces(stage: Stage) -> None:
    if stage.kind == "process" and stage.engine._names_refused:
        pytest.skip(f"this machine forbids namespaces: {stage.engine._names_refused}")


def layered(stage: Stage, folder: Path) -> Mount:
    changes = stage.root.job_dir("job") / "changes"
    mount = Mount(source=changes, target="/opt/ml/input/data/train", layers=(folder,))
    for each in (
        changes,
        mount.work_dir,
        stage.root.host_dir("job", "algo-1") / "input/data/train",
    ):
        each.mkdir(parents=True)
    return mount


def require_layers(stage: Stage) -> None:
    if stage.engine.layers_refused:
        pytest.skip(stage.engine.layers_refused)


def test_layers_show_a_folder_that_the_run_cannot_change(stage, tmp_path):
    require_layers(stage)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a").write_text("old\n")
    (folder / "b").touch()
    shell = "cd /opt/ml/input/data/train; echo new >> a; rm b; ls; cat a"
    ended, log = stage.run(shell, mounts=(layered(stage, folder),))
    assert (ended, log) == (Exit(code=0), "a\nold\nnew\n")
    assert ((folder / "a").read_text(), (folder / "b").exists()) == ("old\n", True)
    assert not os.path.ismount(stage.root.host_dir("job", "algo-1") / "input/data/train")


@pytest.mark.docker
def test_an_overlay_that_docker_cannot_mount_is_refused_and_remembered(tmp_path):
    stage = Stage("docker", tmp_path / "root")
    # Docker's words are the same whatever the kernel's reason is.
    mount = layered(stage, tmp_path / "absent")
    with pytest.raises(LayersRefused, match="cannot mount an overlay"):
        stage.start("true", mounts=(mount,))
    assert "Docker cannot mount an overlay here" in stage.engine.layers_refused
    assert stage.engine.list_runs() == []
    stage.engine.close()


def test_exit_code_and_every_byte_of_the_log_are_kept(stage):
    ended, log = stage.run("seq 1 5000; printf 'no newline'; exit 3")
    assert ended == Exit(code=3)
    assert log == "".join(f"{n}\n" for n in range(1, 5001)) + "no newline"
    assert stage.log("job-algo-1-1", 23890) == log[23890:]


def test_a_log_is_followed_while_the_run_continues(stage):
    name = stage.start(
        "echo first >&2; until test -e /opt/ml/output/go; do sleep 0.05; done; echo last"
    )
    log = stage.engine.read_log(name, 0)
    assert next(log) == b"first\n"
    assert stage.engine.wait(name, 0.0) is None
    stage.output("go").touch()
    assert b"".join(log) == b"last\n"
    assert stage.end(name).code == 0


def test_the_launcher_runs_a_script_over_its_own_opt_ml(stage):
    folder = stage.launch().host_dir
    data = stage.root.folder / "data"
    data.mkdir()
    (data / "x.txt").write_text("from the channel")
    (folder / "code").mkdir()
    (folder / "code/train.py").write_text(
        "import os, pathlib\n"
        "text = pathlib.Path(os.environ['SM_CHANNEL_TRAIN'], 'x.txt').read_text()\n"
        "pathlib.Path(os.environ['SM_MODEL_DIR'], 'model.txt').write_text(text)\n"
        "pathlib.Path(os.environ['SM_CHECKPOINT_DIR'], 'c.txt').write_text('saved')\n"
        "print('TEXT', repr(os.environ['TEXT']), os.environ.get('AWS_SECRET_ACCESS_KEY'))\n"
    )
    config = {
        "hyperparameters": {"sagemaker_program": "train.py"},
        "inputdataconfig": {"train": {"TrainingInputMode": "File"}},
        "checkpointconfig": {"LocalPath": "/opt/ml/checkpoints"},
    }
    for name, content in config.items():
        (folder / f"input/config/{name}.json").write_text(json.dumps(content))
    (folder / "checkpoints").mkdir()
    mount = Mount(source=data, target="/opt/ml/input/data/train", read_only=True)
    ended, log = stage.run(environment={"TEXT": "a=b\n\"c'"}, mounts=(mount,))
    assert ended.code == 0, log
    assert "TEXT 'a=b\\n\"c\\'' None\n" in log
    assert (folder / "model/model.txt").read_text() == "from the channel"
    assert (folder / "checkpoints/c.txt").read_text() == "saved"


def test_sigterm_reaches_the_script_and_its_own_exit_code_counts(stage):
    name = stage.start(
        """
        trap 'echo saved > /opt/ml/output/saved; exit 7' TERM
        touch /opt/ml/output/ready
        while true; do sleep 0.05; done
        """
    )
    stage.wait_for("ready")
    stage.engine.signal(name, signal.SIGTERM)
    assert stage.end(name).code == 7
    assert stage.output("saved").read_text() == "saved\n"
    stage.engine.signal(name, signal.SIGTERM)  # it has ended: no error


def test_sigterm_waits_until_a_run_that_has_just_started_listens(stage):
    name = stage.start(
        """
        sleep 1
        trap 'exit 7' TERM
        while true; do sleep 0.05; done
        """
    )
    stage.engine.signal(name, signal.SIGTERM)
    assert stage.end(name).code == 7


def test_sigterm_does_not_wait_for_ever_for_a_run_that_never_listens(stage):
    name = stage.start("sleep 600; true")
    stage.engine.signal(name, signal.SIGTERM)
    if stage.kind == "docker":  # its first process cannot die of it
        stage.engine.signal(name, signal.SIGKILL)
    assert stage.end(name).code == {"process": 143, "docker": 137}[stage.kind]


def test_sigkill_ends_all_processes_of_a_run(stage):
    name = stage.start(
        """
        trap '' TERM
        loop='while true; do sleep 0.05; done'
        setsid sh -c "trap '' TERM; touch /opt/ml/output/ready; $loop" &
        eval "$loop"
        """
    )
    stage.wait_for("ready")
    stage.engine.signal(name, signal.SIGKILL)
    assert stage.end(name).code == 137
    assert not _processes_in(stage.output("ready").parent)


def _processes_in(folder: Path) -> list[str]:
    """Command lines that name a folder, which the shells of a process engine's run do."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found


def test_a_new_engine_finds_what_runs_and_what_has_ended(stage):
    going = stage.start("echo on; until test -e /opt/ml/output/go; do sleep 0.05; done; exit 4")
    over = stage.start("echo over; exit 5", host="algo-2", attempt=2)
    stage.end(over)
    again = stage.make_engine()
    assert [(r.name, r.job, r.host, r.attempt) for r in again.list_runs()] == [
        (going, "job", "algo-1", 1),
        (over, "job", "algo-2", 2),
    ]
    assert again.wait(over, 0.0) == Exit(code=5)
    assert again.wait(going, 0.0) is None
    stage.output("go").touch()
    assert again.wait(going, DEADLINE_SECONDS) == Exit(code=4)
    assert b"".join(again.read_log(going, 0)) == b"on\n"
    again.close()


def test_starting_twice_runs_once(stage):
    launch = stage.launch("echo started >> /opt/ml/output/starts")
    stage.engine.start(launch)
    stage.engine.start(launch)
    stage.end(launch.name)
    stage.engine.start(launch)
    assert stage.output("starts").read_text() == "started\n"


def test_what_cannot_start_says_why_and_leaves_nothing(stage):
    with pytest.raises(EngineFailed, match="/no/such/program") as failed:
        stage.start(entrypoint=("/no/such/program",))
    assert failed.value.fix
    assert stage.engine.list_runs() == []
    with pytest.raises(EngineLost):
        stage.engine.wait("job-algo-1-1", 0.0)


def test_hosts_find_each_other_by_name_also_when_one_has_ended(stage):
    hosts = ["algo-1", "algo-2"]
    require_namespaces(stage)
    network = stage.engine.make_network("job", hosts, isolated=False)
    assert stage.engine.make_network("job", hosts, isolated=False) == network
    assert len(set(network.addresses.values())) == 2
    for host in hosts:  # one after the other
        address = network.addresses[host]
        ended, log = stage.run(
            "getent hosts algo-1; getent hosts algo-2",
            host=host,
            network=network,
            address=address,
            peers=network.addresses,
        )
        assert ended.code == 0
        assert [line.split()[:2] for line in log.splitlines()] == [
            [network.addresses[name], name] for name in hosts
        ]


def test_isolated_hosts_have_no_way_out(stage):
    require_namespaces(stage)
    network = stage.engine.make_network("job", ["algo-1"], isolated=True)
    ended, log = stage.run("cat /proc/net/dev", network=network, isolated=True)
    devices = {line.split(":")[0].strip() for line in log.splitlines() if ":" in line}
    # Docker may list tunnel devices of the kernel's, which lead nowhere.
    assert ended.code == 0
    assert not [name for name in devices if name.startswith(("eth", "en", "docker", "wl"))]
    assert "lo" in devices


def test_the_s3_server_is_reached_at_the_address_given(stage):
    with socket.create_server((stage.engine.s3_host(), 0)) as server:
        host, port = server.getsockname()[:2]
        hello = f"exec 3<>/dev/tcp/{host}/{port} && echo hello >&3"
        name = stage.start(entrypoint=("bash", "-c"), arguments=(hello,))
        server.settimeout(DEADLINE_SECONDS)
        connection, _ = server.accept()
        with connection:
            assert connection.recv(10) == b"hello\n"
        assert stage.end(name).code == 0


def test_sweeping_removes_what_belongs_to_jobs_without_a_folder(stage):
    kept = stage.start("sleep 600")
    stage.start("sleep 600", job="gone")
    require_namespaces(stage)
    hosts = ["algo-1", "algo-2"]
    stage.engine.make_network("gone", hosts, isolated=False)
    stage.engine.make_network("job", hosts, isolated=False)
    shutil.rmtree(stage.root.job_dir("gone"))
    stage.engine.sweep()
    assert [run.name for run in stage.engine.list_runs()] == [kept]
    assert stage.engine.wait(kept, 0.0) is None


def test_removing_ends_a_run_and_what_is_gone_is_not_an_error(stage):
    name = stage.start("sleep 600")
    stage.engine.remove(name)
    stage.engine.remove(name)
    assert stage.engine.list_runs() == []
    stage.engine.signal(name, signal.SIGKILL)
    with pytest.raises(EngineLost, match=name):
        stage.engine.wait(name, 0.0)
    with pytest.raises(EngineLost, match=name):
        list(stage.engine.read_log(name, 0))


def test_a_containers_keys_are_not_in_a_command_that_all_users_can_read(tmp_path):
    environment = {"KEY": "s3cret # =", "EMPTY": "", "LINES": "two\nlines"}
    launch = Stage("process", tmp_path).launch("true", environment=environment)
    with environment_file(launch) as file:
        command = make_create_arguments(
            launch, container="c", root_id="r", gpus=False, env_file=file
        )
        assert Path(file).read_text() == "KEY=s3cret # =\nEMPTY=\n"
        assert Path(file).stat().st_mode & 0o077 == 0
    assert "s3cret" not in " ".join(command)
    assert "two" not in " ".join(command)
    assert command[command.index("--env") + 1] == "LINES"  # the client has its value
    assert broken_variables(launch) == {"LINES": "two\nlines"}
    assert not Path(file).exists()


@pytest.mark.docker
def test_a_container_trusts_the_certificates_of_this_machine(tmp_path):
    stage = Stage("docker", tmp_path)
    bundle = tmp_path / "proxy-ca.pem"
    bundle.write_text("the proxy's own certificate")
    stage.engine = DockerEngine(
        stage.root, client=[find_client()], reason="a test", certificates=bundle
    )
    shown = 'cat "$SSL_CERT_FILE"; echo; echo "pip: $PIP_CERT"'
    shown += '; (echo x >> "$SSL_CERT_FILE") 2> /dev/null'
    name = stage.start(shown, environment={"PIP_CERT": "of the request"})
    lines = b"".join(stage.engine.read_log(name, 0)).decode().splitlines()
    assert lines[:2] == ["the proxy's own certificate", "pip: of the request"]
    assert bundle.read_text() == "the proxy's own certificate"
    isolated = stage.launch("true", isolated=True)
    assert with_certificates(isolated, bundle) == isolated
    stage.engine.remove(name)


@pytest.mark.docker
def test_docker_names_an_image_it_does_not_have(tmp_path):
    engine = Stage("docker", tmp_path).engine
    with pytest.raises(ImageMissing):
        engine.require_image("--help")
    with pytest.raises(ImageMissing, match="invalid reference"):
        engine.require_image("../../etc/passwd")
    with pytest.raises(ImageMissing, match="no-such-image:1") as missing:
        engine.require_image("no-such-image:1")
    assert str(missing.value).startswith("Docker has no image no-such-image:1")
    assert "No such image" not in str(missing.value), "it has been said"
    assert missing.value.fix == "docker pull no-such-image:1"
    # One of AWS's accounts without an image of frameworks, or a user's: a pull needs a login.
    spark = "173754725891.dkr.ecr.us-east-1.amazonaws.com/sagemaker-spark-processing:3.1-cpu"
    with pytest.raises(ImageMissing) as missing:
        engine.require_image(spark)
    assert f"docker pull {spark}, once docker login" in missing.value.fix
    assert f"docker tag IMAGE {spark}" in missing.value.fix
    engine.require_image(IMAGE)


def test_an_image_of_aws_is_named_together_with_what_runs_in_its_place(stage):
    asked = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:1.8-gpu-py36"
    stage.engine.require_image(asked)
    said = " ".join(stage.engine.explain_image(asked))
    assert said.startswith(f"asked for {asked}, running ")
    assert stage.engine.explain_image(IMAGE) == []
    if stage.kind == "docker":
        assert stage.engine.image_digest(asked) in _ids("stoker:cpu", "stoker:cuda")
        assert stage.run("true", image=asked)[0] == Exit(code=0)
        stage.engine.remove("job-algo-1-1")


@pytest.mark.docker
def test_an_image_of_aws_that_cannot_run_is_refused_with_the_fix(tmp_path, monkeypatch):
    engine = Stage("docker", tmp_path).engine
    asked = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"
    with pytest.raises(ImageMissing, match="has no image that could run") as refused:
        engine.require_image(asked)
    assert f"docker tag IMAGE {asked}" in refused.value.fix
    monkeypatch.setitem(stock_images._FLAVORS, "sagemaker-scikit-learn", "not-built")
    monkeypatch.setitem(stock_images._FRAMEWORKS, "not-built", ("scikit-learn", ""))
    asked = asked.replace("sagemaker-xgboost:1.7-1", "sagemaker-scikit-learn:1.2-1-cpu-py3")
    with pytest.raises(ImageMissing, match="stoker:not-built would run, which is not built") as no:
        engine.require_image(asked)
    assert "stoker build" in no.value.fix
    subprocess.run([find_client(), "tag", IMAGE, asked], check=True)
    try:  # an image of exactly that name is the user's wish
        assert engine.explain_image(asked) == []
        engine.require_image(asked)
    finally:
        subprocess.run([find_client(), "rmi", asked], check=True, stdout=subprocess.DEVNULL)


def _ids(*images: str) -> str:
    command = [find_client(), "image", "inspect", "--format", "{{.Id}}", *images]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.docker
def test_two_roots_may_have_jobs_of_one_name(tmp_path):
    stages = [Stage("docker", tmp_path / name) for name in ("a", "b")]
    names = [stage.start(f"exit {code}") for code, stage in enumerate(stages, 1)]
    assert [stage.end(name).code for stage, name in zip(stages, names, strict=True)] == [1, 2]
    stages[0].engine.remove(names[0])
    assert [len(stage.engine.list_runs()) for stage in stages] == [0, 1]
    stages[1].engine.remove(names[1])


class SilencedStage(Stage):
    """Reaches Docker by a link that can be taken away: so an engine looks that was stopped."""

    def __init__(self, folder: Path, *, patience_seconds: float) -> None:
        self.link = folder / "docker.sock"
        self.patience_seconds = patience_seconds
        super().__init__("docker", folder / "root")
        self.repair()

    def make_engine(self):
        client = [find_client(), "--host", f"unix://{self.link}"]
        return DockerEngine(
            self.root, client=client, reason="a test", patience_seconds=self.patience_seconds
        )

    def cut(self) -> None:
        self.link.unlink()
        self.engine.close()  # its clients end in the middle of what they did

    def repair(self) -> None:
        self.link.symlink_to("/var/run/docker.sock")


@pytest.fixture
def silenced(tmp_path):
    made = []

    def make(**settings):
        made.append(SilencedStage(tmp_path, **settings))
        return made[0]

    yield make
    for stage in made:
        if not stage.link.exists():
            stage.repair()
        for run in stage.engine.list_runs():
            stage.engine.remove(run.name)
        stage.engine.close()


@pytest.mark.docker
@pytest.mark.parametrize("code", [0, 9])
def test_a_short_silence_of_the_engine_loses_no_byte(silenced, code):
    stage = silenced(patience_seconds=DEADLINE_SECONDS)
    go = "until test -e /opt/ml/output/go; do sleep 0.05; done"
    name = stage.start(f"seq 1 3000; {go}; seq 3001 6000; exit {code}")
    log = stage.engine.read_log(name, 0)
    heard = next(log)
    assert stage.engine.wait(name, 0.0) is None
    stage.cut()
    assert stage.engine.wait(name, 0.5) is None
    stage.output("go").touch()
    stage.repair()
    assert heard + b"".join(log) == b"".join(b"%d\n" % n for n in range(1, 6001))
    if code == 0:
        assert stage.end(name) == Exit(code=0)
    else:  # did the script fail, or did the engine end it when it ended? unknown
        with pytest.raises(EngineLost, match=f"went away while {name} ran"):
            stage.end(name)


@pytest.mark.docker
def test_an_engine_that_stays_silent_is_lost(silenced):
    stage = silenced(patience_seconds=0.5)
    name = stage.start("sleep 600")
    stage.cut()
    with pytest.raises(EngineLost, match="has not answered") as lost:
        stage.end(name)
    assert "systemctl start docker" in lost.value.fix
    with pytest.raises(EngineLost, match="has not answered"):
        list(stage.engine.read_log(name, 0))
