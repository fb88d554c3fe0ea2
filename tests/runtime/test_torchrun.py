"""torch_distributed through real torchrun processes."""

import re
import signal

import pytest

pytestmark = pytest.mark.functional

LAUNCH = {
    "sagemaker_torch_distributed_enabled": "true",
    "sagemaker_mpi_num_of_processes_per_host": "2",
}


def test_two_processes_form_a_group(opt_ml):
    opt_ml.script(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        print("sum", total.item(), "of", dist.get_world_size())
        dist.destroy_process_group()
        """,
        **LAUNCH,
    )
    result = opt_ml.run()
    assert result.returncode == 0, result.stderr
    assert result.stdout == "sum 3.0 of 2\n" * 2


def test_the_failing_rank_and_its_error_come_first(opt_ml):
    opt_ml.script(
        """
        import os, time
        if os.environ["RANK"] == "1":
            raise ValueError("rank one broke")
        time.sleep(50)
        """,
        **LAUNCH,
    )
    result = opt_ml.run()
    assert result.returncode == 1
    assert opt_ml.failure.startswith("ValueError: rank one broke (rank 1, algo-1, exit code 1)")


def test_the_exit_code_of_the_failing_rank_is_kept(opt_ml):
    opt_ml.script(
        "import os, sys, time; os.environ['RANK'] == '0' and sys.exit(42); time.sleep(50)",
        **LAUNCH,
    )
    assert opt_ml.run().returncode == 42


def test_a_killed_rank_is_reported_as_killed(opt_ml):
    opt_ml.script(
        "import os, time; os.environ['RANK'] == '1' and os.kill(os.getpid(), 9); time.sleep(50)",
        **LAUNCH,
    )
    assert opt_ml.run().returncode == 137
    assert opt_ml.failure.startswith("killed by SIGKILL")
    assert "rank 1" in opt_ml.failure


def test_each_worker_gets_sigterm_exactly_once(opt_ml):
    opt_ml.script(
        """
        import os, signal, sys, time
        folder = os.environ["SM_MODEL_DIR"]
        count = 0
        def on_term(number, frame):
            global count
            count += 1
        signal.signal(signal.SIGTERM, on_term)
        open(f"{folder}/ready-{os.environ['RANK']}", "w").close()
        while not count:
            time.sleep(0.05)
        time.sleep(1)
        open(f"{folder}/count-{os.environ['RANK']}", "w").write(str(count))
        """,
        **LAUNCH,
    )
    process = opt_ml.start()
    for rank in range(2):
        opt_ml.wait_for(f"model/ready-{rank}")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 143
    for rank in range(2):
        assert (opt_ml.root / f"model/count-{rank}").read_text() == "1"
    assert opt_ml.failure == ""
    assert re.search(r"stopped by SIGTERM", err)


def test_a_module_runs_under_torchrun_with_our_time_and_the_users_own_settings(opt_ml):
    names = "'NCCL_DEBUG', 'OMP_NUM_THREADS', 'TORCH_ELASTIC_SHUTDOWN_TIMEOUT'"
    opt_ml.script(
        f"""
        import os
        print(__package__, os.environ["RANK"], *(os.environ[name] for name in ({names})))
        """,
        name="pkg/__main__.py",
    )
    opt_ml.hyperparameters(sagemaker_program="pkg", **LAUNCH)
    result = opt_ml.run(NCCL_DEBUG="TRACE", OMP_NUM_THREADS="7")
    # torchrun's own 30 seconds would end a checkpoint that the service gives 120.
    assert sorted(result.stdout.splitlines()) == [f"pkg {n} TRACE 7 105" for n in range(2)]
