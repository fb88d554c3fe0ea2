"""SDK v3 replaces `train` by bash and its own drivers: the promises hold there too."""

import pytest

from .conftest import INIT, V3_COMMAND, V3_ENTRYPOINT, mount_drivers, wait_for_line

pytestmark = pytest.mark.docker


@INIT
def test_the_real_drivers_run_a_script(opt_ml, containers, sdk_drivers, init):
    opt_ml.script("import os, sys; print('ran', sys.argv[1:], os.environ['SM_CHECKPOINT_DIR'])")
    mount_drivers(opt_ml, sdk_drivers)
    result = containers.run(*init, *V3_ENTRYPOINT, command=V3_COMMAND)
    assert result.returncode == 0, result.stderr
    assert "ran ['--lr', '0.1'] /opt/ml/checkpoints" in result.stdout


@INIT
def test_sigterm_reaches_the_script_behind_the_drivers(opt_ml, containers, sdk_drivers, init):
    opt_ml.script("""
        import signal, sys, time
        def on_term(number, frame):
            with open("/opt/ml/model/saved", "a") as file:
                file.write("saved\\n")
            sys.exit(0)
        signal.signal(signal.SIGTERM, on_term)
        print("ready", flush=True)
        time.sleep(60)
    """)
    mount_drivers(opt_ml, sdk_drivers)
    container = containers.start(*init, *V3_ENTRYPOINT, command=V3_COMMAND)
    wait_for_line(container, "ready")
    result = containers.stop(container)
    assert result.returncode == 0, result.stderr
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"


def test_each_torchrun_worker_behind_the_drivers_gets_sigterm_once(
    opt_ml, containers, sdk_drivers
):
    opt_ml.script("""
        import os, signal, time
        def on_term(number, frame):
            with open("/opt/ml/model/saved-" + os.environ["RANK"], "a") as file:
                file.write("saved\\n")
        signal.signal(signal.SIGTERM, on_term)
        print("ready", os.environ["RANK"], flush=True)
        while not os.path.exists("/opt/ml/model/saved-" + os.environ["RANK"]):
            time.sleep(0.1)
        time.sleep(1)
    """)
    mount_drivers(opt_ml, sdk_drivers, distributed={"process_count_per_node": 2})
    container = containers.start(*V3_ENTRYPOINT, command=V3_COMMAND)
    for rank in range(2):
        wait_for_line(container, f"ready {rank}")
    result = containers.stop(container)
    assert result.returncode == 143, result.stderr
    for rank in range(2):
        assert (opt_ml.root / f"model/saved-{rank}").read_text() == "saved\n"
    assert opt_ml.failure == ""


def test_the_failure_reason_is_the_scripts_own(opt_ml, containers, sdk_drivers):
    opt_ml.script("raise ValueError('what the user should read')")
    mount_drivers(opt_ml, sdk_drivers)
    result = containers.run(*V3_ENTRYPOINT, command=V3_COMMAND)
    assert result.returncode == 1
    assert opt_ml.failure.startswith("ValueError: what the user should read (algo-1, exit code 1)")


def test_a_killed_script_keeps_its_signal(opt_ml, containers, sdk_drivers):
    opt_ml.script("import os; os.kill(os.getpid(), 9)")
    mount_drivers(opt_ml, sdk_drivers)
    assert containers.run(*V3_ENTRYPOINT, command=V3_COMMAND).returncode == 137
    assert opt_ml.failure.startswith("killed by SIGKILL")


def test_other_shells_of_the_image_are_left_alone(containers):
    result = containers.run("--entrypoint", "/bin/bash", command=("-c", "echo $$"))
    assert result.stdout == "1\n"
