"""Output arrives whole, in order, at once."""

import os

import pytest

from tests.conftest import DEADLINE_SECONDS


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_every_line_arrives_whole_and_in_order(opt_ml, unbuffered):
    opt_ml.script("""
        import sys
        for i in range(20000):
            print("loss:", i)
            print("  indented:", i, file=sys.stderr)
    """)
    result = opt_ml.run(PYTHONUNBUFFERED=unbuffered)
    assert result.stdout == "".join(f"loss: {i}\n" for i in range(20000))
    users = [line for line in result.stderr.splitlines() if not line.startswith("[stoker]")]
    assert users == [f"  indented: {i}" for i in range(20000)]


def test_a_line_arrives_while_the_script_continues(opt_ml):
    opt_ml.script("""
        import os, time
        print("first")
        while not os.path.exists(os.environ["SM_MODEL_DIR"] + "/seen"):
            time.sleep(0.01)
    """)
    process = opt_ml.start()
    assert process.stdout.readline() == "first\n"  # hangs if the line waits in a buffer
    (opt_ml.root / "model/seen").touch()
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0


def test_an_unfinished_line_is_shown_too(opt_ml):
    opt_ml.script("""
        import os, time
        print("working ...", end="", flush=True)
        while not os.path.exists(os.environ["SM_MODEL_DIR"] + "/seen"):
            time.sleep(0.01)
        print(" done")
    """)
    process = opt_ml.start()
    assert os.read(process.stdout.fileno(), 100) == b"working ..."
    (opt_ml.root / "model/seen").touch()
    out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert out == " done\n"


def test_a_progress_bar_becomes_lines_of_its_own_and_keeps_its_last_frame(opt_ml):
    opt_ml.script("""
        import sys, time
        for i in range(101):
            sys.stderr.write(f"\\r{i}%")
            sys.stderr.flush()
            time.sleep(0.01)
        sys.stderr.write("\\n")
        print("after", file=sys.stderr)
    """)
    lines = [x for x in opt_ml.run().stderr.splitlines() if not x.startswith("[stoker]")]
    assert lines[-2:] == ["100%", "after"]
    assert len(lines) < 60  # one frame a second, not a hundred, however slow the machine is
    assert all(line.count("%") <= 1 for line in lines)


def test_windows_line_ends_pass(opt_ml):
    opt_ml.script("import sys; sys.stdout.write('a\\r\\nb\\r\\n')")
    assert opt_ml.run().stdout.splitlines() == ["a", "b"]


def test_frames_that_end_in_their_carriage_return_are_lines_too(opt_ml):
    opt_ml.script("""
        import os, time
        for i in range(3):
            print(f"frame {i}", end="\\r", flush=True)
            while not os.path.exists(f"{os.environ['SM_MODEL_DIR']}/seen-{i}"):
                time.sleep(0.01)
            time.sleep(1.1)  # counted from what was shown: one frame a second is
        print("done")
    """)
    process = opt_ml.start()
    for i in range(3):
        assert process.stdout.readline() == f"frame {i}\n"
        (opt_ml.root / f"model/seen-{i}").touch()
    out, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert out == "done\n"


def test_a_line_of_several_megabytes_is_not_cut(opt_ml):
    opt_ml.script("print('x' * 3_000_000); print('next')")
    assert opt_ml.run().stdout == "x" * 3_000_000 + "\nnext\n"


def test_bytes_that_are_not_utf8_pass_and_harm_nothing(opt_ml):
    opt_ml.script("import sys; sys.stdout.buffer.write(b'\\xff\\xfe ok\\n')")
    process = opt_ml.start()
    assert os.read(process.stdout.fileno(), 100) == b"\xff\xfe ok\n"
    process.communicate(timeout=DEADLINE_SECONDS)


def test_a_reader_that_goes_away_does_not_stop_the_job(opt_ml):
    opt_ml.script("""
        import os
        for i in range(20000):
            print("line", i)
        open(os.environ["SM_MODEL_DIR"] + "/finished", "w").close()
    """)
    process = opt_ml.start()
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=240) == 0
    assert (opt_ml.root / "model/finished").exists()


def test_output_of_a_process_that_floods_after_the_end_is_bounded(opt_ml):
    opt_ml.script("""
        import subprocess
        subprocess.Popen(["sh", "-c", "exec yes"])
    """)
    assert opt_ml.run().returncode == 0  # within its deadline


def test_two_ranks_do_not_cut_each_others_lines(opt_ml):
    opt_ml.script(
        """
        import os
        for i in range(3000):
            print("rank", os.environ["RANK"], "step", i, "x" * 50)
        """,
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="2",
    )
    result = opt_ml.run()
    assert result.returncode == 0, result.stderr
    expected = [f"rank {r} step {i} {'x' * 50}" for r in range(2) for i in range(3000)]
    assert sorted(result.stdout.splitlines()) == sorted(expected)
