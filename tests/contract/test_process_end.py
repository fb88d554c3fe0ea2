"""What is done, and in which order, when a process ends or forks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import stoker

DEADLINE_SECONDS = 120
KEEPER = """
    import multiprocessing, os, sys, warnings
    from stoker.contract.process_end import Stage, at_end, finish_in_child
    warnings.simplefilter("ignore", DeprecationWarning)  # about forks of processes with threads

    class Keeper:
        def __init__(self, name, stage=Stage.OUTLET):
            self.name = name
            at_end(self.finish, forget=self.forget, stage=stage)
        def finish(self, timeout_seconds):
            print("finish", self.name, flush=True)
        def forget(self):
            print("forget", self.name, flush=True)
            self.name += " of a child"
"""


def run_script(body: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(KEEPER) + textwrap.dedent(body))
    process = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(stoker.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process


def said(body: str, folder: Path) -> list[str]:
    return run_script(body, folder).stdout.splitlines()


def test_work_is_finished_by_stages_whatever_the_order_it_came_in(tmp_path):
    assert said(
        """
        keepers = [Keeper("outlet"), Keeper("source", Stage.SOURCE),
                   Keeper("writer", Stage.WRITER), Keeper("second outlet")]
        """,
        tmp_path,
    ) == ["finish source", "finish writer", "finish outlet", "finish second outlet"]


def test_one_that_fails_does_not_keep_the_others_from_their_work(tmp_path):
    done = run_script(
        """
        class Broken(Keeper):
            def finish(self, timeout_seconds):
                raise RuntimeError("a disk is gone")
        keepers = [Broken("broken"), Keeper("sound")]
        """,
        tmp_path,
    )
    assert done.stdout.splitlines() == ["finish sound"]
    assert "a disk is gone" in done.stderr


def test_an_unused_object_is_left_out(tmp_path):
    assert said("Keeper('gone'); kept = Keeper('kept')", tmp_path) == ["finish kept"]


def test_what_the_script_does_at_its_end_comes_first(tmp_path):
    body = """
        import atexit
        keeper = Keeper("ours")
        atexit.register(print, "theirs", flush=True)
    """
    assert said(body, tmp_path) == ["theirs", "finish ours"]


def test_a_forked_child_forgets_and_the_parent_does_not(tmp_path):
    assert said(
        """
        keeper = Keeper("work")
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        """,
        tmp_path,
    ) == ["forget work", "finish work of a child", "finish work"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_finish_what_they_have_begun(tmp_path, method):
    lines = said(
        f"""
        def work(is_new):
            if is_new:
                keepers.append(Keeper("new"))
            else:
                finish_in_child()
        keepers = []
        if __name__ == "__main__":
            keepers.append(Keeper("old"))
            for is_new in (True, False):
                child = multiprocessing.get_context("{method}").Process(target=work, args=[is_new])
                child.start()
                child.join()
        """,
        tmp_path,
    )
    of_child = {
        "fork": [
            *("forget old", "finish old of a child", "finish new"),
            *("forget old", "finish old of a child"),
        ],
        "spawn": ["finish new"] * 2,  # such a child also runs atexit's functions
    }
    assert lines == [*of_child[method], "finish old"]
