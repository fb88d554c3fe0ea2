"""How a job ends: exit codes, failure reasons, nothing hidden and nothing invented."""

import signal

import pytest


@pytest.mark.parametrize("code", [0, 1, 2, 42])
def test_the_users_exit_code_is_kept(opt_ml, code):
    opt_ml.script(f"import sys; sys.exit({code})")
    assert opt_ml.run().returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_becomes_128_plus_its_number(opt_ml, number):
    opt_ml.script(f"import os; os.kill(os.getpid(), {int(number)})")
    assert opt_ml.run().returncode == 128 + number
    assert opt_ml.failure.startswith(f"killed by {number.name}")


def test_a_success_leaves_no_failure_file(opt_ml):
    opt_ml.script("print('done')")
    (opt_ml.root / "output/failure").write_text("of an attempt before this one")
    assert opt_ml.run().returncode == 0
    assert not (opt_ml.root / "output/failure").exists()


def test_the_reason_starts_with_the_last_error_not_with_a_warning(opt_ml):
    opt_ml.script("""
        import sys
        print("UserWarning: Error rates may vary", file=sys.stderr)
        try:
            raise KeyError("harmless")
        except KeyError:
            import traceback
            traceback.print_exc()
        raise ValueError("the real one")
    """)
    result = opt_ml.run()
    assert result.returncode == 1
    assert opt_ml.failure.startswith("ValueError: the real one (algo-1, exit code 1)")
    assert "train.py" in opt_ml.failure


def test_a_printed_traceback_is_found_when_the_script_exits_by_itself(opt_ml):
    opt_ml.script("""
        import sys, traceback
        try:
            raise RuntimeError("caught and printed")
        except RuntimeError:
            traceback.print_exc()
            sys.exit(7)
    """)
    assert opt_ml.run().returncode == 7
    assert opt_ml.failure.startswith("RuntimeError: caught and printed (algo-1, exit code 7)")


def test_a_failed_program_the_script_tolerates_is_not_blamed(opt_ml):
    opt_ml.script("""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "raise OSError('tolerated')"])
        raise ValueError("the cause")
    """)
    opt_ml.run()
    assert opt_ml.failure.startswith("ValueError: the cause")


def test_a_failure_file_of_the_script_is_kept(opt_ml):
    opt_ml.script("""
        import os, sys
        open(os.environ["SM_OUTPUT_FAILURE"], "w").write("my own words")
        sys.exit(3)
    """)
    assert opt_ml.run().returncode == 3
    assert opt_ml.failure == "my own words"


def test_the_reason_is_at_most_1024_characters_of_valid_utf8(opt_ml):
    opt_ml.script("raise ValueError('é漢🔥' * 2000)")
    opt_ml.run()
    raw = (opt_ml.root / "output/failure").read_bytes().decode("utf-8")
    assert len(raw) <= 1024
    assert raw.startswith("ValueError: é漢🔥")


def test_secrets_are_neither_logged_nor_in_the_reason(opt_ml):
    opt_ml.script(
        """
        import os
        raise ValueError("login " + os.environ["SM_HP_DB_PASSWORD"] + os.environ["HF_TOKEN"]
                         + " at https://me:hunter2@index.example/simple")
        """,
        db_password='"tops3cret"',
    )
    result = opt_ml.run(HF_TOKEN="hf_abcdef")
    own_lines = "\n".join(x for x in result.stderr.splitlines() if x.startswith("[stoker]"))
    for text in (own_lines, opt_ml.failure):
        assert "tops3cret" not in text
        assert "hf_abcdef" not in text
        assert "hunter2" not in text
    assert "******" in opt_ml.failure


def test_an_unwritable_failure_file_does_not_turn_a_failure_into_success(opt_ml):
    opt_ml.script("raise SystemExit(5)")
    output = opt_ml.root / "output"
    output.rmdir()
    output.write_text("a file where a folder should be")
    result = opt_ml.run()
    assert result.returncode == 5
    assert "could not be written" in result.stderr


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        ("import not_there_at_all", "add not_there_at_all to requirements.txt"),
        ("import os; os.environ['SM_CHANNEL_VALIDATION']", "no channel 'validation', but: train"),
        ("raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')", "smaller batch"),
        ("raise OSError(28, 'No space left on device')", "the disk is full"),
        (
            "import argparse; p = argparse.ArgumentParser(); p.add_argument('--lr', type=float); "
            "p.parse_args()",
            "hyperparameters do not fit the script's arguments",
        ),
    ],
)
def test_known_causes_come_with_advice(opt_ml, script, hint):
    opt_ml.script(script, lrr="0.1")
    opt_ml.config("inputdataconfig", {"train": {"TrainingInputMode": "File"}})
    opt_ml.run()
    assert hint in opt_ml.failure


def test_a_shell_script_that_fails_is_quoted(opt_ml):
    opt_ml.script("echo working; echo 'cannot find the corpus' >&2; exit 9\n", name="run.sh")
    assert opt_ml.run().returncode == 9
    assert opt_ml.failure.startswith("cannot find the corpus (algo-1, exit code 9, no exception)")


def test_the_host_is_named_in_the_reason(opt_ml):
    opt_ml.script("raise ValueError('x')")
    opt_ml.config("resourceconfig", {"hosts": ["localhost"], "current_host": "localhost"})
    opt_ml.run()
    assert "(localhost, exit code 1)" in opt_ml.failure


def test_a_temporary_folder_that_cannot_be_written_harms_nothing(opt_ml):
    opt_ml.script("raise ValueError('still found, in the log')")
    assert opt_ml.run(TMPDIR="/dev/null").returncode == 1
    assert opt_ml.failure.startswith("ValueError: still found, in the log")


def test_a_group_of_errors_names_its_members(opt_ml):
    opt_ml.script("raise ExceptionGroup('several', [ValueError('bad lr'), KeyError('x')])")
    assert opt_ml.run().returncode == 1
    assert opt_ml.failure.startswith(
        "ExceptionGroup: several (2 sub-exceptions)\nValueError: bad lr"
    )


def test_a_message_of_a_megabyte_keeps_code_frames_and_limit(opt_ml):
    opt_ml.script("def train():\n    raise ValueError('é' * 1_000_000)\ntrain()\n")
    assert opt_ml.run().returncode == 1
    assert opt_ml.failure.startswith("ValueError: ééé")
    assert "in train" in opt_ml.failure


def test_a_syntax_error_is_named_first(opt_ml):
    opt_ml.script("def f(:\n")
    opt_ml.run()
    assert opt_ml.failure.startswith("SyntaxError: ")


def test_a_keyboard_interrupt_ends_as_python_ends_it(opt_ml):
    opt_ml.script("raise KeyboardInterrupt")
    assert opt_ml.run().returncode == 130


def test_leftovers_in_the_crash_folder_do_not_spoil_a_success(opt_ml):
    opt_ml.script("import os; os.mkdir(os.environ['STOKER_CRASH_DIR'] + '/x')")
    assert opt_ml.run().returncode == 0


def test_a_long_secret_is_masked_before_the_command_is_shortened(opt_ml):
    opt_ml.script("raise ValueError('x')", api_key="s3cr3t-" + "k" * 300)
    result = opt_ml.run()
    assert "s3cr3t" not in result.stderr
    assert "s3cr3t" not in opt_ml.failure


def test_the_job_does_not_show_its_environment_when_printed(opt_ml):
    opt_ml.script("import stoker; print(stoker.job())")
    result = opt_ml.run(HF_TOKEN="hf_abcdef123456")
    assert result.stdout.startswith("Job(name='job'")
    assert "hf_abcdef123456" not in result.stdout


def test_a_message_given_to_sys_exit_is_the_reason(opt_ml):
    opt_ml.script("""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import not_there_at_all"])
        sys.exit("dataset is empty")
    """)
    assert opt_ml.run().returncode == 1
    assert opt_ml.failure.startswith("dataset is empty")


def test_a_channel_that_the_job_does_not_have_is_named(opt_ml):
    opt_ml.config("inputdataconfig", {"train": {"TrainingInputMode": "File"}})
    opt_ml.script("""
        import argparse, os
        parser = argparse.ArgumentParser()
        parser.add_argument("--train", default=os.environ.get("SM_CHANNEL_TRAIN"))
        parser.add_argument("--test", default=os.environ.get("SM_CHANNEL_TEST"))
        print(os.path.join(parser.parse_args().test, "data.csv"))
    """)
    assert opt_ml.run().returncode == 1
    assert "hint: the job has no channel 'test', but: train" in opt_ml.failure
