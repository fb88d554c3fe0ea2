"""SummaryWriter's whole API over our event file."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

from stoker.metrics.writer import Writer
from stoker.worker.script_job import read_script_job
from tests.metrics.reading import accumulate, event_files, events_of, scalars


@pytest.fixture
def writer(job):
    writer = job.tensorboard()
    yield writer
    writer.close()


def tags(writer):
    writer.flush()
    return accumulate(writer.log_dir).Tags()


def test_it_writes_where_sagemaker_syncs_from(tmp_path, job, writer):
    assert writer.log_dir == str(job.tensorboard_dir)
    assert writer.get_logdir() == str(tmp_path / "ml/output/tensorboard")


def test_it_has_the_arguments_of_the_stock_one():
    for name, method in inspect.getmembers(SummaryWriter, inspect.isfunction):
        if not name.startswith("_"):
            ours = inspect.signature(getattr(Writer, name)).parameters
            assert list(ours) == list(inspect.signature(method).parameters), name


@pytest.mark.parametrize(
    "value",
    [
        2,
        2.0,
        True,
        np.float32(2),
        np.int64(2),
        np.array([2.0]),
        torch.tensor(2),
        torch.tensor([[2.0]]),
    ],
    ids=repr,
)
def test_a_scalar_may_come_in_any_box(writer, value):
    writer.add_scalar("t", value, 7)
    writer.flush()
    assert scalars(writer.log_dir, "t") == [(7, float(np.asarray(value).item()))]


def test_a_scalar_is_what_it_was_when_it_was_added(writer):
    value = torch.tensor(1.0, requires_grad=True)
    writer.add_scalar("t", value, 1)
    with torch.no_grad():
        value.add_(1)
    writer.flush()
    assert scalars(writer.log_dir, "t") == [(1, 1.0)]


@pytest.mark.parametrize("step", [np.int64(3), torch.tensor(3), 3.0])
def test_a_step_may_come_in_any_box(writer, step):
    writer.add_scalar("t", 1.0, step)
    writer.add_histogram("h", torch.ones(3), step)
    writer.flush()
    assert scalars(writer.log_dir, "t") == [(3, 1.0)]


@pytest.mark.parametrize("value", [torch.ones(2), np.ones(3), None, "words", torch.ones(0)])
def test_what_is_not_one_number_is_refused_at_once(writer, value):
    with pytest.raises(TypeError, match="not one number"):
        writer.add_scalar("t", value, 1)


def test_the_wall_time_can_be_given(writer):
    writer.add_scalar("t", 1.0, 1, walltime=123.5)
    writer.flush()
    assert accumulate(writer.log_dir).Scalars("t")[0].wall_time == 123.5


def test_the_new_style_goes_the_stock_way(writer):
    writer.add_scalar("t", 0.1, 1, new_style=True, double_precision=True)
    assert "t" in tags(writer)["tensors"]


def test_several_scalars_make_a_run_each(writer):
    writer.add_scalars("a/b", {"x": 1.0, "y": torch.tensor(2.0)}, 5)
    writer.close()
    assert scalars(f"{writer.log_dir}/a_b_x", "a/b") == [(5, 1.0)]
    assert scalars(f"{writer.log_dir}/a_b_y", "a/b") == [(5, 2.0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_a_histogram_of_any_type_is_read_back(writer, dtype):
    writer.add_histogram("h", torch.arange(-5, 5).to(dtype), 2)
    writer.flush()
    (event,) = accumulate(writer.log_dir).Histograms("h")
    value = event.histogram_value
    assert (event.step, value.num, value.min, value.max) == (2, 10, -5, 4)
    assert sum(value.bucket) == 10


def test_a_histogram_equals_the_stock_one(tmp_path, writer):
    values = torch.randn(20_000, generator=torch.Generator().manual_seed(0))
    stock = SummaryWriter(str(tmp_path / "stock"))
    for each in (writer, stock):
        each.add_histogram("h", values, 1, walltime=1.0)
        each.close()
    ours, theirs = (
        next(e for e in events_of(event_files(folder)[0]) if e.HasField("summary"))
        for folder in (writer.log_dir, tmp_path / "stock")
    )
    assert ours.summary.value[0].histo.bucket == theirs.summary.value[0].histo.bucket
    assert ours.summary.value[0].histo.bucket_limit == theirs.summary.value[0].histo.bucket_limit


def test_bins_of_other_kinds_go_the_stock_way(writer):
    writer.add_histogram("auto", torch.randn(100), 1, bins="auto")
    writer.add_histogram("some", torch.randn(100), 1, bins=[-1.0, 0.0, 1.0])
    writer.add_histogram("few", torch.randn(100), 1, max_bins=10)
    writer.add_histogram_raw("raw", 0, 1, 2, 1, 1, [0.5, 1.0], [1, 1], 1)
    assert set(tags(writer)["histograms"]) == {"auto", "some", "few", "raw"}


def test_all_other_kinds_are_in_the_same_file(writer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own tracing is deprecated by torch
        writer.add_graph(torch.nn.Linear(2, 2), torch.zeros(1, 2))
    writer.add_image("image", torch.rand(3, 8, 8), 1)
    writer.add_images("images", torch.rand(2, 3, 8, 8), 1)
    writer.add_text("text", "words", 1)
    writer.add_audio("audio", torch.zeros(1, 100), 1)
    writer.add_pr_curve("pr", torch.tensor([0, 1]), torch.tensor([0.2, 0.8]), 1)
    writer.add_mesh("mesh", torch.rand(1, 4, 3), global_step=1)
    writer.add_tensor("tensor", torch.ones(3), 1)
    writer.add_custom_scalars({"a": {"b": ["Multiline", ["t"]]}})
    writer.add_embedding(torch.rand(4, 3), metadata=list("abcd"), global_step=1)
    writer.add_scalar("scalar", 1.0, 1)
    found = tags(writer)
    assert len(event_files(writer.log_dir)) == 1
    assert found["graph"]
    assert "audio" in found["audio"]
    assert {"image", "images"} <= set(found["images"])
    assert {"text/text_summary", "pr", "tensor", "mesh_VERTEX"} <= set(found["tensors"])


def test_hyperparameters_are_a_run_of_their_own(writer):
    writer.add_hparams({"lr": 0.1, "name": "x"}, {"best": 0.5}, run_name="trial", global_step=4)
    assert scalars(f"{writer.log_dir}/trial", "best") == [(4, 0.5)]


def test_it_can_be_used_after_a_close(writer):
    writer.add_scalar("t", 1.0, 1)
    writer.close()
    writer.close()
    writer.add_scalar("t", 2.0, 2)
    writer.close()
    assert scalars(writer.log_dir, "t") == [(1, 1.0), (2, 2.0)]


def test_steps_may_go_backwards(writer):
    for step in (5, 3, 4, -1):
        writer.add_scalar("t", 1.0, step)
    writer.flush()
    assert [step for step, _ in scalars(writer.log_dir, "t")] == [5, 3, 4, -1]


def test_each_rank_has_a_run_of_its_own(tmp_path):
    for rank in range(3):
        job = read_script_job(root=tmp_path, environ={"RANK": str(rank)})
        writer = job.tensorboard()
        writer.add_scalar("t", rank, 1)
        writer.close()
    root = tmp_path / "output/tensorboard"
    assert scalars(root, "t") == [(1, 0.0)]
    assert scalars(root / "rank-2", "t") == [(1, 2.0)]


ATTEMPT = """
    import stoker
    writer = stoker.job().tensorboard()
    writer.add_scalar("parameters", 10, 0)
    for step in range({first}, {last}):
        writer.add_scalar("loss", {value}, step)
"""


def test_a_resumed_job_continues_where_its_checkpoint_was(scripts):
    scripts.run(ATTEMPT.format(first=0, last=8, value=1.0))
    scripts.run(ATTEMPT.format(first=5, last=10, value=2.0))
    expected = [(step, 1.0 if step < 5 else 2.0) for step in range(10)]
    assert scalars(scripts.tensorboard, "loss") == expected


def test_after_a_lost_machine_checkpoints_say_that_a_job_is_resumed(tmp_path, job):
    job.checkpoint_dir.mkdir(parents=True)
    (job.checkpoint_dir / "step-5").touch()
    writer = job.tensorboard()
    writer.add_scalar("loss", 1.0, 5)
    writer.close()
    kinds = [event.WhichOneof("what") for event in events_of(event_files(writer.log_dir)[0])]
    assert kinds == ["file_version", "session_log", "summary"]


@pytest.mark.parametrize(("purge_step", "step"), [(3, [3]), (0, [0]), (None, [])])
def test_the_purged_step_can_be_said(job, purge_step, step):
    writer = job.tensorboard(purge_step=purge_step)
    writer.add_scalar("loss", 1.0, 5)
    writer.close()
    events = events_of(event_files(writer.log_dir)[0])
    assert [e.step for e in events if e.HasField("session_log")] == step
