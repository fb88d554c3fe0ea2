"""SIGTERM and a rule's request, through the real launcher: what is saved, and what is said."""

from __future__ import annotations

import pytest

from stoker.bus.stop import (
    Left,
    StopRequest,
    read_left,
    read_stop_request,
    write_left,
    write_stop_request,
)
from stoker.checkpoints.store import Store
from stoker.contract.paths import Paths
from tests.checkpoints.runs import SCRIPT, wait_for

ENDLESS = """
    import os, signal, time, stoker
    job = stoker.job()
    with stoker.checkpoints(job, kept={{}}) as ckpt:
        for epoch in ckpt.range(1):
            for step, batch in ckpt.batches(range(10**9)):
                {body}
                if step == 3:
                    open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
                time.sleep(0.01)
            raise SystemExit("what follows the loop must not run after a stop")
    print("left", ckpt.stopped)
"""


def step_of(opt_ml):
    return Store(opt_ml.root / "checkpoints").newest().step


def test_sigterm_saves_the_step_it_is_in_and_the_outcome_says_so(opt_ml):
    opt_ml.script(ENDLESS.format(body="pass"))
    done = opt_ml.run_until("model/ready")
    step = step_of(opt_ml)
    assert done.returncode == 0, done.stderr
    assert step >= 4
    assert f"stopped by SIGTERM at step {step}, checkpoint {step} saved" in done.stderr
    assert "left True" in done.stdout
    assert opt_ml.failure == ""


def test_a_rules_request_stops_a_job_in_the_same_way(opt_ml):
    opt_ml.script(ENDLESS.format(body="pass"))
    process = opt_ml.start()
    wait_for(opt_ml.root / "model/ready")
    request = StopRequest(by="rule overfit", reason="validation loss rose", step=3)
    write_stop_request(Paths(root=str(opt_ml.root)), request)
    _, err = process.communicate(timeout=240)
    step = step_of(opt_ml)
    assert process.returncode == 0, err
    wanted = f"stopped by rule overfit at step {step}, checkpoint {step} saved"
    assert f"{wanted} (validation loss rose)" in err


def test_a_second_signal_saves_nothing_and_goes(opt_ml):
    twice = "step == 5 and [os.kill(os.getpid(), signal.SIGTERM) for _ in range(2)]"
    opt_ml.script(ENDLESS.format(body=twice))
    process = opt_ml.start()
    process.communicate(timeout=240)  # torch alone takes a while to import on a busy machine
    assert process.returncode == 143
    assert Store(opt_ml.root / "checkpoints").read_all() == []


def test_a_request_of_an_earlier_attempt_is_forgotten(opt_ml):
    paths = Paths(root=str(opt_ml.root))
    write_stop_request(paths, StopRequest(by="rule old"))
    write_left(paths, Left(by="rule old", step=3))
    opt_ml.script("print('trained')")
    result = opt_ml.run()
    assert "trained" in result.stdout
    assert "stopped" not in result.stderr


def test_a_hand_written_loop_may_ask_the_job(opt_ml):
    opt_ml.script("""
        import os, time, stoker
        job = stoker.job()
        while not job.should_stop():
            open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
            time.sleep(0.01)
        print("left by itself")
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 0, done.stderr
    assert "left by itself" in done.stdout


def test_after_the_block_a_signal_is_the_scripts_own_business_again(opt_ml):
    opt_ml.script("""
        import os, time, stoker
        with stoker.checkpoints(stoker.job(), kept={}) as ckpt:
            ckpt.advance()
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(200)
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 143


def test_a_handler_the_script_installs_in_the_block_is_still_there_after_it(opt_ml):
    opt_ml.script("""
        import os, signal, sys, time, stoker
        with stoker.checkpoints(stoker.job(), kept={}) as ckpt:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(21))
            ckpt.advance()
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(200)
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 21


def test_a_handler_that_hands_on_to_the_one_before_it_is_called_once(opt_ml):
    opt_ml.script("""
        import os, signal, stoker
        job = stoker.job()
        def tell(number, frame):
            print("told")
            before(number, frame)
        with stoker.checkpoints(job, kept={}) as ckpt:
            before = signal.signal(signal.SIGTERM, tell)
            ckpt.advance()
        with stoker.checkpoints(job, kept={}) as ckpt:
            for step, batch in ckpt.batches(range(100)):
                os.kill(os.getpid(), signal.SIGTERM)
        print("left", ckpt.stopped)
    """)
    process = opt_ml.start()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert out == "told\nleft True\n"


def test_a_handler_of_ours_that_is_put_back_after_the_block_swallows_no_signal(opt_ml):
    # As Lightning does, which puts back what it found when a training has failed.
    opt_ml.script("""
        import os, signal, time, stoker
        with stoker.checkpoints(stoker.job(), kept={}) as ckpt:
            found = signal.signal(signal.SIGTERM, signal.SIG_IGN)
            ckpt.advance()
        signal.signal(signal.SIGTERM, found)
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(200)
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 143  # not 137: it was not left to be killed


def test_a_script_that_continues_without_a_refused_checkpoint_gets_the_signal(opt_ml):
    opt_ml.script("""
        import os, time, stoker
        job = stoker.job()
        with stoker.checkpoints(job, config={"lr": 1}, kept={}) as ckpt:
            ckpt.advance()
        try:
            with stoker.checkpoints(job, config={"lr": 2}, if_changed="refuse", kept={}):
                raise SystemExit("it is of other hyperparameters")
        except stoker.StokerError:
            open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(200)
    """)
    done = opt_ml.run_until("model/ready")
    assert done.returncode == 143  # not 137: it was not left to be killed


def test_two_ranks_under_torchrun_stop_and_the_outcome_says_where(opt_ml):
    opt_ml.script(SCRIPT.read_text())
    opt_ml.hyperparameters(
        sagemaker_program="train.py",
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="2",
        epochs="100000",
        seconds="0.01",
    )
    train = (opt_ml.root / "code/train.py").read_text()
    (opt_ml.root / "code/train.py").write_text(
        train.replace(
            'add_argument("root")', f'add_argument("--root", default={str(opt_ml.root)!r})'
        )
    )
    done = opt_ml.run_until("checkpoints/000001-step-3/manifest.json")
    step = step_of(opt_ml)
    assert done.returncode == 143, done.stderr
    assert f"stopped by SIGTERM at step {step}, checkpoint {step} saved" in done.stderr


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"by": 3}', '{"other": 1}', '{"by": "x", "z": 1}']
)
def test_a_request_of_nonsense_is_none(tmp_path, text):
    paths = Paths(root=str(tmp_path))
    write_stop_request(paths, StopRequest(by="rule x"))
    assert read_stop_request(paths) == StopRequest(by="rule x")
    (tmp_path / "output/stoker/stop.json").write_text(text)
    assert read_stop_request(paths) is None


def test_how_a_worker_left_is_read_back(tmp_path):
    paths = Paths(root=str(tmp_path))
    assert read_left(paths) is None
    write_left(paths, Left(by="SIGTERM", step=7))
    assert str(read_left(paths)) == "by SIGTERM at step 7, nothing saved"
