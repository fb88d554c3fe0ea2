"""Unchanged scripts with torch's own SummaryWriter."""

from __future__ import annotations

import signal

import pytest

from tests.metrics.conftest import DEADLINE_SECONDS
from tests.metrics.reading import accumulate, event_files, scalars

SCRIPT = """
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter({arguments})
    for step in range(5):
        writer.add_scalar("loss", 1 / (step + 1), step)
"""


def test_the_default_folder_is_the_one_that_is_synced(scripts):
    scripts.run(SCRIPT.format(arguments=""))
    assert [step for step, _ in scalars(scripts.tensorboard, "loss")] == list(range(5))
    assert not (scripts.folder / "runs").exists()


def test_the_folder_of_the_config_file_counts(scripts):
    config = scripts.root / "input/config/tensorboardoutputconfig.json"
    config.parent.mkdir(parents=True)
    config.write_text(f'{{"LocalPath": "{scripts.folder}/elsewhere"}}')
    scripts.run(SCRIPT.format(arguments=""))
    assert len(scalars(scripts.folder / "elsewhere", "loss")) == 5


@pytest.mark.parametrize("arguments", ['"mine"', 'log_dir="mine"'])
def test_a_folder_that_is_named_is_used(scripts, arguments):
    scripts.run(SCRIPT.format(arguments=arguments))
    assert len(scalars(scripts.folder / "mine", "loss")) == 5


def test_a_comment_makes_a_run_of_its_own(scripts):
    scripts.run(SCRIPT.format(arguments='comment=" lr/0.1"'))
    assert len(scalars(scripts.tensorboard / "lr_0.1", "loss")) == 5


def test_ranks_do_not_write_into_one_run(scripts):
    for rank in "01":
        scripts.run(SCRIPT.format(arguments=""), RANK=rank)
    assert len(event_files(scripts.tensorboard)) == 1
    assert len(scalars(scripts.tensorboard / "rank-1", "loss")) == 5


def test_it_is_flushed_at_sigterm(scripts):
    process = scripts.start(
        SCRIPT.format(arguments="")
        + """
    import time
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""
    )
    assert process.stdout.readline() == "ready\n", process.communicate()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == -signal.SIGTERM, err
    assert len(scalars(scripts.tensorboard, "loss")) == 5


def test_it_shares_the_file_of_the_log(scripts):
    scripts.run(
        SCRIPT.format(arguments="")
        + """
    import stoker
    stoker.job().log(9, accuracy=0.5)
    writer.close()
"""
    )
    assert len(event_files(scripts.tensorboard)) == 1
    assert set(accumulate(scripts.tensorboard).Tags()["scalars"]) == {"loss", "accuracy"}


def test_every_kind_of_event_goes_through(scripts):
    scripts.run("""
        import torch, warnings
        from torch.utils.tensorboard import SummaryWriter
        with SummaryWriter(purge_step=2) as writer:
            writer.add_histogram("h", torch.randn(10), 1)
            writer.add_image("i", torch.rand(3, 4, 4), 1)
            writer.add_text("t", "words", 1)
            writer.add_scalars("s", {"a": 1.0}, 1)
            writer.add_hparams({"lr": 0.1}, {"m": 1.0}, run_name="trial")
    """)
    found = accumulate(scripts.tensorboard).Tags()
    assert (found["histograms"], found["images"]) == (["h"], ["i"])
    assert scalars(scripts.tensorboard / "s_a", "s") == [(1, 1.0)]
    assert scalars(scripts.tensorboard / "trial", "m") == [(0, 1.0)]


def test_a_folder_that_cannot_be_written_does_not_end_training(scripts):
    (scripts.folder / "file").touch()
    ended = scripts.run(SCRIPT.format(arguments='"file/run"') + "    print('trained')\n")
    assert ended.stdout == "trained\n"
    assert ended.stderr.count("cannot be written") == 1


def test_the_module_is_as_torch_made_it(scripts):
    scripts.run("""
        import inspect, pickle, sys
        from torch.utils.tensorboard import SummaryWriter, writer
        assert "class SummaryWriter" in inspect.getsource(writer)
        assert SummaryWriter.__init__.__doc__
        assert pickle.loads(pickle.dumps(SummaryWriter)) is SummaryWriter
        assert not [f for f in sys.meta_path if "stoker" in getattr(f, "__module__", "")]
    """)


def test_without_tensorboard_the_import_fails_as_ever(scripts):
    (scripts.folder / "tensorboard").mkdir()
    (scripts.folder / "tensorboard/__init__.py").write_text("raise ImportError('no tensorboard')")
    process = scripts.start("import torch.utils.tensorboard")
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert "no tensorboard" in err


def test_a_script_that_does_not_import_it_pays_nothing(scripts):
    scripts.run("""
        import sys, json, decimal
        assert not [name for name in sys.modules if name.startswith("stoker.metrics")]
    """)
