"""One call, everywhere."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from stoker.metrics.jsonl import read_metrics
from stoker.metrics.log import open_log
from stoker.worker.script_job import read_script_job
from tests.metrics.reading import accumulate, event_files, scalars


def flush(job):
    open_log(job).flush()


def test_a_metric_goes_to_tensorboard_the_file_and_stdout(job, capfd):
    job.log(12, loss=0.5, accuracy=0.25)
    flush(job)
    assert scalars(job.tensorboard_dir, "loss") == [(12, 0.5)]
    (entry,) = map(json.loads, job.metrics_file.read_text().splitlines())
    assert entry["step"] == 12
    assert entry["metrics"] == {"loss": 0.5, "accuracy": 0.25}
    assert capfd.readouterr().out == "[metric] step=12 loss=0.5 accuracy=0.25\n"


def test_names_that_are_not_python_names_come_in_a_dictionary(job):
    job.log(1, {"train/loss": 1.0, "step": 2.0, "all_ranks": 3.0}, lr=0.1)
    flush(job)
    expected = {"train/loss", "step", "all_ranks", "lr"}
    assert set(accumulate(job.tensorboard_dir).Tags()["scalars"]) == expected


@pytest.mark.parametrize(
    "value", [3, 3.0, np.float64(3), np.int32(3), torch.tensor(3.0), torch.tensor([3])], ids=repr
)
def test_a_number_may_come_in_any_box(job, value):
    job.log(np.int64(4), m=value)
    flush(job)
    assert list(read_metrics(job.metrics_file)) == [(4, {"m": 3.0})]


def test_a_tensor_is_what_it_was_when_it_was_logged(job):
    loss = torch.tensor(1.0)
    job.log(1, loss=loss)
    loss.zero_()
    flush(job)
    assert list(read_metrics(job.metrics_file)) == [(1, {"loss": 1.0})]


def test_what_is_not_a_number_is_json_anyway(job, capfd):
    job.log(2**62, a=math.nan, b=10**400, c=-math.inf)
    flush(job)
    entry = json.loads(job.metrics_file.read_text(), parse_constant=pytest.fail)
    assert entry["metrics"] == {"a": "nan", "b": "inf", "c": "-inf"}
    ((step, metrics),) = read_metrics(job.metrics_file)
    assert step == 2**62
    assert str(metrics) == "{'a': nan, 'b': inf, 'c': -inf}"
    assert capfd.readouterr().out == f"[metric] step={2**62} a=nan b=inf c=-inf\n"


@pytest.mark.parametrize("value", [torch.ones(3), "words", None, [1.0]])
def test_a_mistake_is_told_where_it_is_made(job, value):
    with pytest.raises(TypeError, match="not one number"):
        job.log(1, m=value)
    with pytest.raises(TypeError, match="is not a step"):
        job.log(None, m=1.0)


def test_only_the_first_rank_logs_unless_all_are_asked(scripts):
    body = """
        import stoker
        job = stoker.job()
        job.log(1, mine=1.0)
        job.log(2, {"everybody": 2.0}, all_ranks=True)
    """
    first, second = (scripts.run(body, RANK=rank).stdout for rank in "01")
    assert first == "[metric] step=1 mine=1.0\n[metric] step=2 everybody=2.0\n"
    assert second == ""
    assert accumulate(scripts.tensorboard).Tags()["scalars"] == ["mine", "everybody"]
    assert accumulate(scripts.tensorboard / "rank-1").Tags()["scalars"] == ["everybody"]
    files = sorted(file.name for file in (scripts.root / "output/data/stoker").iterdir())
    assert files == ["metrics.jsonl", "metrics.rank-1.jsonl"]


def test_several_plain_hosts_have_one_reporter(opt_ml, capfd):
    opt_ml.config("resourceconfig", {"current_host": "b", "hosts": ["a", "b"]})
    job = read_script_job(root=opt_ml.root, environ={})
    job.log(1, m=1.0)
    job.log(2, {"m": 2.0}, all_ranks=True)
    flush(job)
    assert capfd.readouterr().out == ""
    assert job.metrics_file.name == "metrics.b.jsonl"
    assert list(read_metrics(job.metrics_file)) == [(2, {"m": 2.0})]
    assert scalars(job.tensorboard_dir / "b", "m") == [(2, 2.0)]


def test_the_log_and_the_writer_share_one_file(job):
    writer = job.tensorboard()
    writer.add_scalar("a", 1.0, 1)
    job.log(2, b=2.0)
    flush(job)
    writer.close()
    assert len(event_files(job.tensorboard_dir)) == 1
    assert set(accumulate(job.tensorboard_dir).Tags()["scalars"]) == {"a", "b"}


def test_the_file_continues_after_an_attempt_that_was_killed(job):
    job.metrics_file.parent.mkdir(parents=True)
    job.metrics_file.write_text('{"step": 1, "metrics": {"m": 1}}\n{"step": 2, "met')
    job.log(3, m=3.0)
    flush(job)
    assert [step for step, _ in read_metrics(job.metrics_file)] == [1, 3]


def test_neither_torch_nor_tensorboard_is_needed(scripts):
    scripts.run("""
        import sys
        import stoker
        stoker.job().log(1, loss=0.5)
        from stoker.metrics.log import open_log
        open_log(stoker.job()).flush()
        assert not {"torch", "tensorboard", "google.protobuf", "boto3"} & set(sys.modules)
    """)
    assert scalars(scripts.tensorboard, "loss") == [(1, 0.5)]
