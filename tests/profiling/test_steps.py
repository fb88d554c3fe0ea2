"""The step recorder: every step of every kind of loop, and nothing of the training changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from stoker.bus.step_records import (
    ACCUMULATED,
    EVALUATION,
    FIELDS,
    FIRST_OF_EPOCH,
    RankSteps,
    read_steps,
)

LOOPS = Path(__file__).with_name("loops.py")
# Loop → training steps and evaluation steps.
EXPECTED = {
    "plain": (6, 0),
    "slow_loader": (6, 0),
    "worker_processes": (6, 0),
    "accumulation": (2, 0),
    "evaluation": (8, 8),
    "evaluation_without_a_loader": (4, 1),
    "two_models": (5, 0),
    # A step ends after that of the first optimizer: half of one comes first, and half of one last.
    "two_models_without_a_loader": (6, 0),
    "teacher": (5, 0),
    "closure": (4, 0),
    "no_module": (5, 0),
    "compiled": (4, 0),
    "mixed_precision": (4, 0),
    "errors": (4, 0),
    "recomputed": (4, 0),
    "slow_checkpoint": (3, 0),
    "another_thread": (5, 0),
    "interrupted_epochs": (6, 0),
    "forked_training": (0, 0),
}


def run(script, root, *arguments, **environ):
    """Runs a script as the launcher would; `-m` and a module in its place, too."""
    given = {"STOKER_WORKER": "1", "STOKER_ROOT": str(root), "STOKER_PROFILE": "auto"}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **given, **environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def rows_of(steps: RankSteps):
    return [dict(zip(FIELDS, row, strict=True)) for row in steps.rows()]


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    root = tmp_path_factory.mktemp("loops")
    done = run(LOOPS, root)
    assert done.returncode == 0, done.stderr
    assert "stoker" not in done.stderr, done.stderr
    *lines, digest = done.stdout.splitlines()
    ends = [json.loads(line) for line in lines]
    main, forked = sorted(read_steps(str(root / "output/profiler")), key=lambda s: -len(s.records))
    found = defaultdict(list)
    for row in rows_of(main):
        if ends and not row["start"] <= ends[0]["end"] <= row["start"] + row["total"]:
            found[ends[0]["name"]].append(row)
        else:
            ends = ends[1:]
    return found, rows_of(forked), digest, root


@pytest.mark.parametrize("name", EXPECTED)
def test_each_step_is_counted_once(loops, name):
    rows = loops[0][name]
    train = [row for row in rows if not row["flags"] & EVALUATION]
    assert (len(train), len(rows) - len(train)) == EXPECTED[name]


def test_the_parts_of_a_step_are_where_their_time_went(loops):
    found = loops[0]
    for row in found["slow_loader"]:
        assert row["data_wait"] >= 0.04
    assert sum(row["checkpoint"] >= 0.002 for row in found["slow_checkpoint"]) >= 2
    assert all(row["flags"] & ACCUMULATED for row in found["accumulation"])
    assert [bool(row["flags"] & FIRST_OF_EPOCH) for row in found["plain"]] == [True, *[False] * 5]
    assert max(row["ready_batches"] for row in found["worker_processes"]) >= 1
    for rows in found.values():
        for row in rows:
            parts = sum(row[name] for name in FIELDS[6:13])
            assert parts <= row["total"] * 1.001 + 1e-6
    for name in ("plain", "compiled", "closure", "mixed_precision"):
        assert all(row["forward"] > 0 and row["backward"] > 0 for row in found[name]), name
    assert all(row["optimizer"] > 0 for row in found["no_module"])


def test_a_forked_process_that_trains_has_records_of_its_own(loops):
    assert 5 <= len(loops[1]) <= 6


def test_the_weights_are_bit_for_bit_those_of_an_unwatched_run(loops, tmp_path):
    plain = run(LOOPS, tmp_path, STOKER_PROFILE="off")
    assert plain.stdout.splitlines()[-1] == loops[2]
    assert not (tmp_path / "output").exists()


RANKS, TRAINERS = LOOPS.with_name("ranks.py"), LOOPS.with_name("trainers.py")


def test_each_rank_has_its_own_records(tmp_path):
    done = run(
        *("-m", tmp_path, "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *(str(RANKS), "ranks"),
    )
    assert done.returncode == 0, done.stderr
    found = read_steps(str(tmp_path / "output/profiler"))
    assert [steps.facts.rank for steps in found] == [0, 1]
    assert [steps.facts.world_size for steps in found] == [2, 2]
    for steps in found:
        assert [row["step"] for row in rows_of(steps)] == list(range(6))


def test_the_loops_of_lightning_and_hugging_face_are_seen(tmp_path):
    done = run(TRAINERS, tmp_path, str(tmp_path))
    assert done.returncode == 0, done.stderr
    loops = [json.loads(line) for line in done.stdout.splitlines() if '"start"' in line]
    (steps,) = read_steps(str(tmp_path / "output/profiler"))
    rows = rows_of(steps)
    assert len(loops) == 2
    for loop in loops:
        own = [r for r in rows if loop["start"] <= r["start"] + r["total"] <= loop["end"]]
        train = [row for row in own if not row["flags"] & EVALUATION]
        # The last step of all ends with the script.
        assert len(train) in (5, 6), loop["name"]
        assert len(own) - len(train) in (2, 3), loop["name"]
        assert all(row["forward"] > 0 and row["backward"] > 0 for row in train)
        if loop["name"] == "hugging_face":
            assert any(row["flags"] & ACCUMULATED for row in train)


def test_saving_and_logging_are_measured_whatever_does_it(tmp_path):
    done = run(LOOPS.with_name("savers.py"), tmp_path, str(tmp_path / "files"))
    assert done.returncode == 0, done.stderr
    truth = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    (steps,) = read_steps(str(tmp_path / "output/profiler"))
    rows = rows_of(steps)
    assert len(truth) == 7
    for row, (part, seconds) in zip(rows, truth, strict=False):
        assert row[part] == pytest.approx(seconds, rel=0.1, abs=0.0005), (part, row)
    # Stoker's own checkpoint, two steps later.
    assert rows[len(truth) + 1]["checkpoint"] > 0


def test_single_steps_are_profiled_and_a_profiler_of_the_script_goes_first(tmp_path):
    config = {
        "ProfilingParameters": {
            "DetailedProfilingConfig": '{"StartStep": 3, "NumSteps": 2}',
            "PythonProfilingConfig": '{"StartTimeInSecSinceEpoch": 1, "Duration": 9e9, '
            '"ProfilerName": "pyinstrument"}',
        }
    }
    write_config(tmp_path, config)
    done = run(RANKS, tmp_path, "windows", "own", STOKER_PROFILE="")
    assert done.returncode == 0, done.stderr
    framework = tmp_path / "output/profiler/framework"
    traces = framework.glob("pytorch/detailed_profiling/*/000000003/*.pt.trace.json.gz")
    assert len(list(traces)) == 1
    assert len(list(framework.glob("pytorch/pyinstrument/*/train-*/python_stats.json"))) == 15
    assert len(list(framework.glob("pevents/*/*_pythontimeline.json"))) == 1
    assert not list(framework.glob("*.tmp"))


def test_a_running_job_can_be_told_to_stop_recording(tmp_path):
    write_config(tmp_path, {"ProfilingParameters": {"LocalPath": str(tmp_path / "elsewhere")}})
    done = run(RANKS, tmp_path, "switched", STOKER_PROFILE="")
    assert done.returncode == 0, done.stderr
    (steps,) = read_steps(str(tmp_path / "elsewhere"))
    assert 4 <= len(rows_of(steps)) <= 6


@pytest.mark.parametrize("place", ["file", "full disk"])
def test_files_that_cannot_be_written_do_not_touch_the_training(tmp_path, place):
    folder = tmp_path / "profiles"
    if place == "file":
        folder.write_text("in the way")
    else:
        (folder / "stoker").mkdir(parents=True)
        (folder / "stoker/steps").symlink_to("/dev/full")
    write_config(tmp_path, {"ProfilingParameters": {"LocalPath": str(folder)}})
    done = run(RANKS, tmp_path, "windows", STOKER_PROFILE="")
    assert done.returncode == 0
    assert 1 <= done.stderr.count("[stoker] warning") <= 3


def write_config(root, config):
    (root / "input/config").mkdir(parents=True)
    (root / "input/config/profilerconfig.json").write_text(json.dumps(config))
