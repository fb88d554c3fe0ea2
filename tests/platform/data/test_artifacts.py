"""What a job leaves, in S3."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from stoker.platform.data.artifacts import Artifacts, pack_and_upload
from stoker.platform.data.confined import read_start
from stoker.platform.data.failures import UploadFailed
from tests.permissions import modes_count
from tests.platform.data.s3_root import make_request, running_world, uri


@pytest.fixture
def world(tmp_path):
    with running_world(tmp_path / "root") as world:
        yield world


def leave(world, path, content="content", host="algo-1"):
    file = world.host_dir(host) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def upload(world, request, *hosts):
    dirs = {host: world.host_dir(host) for host in hosts or ("algo-1",)}
    return pack_and_upload(request, dirs, world.storage, world.job_dir / "work")


def names(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return set(archive.getnames())


def test_model_and_output_of_all_hosts_are_uploaded(world):
    leave(world, "model/model.pth")
    leave(world, "model/rank1.pth", host="algo-2")
    leave(world, "output/data/report.html")
    leave(world, "output/failure", "not in the archive")
    artifacts = upload(world, make_request(hosts=2), "algo-1", "algo-2")
    assert artifacts == Artifacts(
        model_uri=uri("out/job/output/model.tar.gz"),
        output_uri=uri("out/job/output/output.tar.gz"),
    )
    objects = world.objects("out/job/output")
    assert names(objects["model.tar.gz"]) == {"model.pth", "rank1.pth"}
    assert names(objects["output.tar.gz"]) == {"report.html"}
    assert upload(world, make_request(hosts=2), "algo-1", "algo-2") == artifacts
    assert not list((world.job_dir / "work").iterdir()), "no archive is left behind"


def test_a_job_that_leaves_nothing_has_an_empty_model(world):
    artifacts = upload(world, make_request())
    assert artifacts.output_uri is None
    assert names(world.objects("out/job/output")["model.tar.gz"]) == set()


def test_an_unpacked_model_is_a_folder_without_anything_foreign(world, tmp_path):
    (tmp_path / "secret").write_text("secret")
    leave(world, "model/a/b", "b")
    (world.host_dir() / "model/link").symlink_to(tmp_path / "secret")
    output = {"S3OutputPath": uri("out"), "CompressionType": "NONE"}
    artifacts = upload(world, make_request(OutputDataConfig=output))
    assert artifacts.model_uri == uri("out/job/output/model/")
    assert world.objects("out/job/output") == {"model/a/b": b"b"}
    assert [name.partition(":")[0] for name in artifacts.skipped] == ["model/link"]


def test_names_that_no_key_can_have_are_left_out_and_said(world):
    leave(world, os.fsdecode(b"model/\xff"))
    leave(world, "/".join(["model", *["d" * 200] * 6]))
    leave(world, "model/whole")
    output = {"S3OutputPath": uri("out"), "CompressionType": "NONE"}
    artifacts = upload(world, make_request(OutputDataConfig=output))
    assert list(world.objects("out/job/output")) == ["model/whole"]
    long, other = sorted(artifacts.skipped, key=len, reverse=True)
    assert "and the most are 1024" in long
    assert "its name is not UTF-8" in other


def test_the_failure_file_is_read_but_no_link_in_its_place(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "host/output").mkdir(parents=True)
    failure = tmp_path / "host/output/failure"
    assert read_start(tmp_path / "host", ("output", "failure"), 1024) == b""
    failure.write_text("x" * 5000)
    assert read_start(tmp_path / "host", ("output", "failure"), 1024) == b"x" * 1024
    failure.unlink()
    failure.symlink_to(tmp_path / "secret")
    assert read_start(tmp_path / "host", ("output", "failure"), 1024) == b""


def test_what_fails_says_what_to_do(world):
    leave(world, "model/model.pth")
    (world.job_dir / "work").mkdir()
    (world.job_dir / "work/model.tar.gz").symlink_to("/dev/full")
    with pytest.raises(UploadFailed, match="/opt/ml/model cannot be uploaded: No space") as caught:
        upload(world, make_request())
    assert "free space" in caught.value.fix
    bucket = {"S3OutputPath": "s3://no-such-bucket/x"}
    with pytest.raises(UploadFailed, match="no such object or bucket"):
        upload(world, make_request(OutputDataConfig=bucket))


def test_an_unreadable_file_is_named(world):
    leave(world, "model/model.pth")
    (world.host_dir() / "model/model.pth").chmod(0)
    with pytest.raises(UploadFailed, match=r"Permission denied \(model\.pth\)"), modes_count():
        upload(world, make_request())
