"""SIGTERM reaches the user's program, once, in every phase, and a stop is not a failure."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.runtime.step import LaunchStep
from tests.conftest import DEADLINE_SECONDS, MAIN

TRAIN = Path(__file__).parents[2] / "container_src/bin/train"
HANDLER = """
    import os, signal, sys, time
    def on_term(number, frame):
        with open(os.environ["SM_MODEL_DIR"] + "/saved", "a") as file:
            file.write("saved\\n")
        time.sleep(0.5)
        sys.exit(0)
    signal.signal(signal.SIGTERM, on_term)
    open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
    while True:
        time.sleep(0.1)
"""


def _stop(process, number=signal.SIGTERM):
    process.send_signal(number)
    return process.communicate(timeout=240)  # far below the time a lost signal would take


def test_the_handler_runs_once_and_its_exit_code_is_kept(opt_ml):
    opt_ml.script(HANDLER)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 0
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"
    assert "stopped by SIGTERM" in done.stderr
    assert opt_ml.failure == ""


def test_a_script_without_a_handler_ends_with_143_and_no_blame(opt_ml):
    opt_ml.script("""
        import os, time
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(60)
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 143
    assert opt_ml.failure == ""


def test_the_program_inside_a_shell_script_is_told(opt_ml):
    opt_ml.script(HANDLER, name="inner.py")
    opt_ml.script("python3 inner.py\n", name="run.sh")
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 0
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"


def test_a_shell_script_with_a_trap_is_told_itself(opt_ml):
    opt_ml.script(
        """
        trap 'echo trapped > $SM_MODEL_DIR/trapped; exit 11' TERM
        touch $SM_MODEL_DIR/ready
        while true; do sleep 0.1; done
        """,
        name="run.sh",
    )
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 11
    assert (opt_ml.root / "model/trapped").exists()


def test_a_shell_script_with_a_trap_is_told_also_while_a_copy_of_it_listens(opt_ml):
    # Before it starts a program, a shell is two for a moment. Here the copy stays.
    opt_ml.script(
        """
        #!/bin/sh
        trap 'echo trapped > $SM_MODEL_DIR/trapped; exit 11' TERM
        (trap 'exit 0' TERM; touch $SM_MODEL_DIR/ready; while true; do sleep 0.1; done) &
        while true; do sleep 0.1; done
        """,
        name="run.sh",
    )
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 11
    assert (opt_ml.root / "model/trapped").exists()


def test_a_stop_while_pip_installs_is_prompt_and_not_a_failure(opt_ml):
    opt_ml.script("print('never')")
    # A package whose build hangs stands for any slow download.
    package = opt_ml.root / "code/slow"
    package.mkdir()
    (package / "setup.py").write_text(
        f"open({str(opt_ml.root / 'building')!r}, 'w').close()\nimport time; time.sleep(600)\n"
    )
    (opt_ml.root / "code/requirements.txt").write_text("./slow\n")
    done = opt_ml.run_until("building", PIP_NO_BUILD_ISOLATION="0", PIP_NO_INDEX="1")
    assert done.returncode == 143, done.stderr
    assert "never" not in done.stdout
    assert opt_ml.failure == ""


def test_a_stop_while_waiting_for_peers_is_prompt_and_not_a_failure(opt_ml):
    opt_ml.script("print('never')")
    opt_ml.config(
        "resourceconfig",
        {"current_host": "localhost", "hosts": ["localhost", "no-such-host.invalid"]},
    )
    process = opt_ml.start()
    while "waiting for no-such-host.invalid" not in process.stderr.readline():
        pass
    _stop(process)
    assert process.returncode == 143
    assert opt_ml.failure == ""


def test_a_script_that_ignores_sigterm_is_left_its_time(opt_ml):
    opt_ml.script("""
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(4)
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 0


def test_a_background_process_holding_stdout_does_not_keep_the_job_alive(opt_ml):
    opt_ml.script("""
        import subprocess
        subprocess.Popen(["sleep", "600"])
        print("main is done", flush=True)
    """)
    result = opt_ml.run()  # within its deadline, which is shorter than the background sleep
    assert result.returncode == 0
    assert result.stdout == "main is done\n"


def test_sigusr1_prints_the_stacks_of_the_worker(opt_ml):
    opt_ml.script("""
        import os, time
        def stuck_here():
            open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
            time.sleep(60)
        stuck_here()
    """)
    process = opt_ml.start()
    opt_ml.wait_for("model/ready")
    process.send_signal(signal.SIGUSR1)
    while "in stuck_here" not in process.stderr.readline():
        pass
    assert process.poll() is None
    _stop(process)


def test_sigint_reaches_the_script_as_sigint(opt_ml):
    opt_ml.script("""
        import os, time
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            raise SystemExit(21)
    """)
    done = opt_ml.run_until("model/ready", signal.SIGINT)
    assert done.returncode == 21


@pytest.mark.parametrize("delay_seconds", [0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08])
def test_a_stop_at_any_moment_of_the_start_is_never_lost(opt_ml, delay_seconds):
    opt_ml.script("import time; time.sleep(600)")
    process = opt_ml.start()
    time.sleep(delay_seconds)
    _stop(process)
    assert process.returncode in (143, -signal.SIGTERM)  # before our handler: the kernel's own
    assert opt_ml.failure == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_while_python_starts_is_held_back_until_the_launcher_listens(opt_ml, number):
    opt_ml.script("print('never')")
    program = opt_ml.root / "bin"
    program.mkdir()
    shutil.copy(TRAIN, program / "train")
    # A Python that takes as long as the test likes to start.
    # Not a shell that clears the mask, as dash does.
    slow = f"""#!/bin/bash
        touch {opt_ml.root}/starting
        until [ -e {opt_ml.root}/go ]; do sleep 0.01; done
        exec {sys.executable} "$@"
    """
    (program / "python3").write_text(slow)
    (program / "python3").chmod(0o755)
    process = subprocess.Popen(
        [program / "train"],
        env={**os.environ, "STOKER_ROOT": str(opt_ml.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    opt_ml.wait_for("starting")
    process.send_signal(number)
    (opt_ml.root / "go").touch()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 128 + number, err
    assert "stopped by" in err
    assert "never" not in out


def test_a_worker_has_no_signal_blocked(opt_ml):
    opt_ml.script("""
        import signal
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """)
    command = ["env", "--block-signal=TERM,INT,HUP", sys.executable, "-IS", str(MAIN)]
    environ = {**os.environ, "STOKER_ROOT": str(opt_ml.root)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240)
    assert done.stdout == "set()\n", done.stderr


def test_orphans_of_the_worker_are_gone_when_the_launcher_is(opt_ml):
    opt_ml.script("""
        import os, subprocess
        child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
        open(os.environ["SM_MODEL_DIR"] + "/pid", "w").write(str(child.pid))
    """)
    assert opt_ml.run().returncode == 0
    pid = int((opt_ml.root / "model/pid").read_text())
    deadline = time.monotonic() + DEADLINE_SECONDS
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize(
    "wrapper",
    [
        "python3 inner.py 2>&1 | tee $SM_MODEL_DIR/log\n",
        "trap 'echo cleanup' EXIT\npython3 inner.py\n",
        "trap 'echo trapped' TERM\npython3 inner.py\n",
        "set -euo pipefail\npython3 inner.py &\nwait $!\n",
    ],
    ids=["tee", "exit-trap", "term-trap", "background"],
)
def test_the_script_is_told_behind_every_kind_of_shell_wrapper(opt_ml, wrapper):
    opt_ml.script(HANDLER, name="inner.py")
    opt_ml.script(wrapper, name="run.sh")
    opt_ml.run_until("model/ready")
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"
    assert opt_ml.failure == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_script_is_told_behind_a_python_wrapper(opt_ml, number):
    opt_ml.script(HANDLER, name="inner.py")
    opt_ml.script(
        "import subprocess, sys; sys.exit(subprocess.call([sys.executable, 'inner.py']))"
    )
    done = opt_ml.run_until("model/ready", number)
    assert done.returncode == 143  # the wrapper's own: it has no handler
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"


def test_a_helper_that_listens_does_not_keep_the_signal_from_the_script(opt_ml):
    opt_ml.script(
        "import signal, time; signal.signal(15, lambda *_: exit()); time.sleep(600)",
        name="helper.py",
    )
    opt_ml.script("""
        import os, subprocess, sys, time
        subprocess.Popen([sys.executable, "helper.py"])
        time.sleep(1)
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(600)
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 143


def test_what_does_not_stop_is_killed_at_the_end_of_its_grace_time(tmp_path):
    ready = tmp_path / "ready"
    step = LaunchStep(
        name="stubborn",
        argv=(
            *(sys.executable, "-c"),
            "import signal, time; signal.signal(15, signal.SIG_IGN); "
            f"open({str(ready)!r}, 'w').close(); time.sleep(600)",
        ),
        environ=dict(os.environ),
        folder="/",
        grace_seconds=1.0,
    )
    code = (
        "import os, sys, threading, time\n"
        "from stoker.runtime.signals import Signals\n"
        "from stoker.runtime.watch import Watch\n"
        "from stoker.runtime.log import Log\n"
        "from stoker.runtime.step import LaunchStep\n"
        f"step = {step!r}\n"
        "signals = Signals(); signals.install()\n"
        "def stop():\n"
        f"    while not os.path.exists({str(ready)!r}): time.sleep(0.01)\n"
        "    os.kill(os.getpid(), 15)\n"
        "threading.Thread(target=stop).start()\n"
        "ended = Watch(signals, Log()).run(step)\n"
        "print(ended.exit_code, ended.was_killed)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240
    )
    assert done.stdout == "137 True\n", done.stderr
    assert "stubborn did not stop within 1 s: killed" in done.stderr
