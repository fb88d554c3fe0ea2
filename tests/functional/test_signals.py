"""SIGTERM reaches the user's program, once, in every phase, and nobody is blamed for a stop."""

import os
import signal
import time

import pytest

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
    return process.communicate(timeout=60)


def test_the_handler_runs_once_and_its_exit_code_is_kept(opt_ml):
    opt_ml.script(HANDLER)
    process = opt_ml.start()
    opt_ml.wait_for("model/ready")
    _, err = _stop(process)
    assert process.returncode == 0
    assert (opt_ml.root / "model/saved").read_text() == "saved\n"
    assert "stopped: by SIGTERM" in err
    assert opt_ml.failure == ""


def test_a_script_without_a_handler_ends_with_143_and_no_blame(opt_ml):
    opt_ml.script("""
        import os, time
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(60)
    """)
    process = opt_ml.start()
    opt_ml.wait_for("model/ready")
    _stop(process)
    assert process.returncode == 143
    assert opt_ml.failure == ""


def test_the_program_inside_a_shell_script_is_told(opt_ml):
    opt_ml.script(HANDLER, name="inner.py")
    opt_ml.script("python3 inner.py\n", name="run.sh")
    process = opt_ml.start()
    opt_ml.wait_for("model/ready")
    _stop(process)
    assert process.returncode == 0
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
    process = opt_ml.start()
    opt_ml.wait_for("model/ready")
    _stop(process)
    assert process.returncode == 11
    assert (opt_ml.root / "model/trapped").exists()


def test_a_stop_while_pip_installs_is_prompt_and_blames_nobody(opt_ml):
    opt_ml.script("print('never')")
    # A package whose build hangs stands for any slow download.
    package = opt_ml.root / "code/slow"
    package.mkdir()
    (package / "setup.py").write_text(
        f"open({str(opt_ml.root / 'building')!r}, 'w').close()\nimport time; time.sleep(60)\n"
    )
    (opt_ml.root / "code/requirements.txt").write_text("./slow\n")
    process = opt_ml.start(PIP_NO_BUILD_ISOLATION="0", PIP_NO_INDEX="1")
    opt_ml.wait_for("building")
    started = time.monotonic()
    out, err = _stop(process)
    assert time.monotonic() - started < 30
    assert process.returncode == 143, err
    assert "never" not in out
    assert opt_ml.failure == ""


def test_a_stop_while_waiting_for_peers_is_prompt_and_blames_nobody(opt_ml):
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
    process = opt_ml.start()
    opt_ml.wait_for("model/ready")
    _stop(process)
    assert process.returncode == 0


def test_a_background_process_holding_stdout_does_not_keep_the_job_alive(opt_ml):
    opt_ml.script("""
        import subprocess
        subprocess.Popen(["sleep", "55"])
        print("main is done", flush=True)
    """)
    started = time.monotonic()
    result = opt_ml.run()
    assert time.monotonic() - started < 30
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
    process = opt_ml.start()
    opt_ml.wait_for("model/ready")
    _stop(process, signal.SIGINT)
    assert process.returncode == 21


@pytest.mark.parametrize("delay_seconds", [0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08])
def test_a_stop_at_any_moment_of_the_start_is_never_lost(opt_ml, delay_seconds):
    opt_ml.script("import time; time.sleep(50)")
    process = opt_ml.start()
    time.sleep(delay_seconds)
    started = time.monotonic()
    _stop(process)
    assert time.monotonic() - started < 20
    assert process.returncode in (143, -signal.SIGTERM)  # before our handler: the kernel's own
    assert opt_ml.failure == ""


def test_orphans_of_the_worker_are_gone_when_the_launcher_is(opt_ml):
    opt_ml.script("""
        import os, subprocess
        child = subprocess.Popen(["sleep", "55"], stdout=subprocess.DEVNULL)
        open(os.environ["SM_MODEL_DIR"] + "/pid", "w").write(str(child.pid))
    """)
    assert opt_ml.run().returncode == 0
    pid = int((opt_ml.root / "model/pid").read_text())
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")
