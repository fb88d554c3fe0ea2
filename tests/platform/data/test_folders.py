"""Channels without copies: what a job sees of a folder, and what it can never change."""

from __future__ import annotations

import os
import shutil
import socket
import threading

import pytest

from stoker.platform.data import channels
from stoker.platform.data.channels import find_changed_channels, prepare_channels
from stoker.platform.data.failures import DownloadFailed
from stoker.platform.data.folders import read_folder
from stoker.platform.data.storage import Storage
from stoker.platform.engines.engine import Launch
from stoker.platform.engines.process import ProcessEngine
from stoker.platform.model.root import open_root, read_credentials
from tests.permissions import modes_count
from tests.platform.data.s3_root import make_request, read_tree, running_world, s3_channel, uri

DEADLINE_SECONDS = 120


class Job:
    """One job's input, and its script as a process with the same mounts."""

    def __init__(self, tmp_path) -> None:
        self.root = open_root(tmp_path / "root")
        self.engine = ProcessEngine(self.root, reason="a test", environment=dict(os.environ))
        # No server is there: a folder needs none, and an object's file is read.
        self.storage = Storage(
            "http://127.0.0.1:1", read_credentials(self.root), folder=self.root.s3_dir
        )
        self.said: list[str] = []

    def prepare(self, *sources, host="algo-1", hosts=1, refused=""):
        request = make_request(*sources, hosts=hosts)
        self.host_dir = self.root.host_dir("job", host)
        self.host_dir.mkdir(parents=True, exist_ok=True)
        (self.host_dir / "input/config").mkdir(parents=True, exist_ok=True)
        self.mounts = prepare_channels(
            request,
            host,
            self.storage,
            self.host_dir,
            cancelled=threading.Event(),
            layers_refused=refused,
            say=self.said.append,
        )
        return request

    def run(self, shell: str, host="algo-1") -> str:
        """What a shell of the job prints; it stands in the channel `train`."""
        if self.engine.layers_refused:
            pytest.skip(self.engine.layers_refused)
        name = f"job-{host}-1"
        self.engine.remove(name)
        self.engine.start(
            Launch(
                name=name,
                job="job",
                host=host,
                attempt=1,
                image="none",
                entrypoint=("/bin/sh", "-c"),
                arguments=(f"cd /opt/ml/input/data/train && {shell}",),
                environment={},
                mounts=self.mounts,
                host_dir=self.host_dir,
            )
        )
        assert self.engine.wait(name, DEADLINE_SECONDS) is not None
        log = b"".join(self.engine.read_log(name, 0)).decode()
        self.engine.remove(name)
        return log


@pytest.fixture
def job(tmp_path, monkeypatch):
    # Else only channels of several megabytes would have layers.
    monkeypatch.setattr(channels, "SMALL_BYTES", 0)
    return Job(tmp_path)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "user's data, 1:2"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (folder / name).write_text(name)
    return folder


def channel(folder, **more):
    return s3_channel("train", folder.as_uri(), **more)


def state(folder):
    """Everything that a job must not change: contents, modes, times and link counts."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        found[path] = (
            *(status.st_mode, status.st_nlink, status.st_mtime_ns, status.st_ctime_ns),
            path.read_bytes() if path.is_file() else None,
        )
    return found


HOSTILE = (
    "echo changed >> a.txt; rm -r sub; mv b.txt moved; chmod 777 moved; mkdir new; "
    "echo x > new/y; ln moved hard; truncate -s 0 moved; cat a.txt; ls"
)


def test_a_job_may_do_anything_to_its_channel_and_the_folder_stays_as_it_was(job, folder):
    before = state(folder)
    job.prepare(channel(folder))
    assert read_tree(job.host_dir / "input/data") == {
        "train-manifest": b"a.txt\nb.txt\nsub/c.txt\n"
    }
    assert job.run(HOSTILE) == "a.txtchanged\na.txt\nhard\nmoved\nnew\n"
    assert state(folder) == before


def test_a_second_attempt_sees_nothing_of_the_first(job, folder):
    job.prepare(channel(folder))
    job.run(HOSTILE)
    job.prepare(channel(folder))
    assert job.run("find . -type f | sort | xargs cat") == "a.txtb.txtsub/c.txt"


def test_fast_file_shows_the_folder_and_cannot_be_written(job, folder):
    os.mkfifo(folder / "pipe")
    job.prepare(channel(folder, mode="FastFile"))
    said = job.run("cat a.txt; ls; echo x > a.txt || echo refused; rm b.txt || echo refused")
    assert said.count("refused") == 2
    assert "pipe" not in said
    assert (folder / "a.txt").read_text() == "a.txt"


def test_what_no_job_can_use_is_left_out_and_links_still_lead_to_their_files(
    job, folder, tmp_path, monkeypatch
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "far.txt").write_text("far")
    os.mkfifo(folder / "sub/pipe")
    server = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(folder)  # the name of a socket holds 108 bytes
    server.bind("socket")
    server.close()
    for name, target in {
        "near": "sub/c.txt",
        "absolute": folder / "a.txt",
        "around": "../user's data, 1:2/b.txt",
        "out": outside / "far.txt",
        "out-folder": outside,
        "dangling": "nowhere",
        "circle": "circle",
    }.items():
        (folder / name).symlink_to(target)
    before = state(folder)
    job.prepare(channel(folder))
    said = job.run("ls; ls sub; cat near absolute around out; echo new > out; cat out")
    assert said == (
        "a.txt\nabsolute\naround\nb.txt\nnear\nout\nsub\nc.txt\nsub/c.txta.txtb.txtfarnew\n"
    )
    assert state(folder) == before
    assert (outside / "far.txt").read_text() == "far"
    [line] = job.said
    assert "left out" in line
    assert "2 more" in line


def test_names_that_s3_cannot_hold_arrive(job, folder):
    os.close(os.open(os.fsencode(folder) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))
    (folder / ("n" * 255)).touch()
    (folder / "new\nline").touch()
    job.prepare(channel(folder))
    assert job.run("ls | wc -c") == f"{len(b'a.txt b.txt sub new line ff ') + 255 + 1}\n"
    job.prepare(channel(folder), refused="a test")
    assert len(os.listdir(os.fsencode(job.host_dir / "input/data/train"))) == 6


def test_shards_of_a_folder_cover_it_once(job, folder):
    seen = []
    for host in ("algo-1", "algo-2"):
        source = channel(folder, S3DataDistributionType="ShardedByS3Key")
        job.prepare(source, host=host, hosts=2)
        seen.append(job.run("find . -type f", host=host).split())
    assert sorted(seen[0] + seen[1]) == ["./a.txt", "./b.txt", "./sub/c.txt"]
    assert min(map(len, seen)) == 1


def test_without_layers_the_folder_is_copied_and_one_line_says_why(job, folder, tmp_path):
    (folder / "link").symlink_to(folder / "a.txt")
    before = state(folder)
    job.prepare(channel(folder), refused="no overlay on this file system")
    assert job.mounts == ()
    copy = job.host_dir / "input/data/train"
    (copy / "link").write_text("written by the job")
    assert state(folder) == before
    assert (copy / "sub/c.txt").read_text() == "sub/c.txt"
    [line] = job.said
    assert line == "channel 'train' (19 B) is copied: no overlay on this file system"


def test_data_that_changes_while_the_job_reads_it_is_named(job, folder):
    request = job.prepare(channel(folder))
    assert list(find_changed_channels(request, job.host_dir)) == []
    (folder / "b.txt").write_text("new text")
    (folder / "later").touch()
    [line] = find_changed_channels(request, job.host_dir)
    assert line.startswith(f"channel 'train': b.txt, later of {folder} changed while the job")


def test_a_file_that_vanishes_while_it_is_copied_is_named(job, folder, monkeypatch):
    content = read_folder(folder)
    (folder / "b.txt").unlink()
    monkeypatch.setattr(channels, "read_folder", lambda _: content)
    with pytest.raises(DownloadFailed, match=r"b.txt vanished while it was read"):
        job.prepare(channel(folder), refused="a test")


@pytest.mark.parametrize("refused", ["", "a test"])
def test_a_folder_that_vanished_before_the_job_began_is_not_an_empty_channel(job, folder, refused):
    source = channel(folder)
    shutil.rmtree(folder)
    with pytest.raises(DownloadFailed, match="is no longer there"):
        job.prepare(source, refused=refused)


def test_a_folder_that_vanishes_while_the_job_reads_it_is_named(job, folder):
    request = job.prepare(channel(folder))
    shutil.rmtree(folder)
    [line] = find_changed_channels(request, job.host_dir)
    assert line.startswith(f"channel 'train': all of {folder} changed while the job")


def test_what_the_platform_may_not_read_is_named_and_kept(job, folder):
    closed = folder / "closed"
    closed.mkdir()
    for path, named in ((closed, folder), (folder / "b.txt", folder / "b.txt")):
        path.chmod(0)
        before = state(folder)
        with pytest.raises(DownloadFailed, match="Permission denied") as caught, modes_count():
            job.prepare(channel(folder), refused="a test")
        assert state(folder) == before
        assert caught.value.fix == (
            f"make it readable and writable for the user who runs the platform: {named}"
        )
        closed.chmod(0o700)


def test_objects_are_linked_and_a_job_cannot_change_them(tmp_path, monkeypatch):
    monkeypatch.setattr(channels, "SMALL_BYTES", 0)
    with running_world(tmp_path / "root") as world:
        job = Job(tmp_path)
        job.storage = Storage(
            f"http://127.0.0.1:{world.server.port}",
            read_credentials(world.root),
            folder=world.root.s3_dir,
        )
        for name in ("a.txt", "b.txt", "sub/c.txt"):
            world.put(f"data/{name}", name)
        job.prepare(s3_channel("train", uri("data")))
        [linked] = job.mounts[0].layers
        assert (linked / "a.txt").samefile(world.object_file("data/a.txt"))
        assert job.run(HOSTILE) == "a.txtchanged\na.txt\nhard\nmoved\nnew\n"
        assert world.objects("data") == {
            name: name.encode() for name in ("a.txt", "b.txt", "sub/c.txt")
        }
        job.storage.close()
