"""Exit codes and the failure file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from stoker.contract.outcome import (
    FAILURE_LIMIT_CHARACTERS,
    exit_code_of,
    make_failure_text,
    read_failure,
    write_failure,
)


@pytest.mark.parametrize("length", [0, 1, 1023, 1024])
def test_a_reason_that_fits_is_kept(length):
    assert make_failure_text("x" * length) == "x" * length


@pytest.mark.parametrize("text", ["x" * 1025, "ä" * 5000, "火" * 2000, "a " * 3000])
def test_a_longer_reason_is_cut_to_the_limit_and_marked(text):
    cut = make_failure_text(text)
    assert len(cut) <= FAILURE_LIMIT_CHARACTERS
    assert cut.endswith("…")
    assert text.startswith(cut[:500])


def test_a_reason_is_always_valid_utf_8(tmp_path):
    file = tmp_path / "failure"
    assert write_failure(str(file), "half \ud800 a pair, an undecodable \udcff byte, 火") is None
    assert "火" in file.read_bytes().decode()


def test_the_folder_is_made_and_nothing_else_is_left(tmp_path):
    assert write_failure(f"{tmp_path}/output/failure", "why") is None
    assert [file.name for file in (tmp_path / "output").iterdir()] == ["failure"]
    assert read_failure(f"{tmp_path}/output/failure") == "why"


def test_a_folder_that_cannot_be_written_is_told_and_no_error(tmp_path):
    (tmp_path / "output").write_text("a file where the folder should be")
    trouble = write_failure(f"{tmp_path}/output/failure", "why")
    assert trouble is not None
    assert "could not be written" in trouble


def test_a_failure_folder_instead_of_a_file_is_told_and_leaves_nothing(tmp_path):
    (tmp_path / "failure").mkdir()
    assert write_failure(f"{tmp_path}/failure", "why")
    assert [file.name for file in tmp_path.iterdir()] == ["failure"]


def test_what_the_script_wrote_is_read_whatever_its_bytes(tmp_path):
    file = tmp_path / "failure"
    assert read_failure(str(file)) == ""
    file.write_bytes(b" my own reason \xff\n")
    assert read_failure(str(file)) == "my own reason \ufffd"
    assert read_failure(str(tmp_path)) == ""


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_a_process_keeps_its_own_exit_code(code):
    process = subprocess.Popen([sys.executable, "-IS", "-c", f"import os; os._exit({code})"])
    assert exit_code_of(os.waitpid(process.pid, 0)[1]) == code
    process.returncode = code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_killed_process_gets_128_and_the_signal(number):
    body = f"import os; os.kill(os.getpid(), {int(number)})"
    process = subprocess.Popen([sys.executable, "-IS", "-c", body])
    assert exit_code_of(os.waitpid(process.pid, 0)[1]) == 128 + number
    process.returncode = -number


def test_a_reason_of_binary_output_is_readable():
    reason = "\x1b[31mError\x1b[0m in\tline\r\n" + "\0" * 50 + "\x01: a\0b, \ud800, 火\u00a0!"
    assert make_failure_text(reason) == "Error in\tline\n(binary): a\ufffdb, \ufffd, 火\u00a0!"
