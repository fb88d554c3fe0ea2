"""Training goes on: one clear warning, and nothing lost that could be kept."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time

import pytest

from stoker.metrics.event_file import EventFile, EventStream
from stoker.metrics.log import open_log
from stoker.metrics.outlet import Outlet
from stoker.metrics.sinks import LocalFile
from tests.metrics.reading import scalars


def warnings_in(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path, caplog):
    (tmp_path / "file").touch()
    file = EventFile(tmp_path / "file/run")
    for step in range(3):
        file.stream.add_scalar((1.0, step, "t", 1.0))
        file.flush()
    file.close()
    (warning,) = warnings_in(caplog)
    assert "file/run cannot be written: Not a directory; training continues" in warning
    assert "fix:" in warning


def test_what_was_logged_before_the_folder_could_be_made_is_kept(tmp_path, caplog):
    blocked = tmp_path / "run"
    blocked.touch()
    file = EventFile(blocked)
    file.stream.add_scalar((1.0, 1, "t", 1.0))
    file.flush()
    blocked.unlink()
    file.stream.add_scalar((1.0, 2, "t", 2.0))
    file.close()
    assert scalars(blocked, "t") == [(1, 1.0), (2, 2.0)]
    assert len(warnings_in(caplog)) == 1


@pytest.fixture
def small_files():
    """No file of this process may grow beyond 4 KiB: the kernel's own `no room`."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Without a handler the signal kills; Python ignores it from its start.
    assert signal.getsignal(signal.SIGXFSZ) in (signal.SIG_IGN, signal.SIG_DFL)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_breaks_no_record_and_loses_nothing_that_fits_later(
    tmp_path, caplog, small_files
):
    stream = EventStream(str(tmp_path))
    for step in range(500):
        stream.add_scalar((1.0, step, "t", float(step)))
    stream.flush()
    stream.add_scalar((1.0, 500, "t", 500.0))
    stream.flush()
    assert os.path.getsize(next(tmp_path.iterdir())) <= 4096
    assert len(warnings_in(caplog)) == 1
    small_files()
    stream.close()
    assert [step for step, _ in scalars(tmp_path, "t")] == list(range(501))


def test_what_is_kept_for_later_is_bounded_and_the_loss_is_told(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("stoker.metrics.outlet._MOST_KEPT_BYTES", 100)
    (tmp_path / "file").touch()
    outlet = Outlet(lambda: LocalFile(str(tmp_path / "file/x")), name="x")
    for _ in range(10):
        outlet.put(bytes(60), urgent=True)
    assert len(outlet._kept) == 60
    first, second = warnings_in(caplog)
    assert "cannot be written" in first
    assert "is lost" in second


def test_a_failing_sink_is_not_tried_all_the_time(caplog, monkeypatch):
    monkeypatch.setattr("stoker.metrics.outlet._RETRY_SECONDS", 3600)
    tries = []

    class Refusing(LocalFile):
        def write(self, records: bytes) -> None:
            tries.append(records)
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    outlet = Outlet(lambda: Refusing("x"), name="x")
    for _ in range(50):
        assert outlet.put(b"record", urgent=False)
    assert len(tries) == 1
    assert len(warnings_in(caplog)) == 1


def test_metrics_go_everywhere_else_when_one_place_fails(job, capfd, caplog):
    job.tensorboard_dir.parent.mkdir(parents=True)
    job.tensorboard_dir.touch()
    job.log(1, loss=0.5)
    open_log(job).flush()
    assert "loss=0.5" in capfd.readouterr().out
    assert '"loss": 0.5' in job.metrics_file.read_text()
    assert len(warnings_in(caplog)) == 1


def test_a_thread_that_does_not_keep_up_costs_points_not_time(tmp_path, caplog, monkeypatch):
    from stoker.metrics.backlog import Backlog

    monkeypatch.setattr("stoker.metrics.backlog._MOST_ITEMS", 10)
    is_over = []

    def work(items: list[int], urgent: bool) -> bool:
        while not is_over:
            time.sleep(0.01)
        return False

    backlog = Backlog(work, name="slow", patience_seconds=0.05)
    for number in range(100):
        backlog.add(number)
    is_over.append(True)
    backlog.close(60)
    assert warnings_in(caplog) == ["slow does not keep up: some of what is logged now is lost"]


def test_a_mistake_in_one_entry_does_not_end_the_thread(tmp_path, caplog):
    class Broken:
        def __float__(self) -> float:
            raise RuntimeError("the device is gone")

    file = EventFile(tmp_path)
    file.stream.add_scalar((1.0, 1, "t", Broken()))
    file.flush()
    file.stream.add_scalar((1.0, 2, "t", 2.0))
    file.close()
    assert scalars(tmp_path, "t") == [(2, 2.0)]
    assert "the device is gone" in caplog.text
