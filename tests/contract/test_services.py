"""The optional config files: they must never disturb a run."""

from __future__ import annotations

import pytest

from stoker.contract.paths import Paths
from stoker.contract.services import name_moved_files, read_services

FILES = ("checkpointconfig", "tensorboardoutputconfig", "debughookconfig", "profilerconfig")


def read(opt_ml, **environ):
    return read_services(Paths(root=str(opt_ml.root)), environ)


def test_nothing_configured_means_the_default_places(opt_ml):
    services = read(opt_ml)
    assert str(services.checkpoint_dir) == f"{opt_ml.root}/checkpoints"
    assert str(services.tensorboard_dir) == f"{opt_ml.root}/output/tensorboard"
    assert services.debug_hook == services.profiler == {}
    assert services.complaints == ()


def test_a_local_path_is_honoured(opt_ml):
    opt_ml.config("checkpointconfig", {"LocalPath": "/data/ckpt", "S3Uri": "s3://b/c"})
    opt_ml.config("tensorboardoutputconfig", {"LocalPath": "/data/tb"})
    services = read(opt_ml)
    assert str(services.checkpoint_dir) == "/data/ckpt"
    assert str(services.tensorboard_dir) == "/data/tb"
    assert services.checkpoint["S3Uri"] == "s3://b/c"


@pytest.mark.parametrize("value", [None, "", 3, [], "a\0b"])
def test_a_local_path_of_no_use_means_the_default(opt_ml, value):
    opt_ml.config("checkpointconfig", {"LocalPath": value})
    assert str(read(opt_ml).checkpoint_dir) == f"{opt_ml.root}/checkpoints"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", ["", "{", "[]", "\x00", '"text"'])
def test_a_broken_file_is_a_complaint_and_no_error(opt_ml, name, content):
    opt_ml.config(name, content)
    (complaint,) = read(opt_ml).complaints
    assert f"{name}.json" in complaint


def test_every_broken_file_is_complained_about(opt_ml):
    for name in FILES:
        opt_ml.config(name, "{")
    assert len(read(opt_ml).complaints) == len(FILES)


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("CHECKPOINT_CONFIG_FILE_PATH", "checkpoint"),
        ("TENSORBOARD_CONFIG_FILE_PATH", "tensorboard"),
        ("SMDEBUG_CONFIG_FILE_PATH", "debug_hook"),
        ("SMPROFILER_CONFIG_PATH", "profiler"),
    ],
)
def test_a_variable_names_another_file(opt_ml, tmp_path, variable, field):
    for name in FILES:
        opt_ml.config(name, {"LocalPath": "/from/the/usual/file"})
    other = tmp_path / "other.json"
    other.write_text('{"LocalPath": "/from/the/other/file"}')
    services = read(opt_ml, **{variable: str(other)})
    assert getattr(services, field) == {"LocalPath": "/from/the/other/file"}


def test_smdebug_is_told_where_the_files_of_a_moved_root_are(opt_ml):
    paths = Paths(root=str(opt_ml.root))
    assert name_moved_files(paths) == {}
    opt_ml.config("debughookconfig", {})
    file = f"{opt_ml.root}/input/config/debughookconfig.json"
    assert name_moved_files(paths) == {"SMDEBUG_CONFIG_FILE_PATH": file}
    assert name_moved_files(Paths(root="/opt/ml")) == {}


@pytest.mark.parametrize("path", ["\ud800", "x" * 300, "/proc/nowhere", "/dev/null/x"])
def test_a_local_path_that_cannot_be_made_does_not_stop_the_job(opt_ml, path):
    opt_ml.script("print('the script has run')")
    opt_ml.config("checkpointconfig", {"LocalPath": path})
    ended = opt_ml.run()
    assert "the script has run" in ended.stdout, ended.stderr
    assert ended.returncode == 0
