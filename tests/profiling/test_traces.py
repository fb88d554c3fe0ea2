"""Traces of a real training by the real profiler."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import stoker
from stoker.profiling import traces
from stoker.profiling.traces import Traces, make_traces
from stoker.profiling.window import Window

from .training import Training, kinds_of, read_trace, steps_of

NAME = re.compile(r"algo-1_0\.\d+\.pt\.trace\.json\.gz")  # as the plug-in wants it


@pytest.fixture
def job(opt_ml):
    return stoker.job(root=opt_ml.root, environ={})


@pytest.fixture(autouse=True)
def _first_profile(monkeypatch):
    monkeypatch.setattr(traces, "_PROFILES", iter(range(1, 100)))


def train(profile: Traces, steps: int) -> None:
    training = Training()
    with profile:
        for _ in range(steps):
            training()
            profile.step()


def warnings_in(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_each_window_is_a_trace_in_a_folder_of_its_own(job, caplog):
    profile = job.profile(wait=1, warmup=1, active=2, repeat=2)
    train(profile, 12)
    folders = sorted(os.listdir(job.tensorboard_dir / "profile"))
    assert folders == ["step-000002", "step-000006"]
    assert [Path(file).parent.name for file in profile.files] == folders
    assert all(NAME.fullmatch(Path(file).name) for file in profile.files)
    assert [steps_of(file) for file in profile.files] == [[2, 3], [6, 7]]
    assert warnings_in(caplog) == []


def test_a_trace_has_shapes_memory_and_stacks(job):
    profile = job.profile(wait=0, warmup=1, active=1)
    train(profile, 3)
    (file,) = profile.files
    assert {"cpu_op", "python_function", "cpu_instant_event"} <= kinds_of(file)
    arguments = [event.get("args", {}) for event in read_trace(file)["traceEvents"]]
    assert any([2, 4] in a.get("Input Dims", []) for a in arguments)


def test_a_second_profile_is_kept_apart_and_may_go_to_the_output(job):
    train(job.profile(wait=0, warmup=1, active=1), 2)
    train(job.profile(wait=0, warmup=1, active=1, to="output"), 2)
    assert os.listdir(job.tensorboard_dir / "profile") == ["step-000001"]
    assert os.listdir(job.output_data_dir / "profile-2") == ["step-000001"]


def test_a_place_that_is_none_is_refused(job):
    with pytest.raises(ValueError, match=r"one of \['output', 'tensorboard'\], but got 'moon'"):
        job.profile(to="moon")


def test_a_loop_that_ends_early_leaves_what_was_recorded(job):
    profile = job.profile(wait=0, warmup=1, active=40)
    train(profile, 3)
    assert steps_of(profile.files[0])[:2] == [1, 2]


def test_an_error_of_the_training_goes_through_and_the_trace_is_kept(job):
    profile = job.profile(wait=0, warmup=1, active=40)

    def fail():
        with profile:
            profile.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(profile.files) == 1


def test_a_folder_that_cannot_be_written_is_one_warning(job, caplog):
    Path(job.tensorboard_dir).parent.mkdir(exist_ok=True)
    Path(job.tensorboard_dir).write_text("no folder")
    profile = job.profile(wait=0, warmup=1, active=1, repeat=3)
    train(profile, 8)
    (warning,) = warnings_in(caplog)
    assert warning.startswith("no more profiler traces, training continues: ")
    assert profile.is_over
    train(job.profile(wait=0, warmup=1, active=1, to="output"), 2)  # nothing of it is left over
    assert len(warnings_in(caplog)) == 1


def test_a_large_trace_loses_its_stacks_first(job, caplog):
    whole = job.profile(wait=0, warmup=1, active=1)
    train(whole, 3)
    size = len(str(read_trace(whole.files[0])))
    small = make_traces(job, Window(wait=0, active=1), to="tensorboard")
    small._most_bytes = size // 2
    train(small, 3)
    assert "python_function" not in kinds_of(small.files[0])
    assert steps_of(small.files[0]) == [1]
    assert warnings_in(caplog) == [
        "a trace is large: written without stacks; record fewer steps for them"
    ]


def test_a_trace_too_large_without_stacks_is_not_kept(job, caplog):
    profile = make_traces(job, Window(wait=0, active=1), to="tensorboard")
    profile._most_bytes = 1000
    train(profile, 3)
    assert profile.files == []
    assert os.listdir(job.tensorboard_dir / "profile/step-000001") == []
    assert "larger than 1000 bytes even without stacks" in warnings_in(caplog)[0]


def test_the_scripts_own_profiler_comes_first(job, caplog):
    with torch.profiler.profile() as own:
        train(job.profile(wait=0, warmup=1, active=1), 2)
    assert len(own.events()) > 0
    assert "the script profiles by itself: no traces" in warnings_in(caplog)[0]


@pytest.mark.parametrize("when", ["warming up", "recording"])
def test_a_profiler_that_starts_within_a_window_gets_the_recorder(job, caplog, when):
    profile = job.profile(wait=0, warmup=2 if when == "warming up" else 1, active=5)
    with profile:
        profile.step()
        Training()()
        with torch.profiler.profile() as own:
            Training()()
        profile.step()
    assert len(own.events()) > 0
    assert len(profile.files) == (0 if when == "warming up" else 1)
    assert "the script profiles by itself" in warnings_in(caplog)[0]
    assert torch.autograd.profiler.profile._prepare_trace.__name__ == "_prepare_trace"


def test_one_that_warms_up_is_noticed_too(job, caplog):
    own = torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)
    )
    with own:
        train(job.profile(wait=0, warmup=1, active=1), 2)
        own.step()
        own.step()
    assert len(own.events()) > 0
    assert "the script profiles by itself: no traces" in warnings_in(caplog)[0]


@pytest.mark.parametrize("variable", ["RANK", "OMPI_COMM_WORLD_RANK"])
def test_the_first_ranks_are_traced_each_under_its_name(opt_ml, variable):
    for rank in (3, 8):
        job = stoker.job(root=opt_ml.root, environ={variable: str(rank)})
        train(job.profile(wait=0, warmup=1, active=1), 2)
    (file,) = (opt_ml.root / "output/tensorboard").rglob("*.gz")
    assert file.name.startswith("algo-1_3.")


def test_an_unchanged_script_is_traced_on_request(opt_ml):
    """Two optimizers, and an end within the window: both common, both once wrong."""
    script = """
        import stoker.worker.autoload, sys; stoker.worker.autoload.wake()
        assert "torch" not in sys.modules and "stoker.profiling" not in sys.modules
        import torch
        models = [torch.nn.Linear(2, 2) for _ in range(2)]
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
        for step in range(5):
            for model, optimizer in zip(models, optimizers):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        print("trained")
    """
    environ = {**os.environ, "STOKER_ROOT": str(opt_ml.root), "STOKER_PROFILE": "steps=3-30"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout == "trained\n", done.stderr
    (file,) = (opt_ml.root / "output/tensorboard").rglob("*.gz")
    assert file.parent.name == "step-000003"
    assert steps_of(file)[:2] == [3, 4]
