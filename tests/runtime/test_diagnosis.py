"""Why a worker failed, from what it left behind."""

from __future__ import annotations

import json
import textwrap

import pytest

from stoker.contract.job import read_job
from stoker.contract.outcome import FAILURE_LIMIT_CHARACTERS
from stoker.contract.secrets import Masker
from stoker.runtime.diagnosis import diagnose
from stoker.runtime.watch import Ended

TRACEBACK = """\
    Traceback (most recent call last):
      File "/opt/ml/code/train.py", line 7, in <module>
        main()
      File "/opt/ml/code/train.py", line 4, in main
        raise ValueError("loss is nan")
    ValueError: loss is nan
    """
TORCHRUN_SUMMARY = """\
    E1116 03:00:00.000000 12 torch/distributed/elastic/multiprocessing/api.py:987] failed
    Traceback (most recent call last):
      File "/opt/venv/bin/torchrun", line 8, in <module>
        sys.exit(main())
    torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
    ============================================================
    train.py FAILED
    ------------------------------------------------------------
    Failures:
      <NO_OTHER_FAILURES>
    ------------------------------------------------------------
    Root Cause (first observed failure):
    [0]:
      time      : 2026-11-16_03:00:00
      host      : algo-1
      rank      : 1 (local_rank: 1)
      exitcode  : {code} (pid: 41)
      error_file: <N/A>
      traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
    ============================================================
    """


@pytest.fixture
def find(opt_ml, tmp_path):
    """Diagnoses a worker (process 100) by its output and crash files."""
    folder = tmp_path / "crashes"
    folder.mkdir()

    def run(stderr="", stdout="", code=1, crashes=(), launcher="python", by_signal=0):
        for number, crash in enumerate(crashes):
            (folder / f"{number}.json").write_text(json.dumps({"at_seconds": number, **crash}))
        ended = Ended(
            pid=100,
            exit_code=code,
            by_signal=by_signal,
            stdout_tail=textwrap.dedent(stdout),
            stderr_tail=textwrap.dedent(stderr),
        )
        job = read_job(root=opt_ml.root, environ={})
        return diagnose(job, ended, crash_dir=str(folder), launcher=launcher, mask=str)

    return run


def crash(error, *, pid, parent, rank=""):
    text = f'  File "t.py", line {pid}, in f\n    f()\n'
    return {"error": error, "traceback": text, "pid": pid, "parent_pid": parent, "rank": rank}


def first_line(found):
    return found.reason.splitlines()[0]


def test_the_last_traceback_is_the_reason_and_its_frames_follow(find):
    found = find(f"    warning: error ahead\n{TRACEBACK}")
    assert first_line(found) == "ValueError: loss is nan (algo-1, exit code 1)"
    assert 'File "/opt/ml/code/train.py", line 4, in main' in found.reason


def test_of_two_tracebacks_the_last_counts(find):
    more = TRACEBACK.replace("loss is nan", "handled long ago")
    assert first_line(find(more + TRACEBACK)).startswith("ValueError: loss is nan")


def test_a_traceback_on_stdout_is_found_too(find):
    assert first_line(find(stdout=TRACEBACK)).startswith("ValueError: loss is nan")


def test_an_error_of_several_lines_is_kept(find):
    found = find(TRACEBACK.replace("nan\n", "nan\n    at step 3\n", 2))
    assert "at step 3" in found.reason


def test_argparse_is_recognised_among_its_usage(find):
    found = find(
        """\
        usage: train.py [-h] [--epochs EPOCHS]
        train.py: error: unrecognized arguments: --lr 0.1
        """,
        code=2,
    )
    assert first_line(found).startswith("train.py: error: unrecognized arguments: --lr 0.1 (")
    assert "hint: the hyperparameters do not fit" in found.reason
    assert found.exit_code == 2


def test_without_a_traceback_the_last_lines_tell(find):
    found = find("\n".join(f"    line {n}" for n in range(20)))
    assert "line 19" in found.reason
    assert "line 3\n" not in found.reason


def test_silence_is_said(find):
    assert first_line(find()) == "no error was printed (algo-1, exit code 1)"


def test_an_exit_code_above_128_is_not_a_signal(find):
    assert "SIGHUP" not in find("    bye\n", code=129).reason


def test_a_signal_comes_before_any_error_that_was_printed(find):
    found = find(TRACEBACK, code=137, by_signal=9)
    assert first_line(found).startswith("killed by SIGKILL")


def test_an_error_that_was_handled_gives_way_to_the_last_words(find):
    found = find(f"{TRACEBACK}    going on without it\n    dataset has 0 rows\n")
    assert first_line(found) == "dataset has 0 rows"
    assert "no exception" in found.reason


def test_a_crash_that_was_tolerated_is_not_blamed(find):
    probe = crash("ModuleNotFoundError: No module named 'flash_attn'", pid=101, parent=100)
    found = find("    dataset is empty\n", crashes=[probe])
    assert first_line(found).startswith("dataset is empty (")


def test_below_a_shell_the_last_crash_counts(find):
    first = crash("ValueError: tolerated", pid=101, parent=100)
    last = crash("ValueError: the cause", pid=102, parent=100)
    found = find(crashes=[first, last], launcher="shell")
    assert first_line(found).startswith("ValueError: the cause (")


def test_a_killed_rank_is_not_explained_by_another_ranks_error(find):
    other = crash("RuntimeError: connection closed by peer", pid=101, parent=100, rank="0")
    summary = TORCHRUN_SUMMARY.replace("{code}", "-9")
    found = find(summary, crashes=[other], launcher="torchrun")
    assert first_line(found) == "killed by SIGKILL (rank 1, algo-1, exit code 137)"


def test_of_ranks_that_fail_together_the_one_torchrun_names_is_told(find):
    left = [
        crash("ValueError: none for 0", pid=101, parent=100, rank="0"),
        crash("ValueError: none for 1", pid=102, parent=100, rank="1"),
    ]
    found = find(TORCHRUN_SUMMARY.replace("{code}", "1"), crashes=left, launcher="torchrun")
    assert first_line(found) == "ValueError: none for 1 (rank 1, algo-1, exit code 1)"


def test_a_script_that_talks_like_torchrun_keeps_its_code(find):
    assert find("    Root Cause: rank : 5 exitcode : 0\n", code=3).exit_code == 3


def test_a_secret_is_masked_before_anything_is_cut(opt_ml, tmp_path):
    token = "t0p" * 90
    ended = Ended(pid=1, exit_code=1, stdout_tail="", stderr_tail=f"{'x' * 350}{token}{'y' * 200}")
    job = read_job(root=opt_ml.root, environ={"HF_TOKEN": token})
    found = diagnose(
        job, ended, crash_dir=str(tmp_path), launcher="python", mask=Masker(job.environ)
    )
    assert "t0pt0p" not in found.reason


def test_a_signal_is_named_with_the_last_line(find):
    found = find("    loading\n    epoch 3\n", code=139, by_signal=11)
    assert first_line(found) == "killed by SIGSEGV. Last line: epoch 3 (algo-1, exit code 139)"
    assert found.exit_code == 139


def test_a_missing_channel_is_hinted_at(find, opt_ml):
    opt_ml.config("inputdataconfig", {"train": {}})
    error = "KeyError: 'SM_CHANNEL_VALIDATION'"
    found = find(TRACEBACK.replace("ValueError: loss is nan", error))
    assert "hint: the job has no channel 'validation', but: train" in found.reason


def test_a_harmless_warning_does_not_lend_its_hint_to_another_error(find):
    found = find(f"    UserWarning: /dev/shm is small, CUDA out of memory may follow\n{TRACEBACK}")
    assert "hint:" not in found.reason


def test_a_crash_file_is_believed_before_the_log(find):
    left = crash("KeyError: 'x'", pid=100, parent=1)
    assert first_line(find(TRACEBACK, crashes=[left])).startswith("KeyError: 'x' (")


def test_of_several_ranks_the_first_to_crash_is_the_cause(find):
    found = find(
        crashes=[
            crash("ValueError: cause", pid=102, parent=100, rank="1"),
            crash("RuntimeError: peer gone", pid=101, parent=100, rank="0"),
        ],
        launcher="torchrun",
    )
    assert first_line(found) == "ValueError: cause (rank 1, algo-1, exit code 1)"


@pytest.mark.parametrize(("code", "expected"), [("42", 42), ("-9", 137), ("-11", 139)])
def test_torchruns_1_becomes_the_code_of_the_failed_rank(find, code, expected):
    found = find(TORCHRUN_SUMMARY.replace("{code}", code), launcher="torchrun")
    assert found.exit_code == expected
    assert f"(rank 1, algo-1, exit code {expected})" in found.reason
    assert "=====" not in found.reason


def test_torchruns_own_traceback_is_never_the_reason(find):
    marked = "".join(f"    [rank1]: {line}\n" for line in textwrap.dedent(TRACEBACK).splitlines())
    found = find(marked + TORCHRUN_SUMMARY.replace("{code}", "1"), launcher="torchrun")
    assert first_line(found).startswith("ValueError: loss is nan (rank 1")
    assert "ChildFailedError" not in found.reason


def test_torchruns_own_crash_file_is_never_the_reason(find):
    found = find(
        crashes=[
            crash("ValueError: cause", pid=101, parent=100, rank="0"),
            crash("torch.x.errors.ChildFailedError: \n====", pid=100, parent=1),
        ],
        launcher="torchrun",
    )
    assert first_line(found).startswith("ValueError: cause (rank 0")


def test_the_error_is_within_what_sagemaker_keeps(find):
    frames = "".join(f'      File "/opt/ml/code/m{n}.py", line {n}, in f\n' for n in range(200))
    trace = f"    Traceback (most recent call last):\n{frames}    ValueError: loss is nan\n"
    found = find(trace)
    assert "ValueError: loss is nan" in found.reason[:FAILURE_LIMIT_CHARACTERS]
    assert "m199.py" in found.reason[:FAILURE_LIMIT_CHARACTERS]


@pytest.mark.parametrize("content", ["{", "[]", "null", ""])
def test_a_damaged_crash_file_does_not_hide_the_error(find, tmp_path, content):
    (tmp_path / "crashes/9.json").write_text(content)
    assert first_line(find(TRACEBACK)).startswith("ValueError: loss is nan")


@pytest.mark.parametrize(
    "stderr",
    [
        "Traceback (most recent call last):",
        "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\n  File",
        "rank : 1\nRoot Cause\nexitcode : 5",
        "\ufffd\x1b[31m",
        "[rank0]: ",
    ],
)
def test_a_cut_log_is_not_a_reason_to_fail(find, stderr):
    found = find(stderr)
    assert found.exit_code != 0
    assert "exit code" in found.reason
