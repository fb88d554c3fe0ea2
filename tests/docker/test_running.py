"""The built image through a real engine: start, signals, exit codes, isolation."""

import signal
import time
from pathlib import Path

import pytest

from stoker.machine.processes import has_signal

from .conftest import DEADLINE_SECONDS, INIT, docker, wait_for_line

pytestmark = pytest.mark.docker

HANDLER = """
    import os, signal, sys, time
    def on_term(number, frame):
        with open("/opt/ml/model/saved", "a") as file:
            file.write("saved\\n")
        time.sleep(1)
        sys.exit({code})
    signal.signal(signal.SIGTERM, on_term)
    print("ready")
    while True:
        time.sleep(0.1)
"""


@INIT
def test_the_script_runs_and_torch_is_there(opt_ml, containers, init):
    opt_ml.script("import torch; print('torch', torch.__version__.split('+')[0])")
    result = containers.run(*init)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "torch 2.13.0\n"


def test_train_is_the_default_command(opt_ml, containers):
    opt_ml.script("print('by default')")
    assert containers.run(command=()).stdout == "by default\n"


def test_the_main_process_is_not_a_shell(opt_ml, containers):
    opt_ml.script("print(open('/proc/1/cmdline').read().split(chr(0))[0])")
    assert containers.run().stdout == "/opt/venv/bin/python3\n"


@INIT
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(1)", 1),
        ("raise SystemExit(42)", 42),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import ctypes; ctypes.string_at(0)", 139),
    ],
    ids=["0", "1", "42", "137", "139"],
)
def test_exit_codes_are_the_users_own(opt_ml, containers, init, script, code):
    opt_ml.script(script)
    assert containers.run("--network", "none", *init).returncode == code
    assert bool(opt_ml.failure) == (code != 0)


@INIT
def test_sigterm_reaches_the_script_and_its_exit_code_is_kept(opt_ml, containers, init):
    opt_ml.script(HANDLER.format(code=17))
    container = containers.start(*init)
    wait_for_line(container, "ready")
    result = containers.stop(container)
    assert result.returncode == 17
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"
    assert opt_ml.failure == ""


@INIT
def test_each_torchrun_worker_gets_sigterm_once(opt_ml, containers, init):
    opt_ml.script(
        """
        import os, signal, sys, time
        def on_term(number, frame):
            with open("/opt/ml/model/saved-" + os.environ["RANK"], "a") as file:
                file.write("saved\\n")
        signal.signal(signal.SIGTERM, on_term)
        print("ready", os.environ["RANK"])
        while not os.path.exists("/opt/ml/model/saved-" + os.environ["RANK"]):
            time.sleep(0.1)
        time.sleep(1)
        """,
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="2",
    )
    container = containers.start(*init)
    for rank in range(2):
        wait_for_line(container, f"ready {rank}")
    result = containers.stop(container)
    assert result.returncode == 143, result.stderr
    for rank in range(2):
        assert (opt_ml.root / f"model/saved-{rank}").read_text() == "saved\n"


@INIT
def test_a_stop_while_waiting_for_peers_is_prompt(opt_ml, containers, init):
    opt_ml.script("print('never')")
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]})
    container = containers.start("--hostname", "algo-1", *init)
    wait_for_line(container, "waiting for algo-2")
    result = containers.stop(container, grace_seconds=30)  # 137 if it is not prompt
    assert result.returncode == 143
    assert opt_ml.failure == ""


def wait_until_a_signal_can_be_kept(container: str) -> None:
    """Before its first instruction no program can: PID 1 has no default actions."""
    pid = docker("inspect", "--format", "{{.State.Pid}}", container)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        started = not status["Name"].startswith("runc")  # the engine's own, until it executes ours
        if started and any(has_signal(status[m], signal.SIGTERM) for m in ("SigBlk", "SigCgt")):
            return
        # docker-init waits for signals, which shows in no mask; then it has its child already.
        if Path(f"/proc/{pid}/task/{pid}/children").read_text():
            return
    pytest.fail(f"process 1 neither blocks nor handles SIGTERM: {status}")


@INIT
def test_a_stop_in_the_first_moment_of_a_container_is_not_lost(opt_ml, containers, init):
    opt_ml.script("import time; time.sleep(20)")  # the end of a job that a stop did not reach
    for _ in range(6):
        container = containers.start(*init)
        wait_until_a_signal_can_be_kept(container)
        docker("kill", "--signal", "TERM", container)
        assert containers.wait(container).returncode == 143
    assert opt_ml.failure == ""


@INIT
def test_orphans_are_reaped_while_the_job_runs(opt_ml, containers, init):
    opt_ml.script("""
        import glob, subprocess, time
        def orphans():   # their states
            found = []
            for file in glob.glob("/proc/[0-9]*/stat"):
                try:
                    text = open(file).read()
                except OSError:
                    continue   # it is gone
                if "(sleep)" in text:
                    found.append(text.rpartition(")")[2].split()[0])
            return found
        for _ in range(5):   # each shell leaves an orphan behind
            subprocess.run(["sh", "-c", "sleep 0.2 &"])
        deadline = time.monotonic() + 120
        while orphans() and time.monotonic() < deadline:
            time.sleep(0.05)
        print("left", orphans())
    """)
    assert containers.run(*init).stdout == "left []\n"


def test_a_job_starts_without_any_network(opt_ml, containers):
    opt_ml.script("print('isolated')")
    result = containers.run("--network", "none")
    assert result.stdout == "isolated\n"


def test_torchrun_works_without_a_network(opt_ml, containers):
    opt_ml.script(
        """
        import torch.distributed as dist
        dist.init_process_group("gloo")
        print(dist.get_rank())
        dist.destroy_process_group()
        """,
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="2",
    )
    result = containers.run("--network", "none")
    assert sorted(result.stdout.split()) == ["0", "1"], result.stderr


def test_a_read_only_image_is_enough(opt_ml, containers):
    opt_ml.script("import torch; open('/opt/ml/model/done', 'w').write('yes')")
    result = containers.run("--read-only", "--tmpfs", "/tmp")
    assert result.returncode == 0, result.stderr
    assert (opt_ml.root / "model/done").exists()


def test_a_full_output_folder_does_not_make_a_success_of_a_failure(opt_ml, containers):
    opt_ml.script("""
        import sys
        try:
            open("/opt/ml/output/filler", "wb").write(b"x" * 1_000_000)
        except OSError:
            pass
        sys.exit(23)
    """)
    result = containers.run("--tmpfs", "/opt/ml/output:size=256k")
    assert result.returncode == 23
    # Space for the failure file was taken before the script ran.
    assert "could not be written" not in result.stderr


def test_data_loader_workers_live_with_64_mb_or_say_exactly_why_not(opt_ml, containers):
    opt_ml.script("""
        import torch
        from torch.utils.data import DataLoader
        data = torch.zeros(64, 3, 512, 512)          # 3 MB a sample
        loader = DataLoader(data, batch_size=32, num_workers=2)   # a batch does not fit
        print(sum(batch.shape[0] for batch in loader))
    """)
    result = containers.run("--shm-size", "64m")
    assert result.returncode != 0
    assert "shared memory (/dev/shm) is too small" in opt_ml.failure
    enough = containers.run("--shm-size", "512m")
    assert enough.stdout == "64\n", enough.stderr


def test_out_of_memory_is_named(opt_ml, containers):
    opt_ml.script("x = bytearray(600_000_000); print('never')")
    result = containers.run("--memory", "200m", "--memory-swap", "200m")
    assert result.returncode == 137
    assert "the host ran out of memory" in opt_ml.failure


def test_two_containers_train_together_over_gloo(opt_ml, containers, tmp_path):
    network = docker("network", "create", f"stoker-test-{time.time_ns()}")
    try:
        started = [
            containers.start(
                *("--network", network, "--hostname", host, "--network-alias", host),
                root=_host(tmp_path / host, host),
            )
            for host in ("algo-1", "algo-2")
        ]
        results = [containers.wait(container) for container in started]
    finally:
        docker("rm", "--force", *started)
        docker("network", "rm", network)
    for result in results:
        assert result.returncode == 0, result.stderr
        assert result.stdout == "sum 3.0 of 2\n"


def _host(root, host):
    from tests.conftest import OptMl

    opt_ml = OptMl(root)
    opt_ml.script(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        print("sum", total.item(), "of", dist.get_world_size())
        dist.destroy_process_group()
        """,
        sagemaker_torch_distributed_enabled="true",
    )
    opt_ml.config("resourceconfig", {"current_host": host, "hosts": ["algo-1", "algo-2"]})
    return root


def test_a_late_peer_is_waited_for_visibly(opt_ml, containers, tmp_path):
    network = docker("network", "create", f"stoker-test-{time.time_ns()}")
    try:
        first = containers.start(
            *("--network", network, "--network-alias", "algo-1"),
            root=_host(tmp_path / "a", "algo-1"),
        )
        wait_for_line(first, "waiting for algo-2")
        second = containers.start(
            *("--network", network, "--network-alias", "algo-2"),
            root=_host(tmp_path / "b", "algo-2"),
        )
        results = [containers.wait(first), containers.wait(second)]
    finally:
        docker("rm", "--force", first, second)
        docker("network", "rm", network)
    assert [result.returncode for result in results] == [0, 0], results


def test_another_entry_point_and_arguments_replace_ours(containers):
    ran = containers.run("--entrypoint", "python", command=("-c", "import torch; print('mine')"))
    assert ran.stdout == "mine\n"
    shell = containers.run("--entrypoint", "/bin/sh", command=("-c", "echo shell"))
    assert shell.stdout == "shell\n"


def test_input_can_be_read_only_and_pipes_are_not_touched(opt_ml, containers):
    opt_ml.script("import os; print(os.environ['SM_CHANNEL_TRAIN'])")
    opt_ml.config("inputdataconfig", {"train": {"TrainingInputMode": "Pipe"}})
    import os

    os.mkfifo(opt_ml.root / "input/data/train_0")  # opening it would block for ever
    result = containers.run("--volume", f"{opt_ml.root}/input:/opt/ml/input:ro")
    assert result.stdout == "/opt/ml/input/data/train\n"


def test_a_package_in_a_read_only_code_channel_is_installed_from_a_copy(opt_ml, containers):
    opt_ml.script("import fuel; print('installed', fuel.NAME)")
    code = opt_ml.root / "code"
    (code / "fuel.py").write_text("NAME = 'fuel'")
    (code / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='fuel', py_modules=['fuel'])"
    )
    channel = opt_ml.root / "input/data/code"
    code.rename(channel)
    opt_ml.config("inputdataconfig", {"code": {"TrainingInputMode": "FastFile"}})
    result = containers.run(
        *("--volume", f"{channel}:/opt/ml/input/data/code:ro"),
        *("--network", "none"),
    )
    assert "fetch code: done" in result.stderr
    assert result.stdout.endswith("installed fuel\n"), result.stderr


def test_the_toolkit_is_a_fallback(opt_ml, containers):
    opt_ml.script("print('through the toolkit')")
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"]})
    opt_ml.config("inputdataconfig", {})
    result = containers.run(
        "--hostname", "algo-1", "--env", "STOKER_LAUNCHER=toolkit", "--env", "USE_SMDEBUG=0"
    )
    assert result.returncode == 0, result.stderr
    assert "through the toolkit" in result.stdout


def test_sigterm_reaches_the_script_through_the_toolkit_too(opt_ml, containers):
    opt_ml.script(HANDLER.format(code=0))
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"]})
    opt_ml.config("inputdataconfig", {})
    container = containers.start(
        "--hostname", "algo-1", "--env", "STOKER_LAUNCHER=toolkit", "--env", "USE_SMDEBUG=0"
    )
    wait_for_line(container, "ready")
    containers.stop(container, grace_seconds=30)
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"


def test_requirements_cannot_replace_torch(opt_ml, containers):
    opt_ml.script("print('never')")
    (opt_ml.root / "code/requirements.txt").write_text("torch==2.10.0\n")
    result = containers.run("--network", "none", "--env", "PIP_NO_INDEX=1")
    assert result.returncode == 69
    assert "torch" in opt_ml.failure
    assert "delete the line of torch from requirements.txt" in opt_ml.failure


def test_stacks_are_dumped_on_request(opt_ml, containers):
    opt_ml.script("""
        import time
        def stuck_here():
            print("ready")
            time.sleep(60)
        stuck_here()
    """)
    container = containers.start()
    wait_for_line(container, "ready")
    docker("kill", "--signal", signal.SIGUSR1.name, container)
    wait_for_line(container, "in stuck_here")
    containers.stop(container)
