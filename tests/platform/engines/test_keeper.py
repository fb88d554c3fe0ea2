"""Hosts as processes: what only the process engine has to deal with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.machine.failures import EngineLost
from stoker.machine.processes import Identity, read_identity
from stoker.platform.engines.engine import EngineFailed, Exit, Launch
from stoker.platform.engines.keeper import KeeperFolder
from stoker.platform.engines.process import ProcessEngine
from stoker.platform.engines.relocation import relocate
from stoker.platform.model.mount import Mount
from stoker.platform.model.root import Root

DEADLINE_SECONDS = 120


@pytest.fixture
def engine(tmp_path):
    engine = make_engine(tmp_path)
    yield engine
    for run in engine.list_runs():
        engine.remove(run.name)
    assert not list((tmp_path / "processes").glob("*"))


def make_engine(folder: Path) -> ProcessEngine:
    return ProcessEngine(Root(folder), reason="a test", environment=os.environ)


def make_launch(folder: Path, shell: str, **parts: object) -> Launch:
    host_dir = Root(folder).host_dir("job", "algo-1")
    (host_dir / "output").mkdir(parents=True, exist_ok=True)
    return Launch(
        **{
            "name": "run",
            "job": "job",
            "host": "algo-1",
            "attempt": 1,
            "image": "any",
            "entrypoint": ("/bin/sh", "-c"),
            "arguments": (shell,),
            "environment": {},
            "host_dir": host_dir,
            **parts,
        }
    )


def wait_for(file: Path) -> Path:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not appear"
        time.sleep(0.02)
    return file


def read_pid(file: Path) -> Identity:
    """Of a process that has written its number and then `ready`."""
    identity = read_identity(int(file.read_text()))
    assert identity is not None
    return identity


def test_a_run_outlives_a_server_that_is_killed(engine, tmp_path):
    launch = make_launch(
        tmp_path, "echo on; until test -e /opt/ml/output/go; do sleep 0.05; done; exit 6"
    )
    server = (
        "import os, signal, sys; from pathlib import Path\n"
        "from tests.platform.engines.test_keeper import make_engine, make_launch\n"
        "folder = Path(sys.argv[1])\n"
        "make_engine(folder).start(make_launch(folder, sys.argv[2]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", server, str(tmp_path), launch.arguments[0]],
        cwd=Path(__file__).parents[3],
        timeout=DEADLINE_SECONDS,
    )
    assert killed.returncode == -signal.SIGKILL
    assert [run.name for run in engine.list_runs()] == ["run"]
    engine.start(launch)  # what a new server does: it runs already
    assert engine.wait("run", 0.0) is None
    (launch.host_dir / "output/go").touch()
    assert engine.wait("run", DEADLINE_SECONDS) == Exit(code=6)
    assert b"".join(engine.read_log("run", 0)) == b"on\n"


def test_nothing_outlives_the_first_process_of_a_run(engine, tmp_path):
    launch = make_launch(
        tmp_path,
        'setsid sh -c \'trap "" TERM HUP; echo $$ > /opt/ml/output/pid;'
        " touch /opt/ml/output/ready; exec sleep 600' &\n"
        "until test -e /opt/ml/output/ready; do sleep 0.05; done\n"
        "until test -e /opt/ml/output/go; do sleep 0.05; done\n",
    )
    engine.start(launch)
    output = launch.host_dir / "output"
    wait_for(output / "ready")
    straggler = read_pid(output / "pid")
    (output / "go").touch()
    assert engine.wait("run", DEADLINE_SECONDS) == Exit(code=0)
    assert not straggler.is_alive()


def test_a_killed_keeper_is_a_loss_and_removing_ends_what_it_left(engine, tmp_path):
    launch = make_launch(
        tmp_path,
        "setsid sh -c 'echo $$ > /opt/ml/output/pid; touch /opt/ml/output/ready; exec sleep 600' &"
        " sleep 600",
    )
    engine.start(launch)
    output = launch.host_dir / "output"
    wait_for(output / "ready")
    left = read_pid(output / "pid")
    keeper = KeeperFolder(tmp_path / "processes/run").read_identity("keeper")
    assert keeper is not None
    assert keeper.signal(signal.SIGKILL)
    with pytest.raises(EngineLost, match="keeper of run") as lost:
        engine.wait("run", DEADLINE_SECONDS)
    assert lost.value.fix
    assert list(engine.read_log("run", 0)) == []
    engine.remove("run")
    assert left.ends_within(DEADLINE_SECONDS)


def test_a_process_that_got_the_number_of_another_is_not_taken_for_it():
    me = read_identity(os.getpid())
    assert me is not None
    assert me.is_alive()
    for other in (
        Identity(pid=me.pid, start_ticks=me.start_ticks - 1, boot=me.boot),
        Identity(pid=me.pid, start_ticks=me.start_ticks, boot="another"),
    ):
        assert not other.is_alive()
        assert not other.signal(signal.SIGKILL)  # else this test would not go on


def test_a_crash_before_the_keeper_came_is_made_good(engine, tmp_path):
    launch = make_launch(tmp_path, "echo here")
    folder = KeeperFolder(tmp_path / "processes/run")
    engine._prepare(launch, folder)  # and here the server was killed
    engine.start(launch)
    assert engine.wait("run", DEADLINE_SECONDS) == Exit(code=0)
    assert b"".join(engine.read_log("run", 0)) == b"here\n"


def test_several_hosts_are_refused_where_they_cannot_have_names(engine):
    engine._names_refused = "Operation not permitted"
    with pytest.raises(EngineFailed, match="Operation not permitted") as refused:
        engine.make_network("job", ["algo-1", "algo-2"], isolated=False)
    assert "/etc/hosts" in refused.value.fix
    assert engine.make_network("job", ["algo-1"], isolated=False).addresses == {}


def test_a_mount_outside_of_opt_ml_is_refused(engine, tmp_path):
    mount = Mount(source=tmp_path, target="/data")
    with pytest.raises(EngineFailed, match="/data is outside of /opt/ml") as refused:
        engine.start(make_launch(tmp_path, "true", mounts=(mount,)))
    assert "--engine docker" in refused.value.fix


def test_a_link_of_an_attempt_before_is_replaced_and_data_is_not(engine, tmp_path):
    sources = [tmp_path / "first", tmp_path / "second"]
    for source in sources:
        source.mkdir()
        (source / "name").write_text(source.name)
        mount = Mount(source=source, target="/opt/ml/input/data/train")
        launch = make_launch(tmp_path, "cat /opt/ml/input/data/train/name", mounts=(mount,))
        engine.start(launch)
        engine.wait("run", DEADLINE_SECONDS)
        assert b"".join(engine.read_log("run", 0)).decode() == source.name
        engine.remove("run")
    assert (sources[0] / "name").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/opt/ml", "/r"),
        ('"/opt/ml/code"', '"/r/code"'),
        ("a=/opt/ml/x:/opt/ml/y", "a=/r/x:/r/y"),
        ("/opt/mlx /srv/opt/ml/x opt/ml", "/opt/mlx /srv/opt/ml/x opt/ml"),
    ],
)
def test_only_paths_of_the_container_are_relocated(text, expected):
    assert relocate(text, Path("/r")) == expected
