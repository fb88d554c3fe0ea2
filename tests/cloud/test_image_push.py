"""A local image in a real registry, by its digest: Debian's docker-registry."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.request
from contextlib import suppress

import pytest

from stoker.cloud.account import Account
from stoker.cloud.image import make_target, push_by_digest
from stoker.machine.docker import find_client
from stoker.machine.failures import ImageMissing

pytestmark = pytest.mark.docker
DEADLINE_SECONDS = 60


def find_program(folder):
    """The installed program, else that of Debian's package, unpacked here."""
    if found := shutil.which("docker-registry"):
        return found
    options = ["-o", "APT::Sandbox::User=root"]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            ["apt-get", *options, "download", "docker-registry"],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
        )
        (package,) = folder.glob("docker-registry_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        return str(folder / "usr/bin/docker-registry")
    pytest.skip("no docker-registry is installed, and apt-get does not have it")


@pytest.fixture
def registry(tmp_path):
    program = find_program(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": address},
        "log": {"level": "error"},
    }
    (tmp_path / "config.yml").write_text(json.dumps(config))  # JSON is YAML
    with subprocess.Popen([program, "serve", str(tmp_path / "config.yml")]) as server:
        try:
            wait_for(address)
            yield address
        finally:
            server.terminate()


def wait_for(address):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://{address}/v2/"):
            return
        time.sleep(0.05)
    raise AssertionError("the registry did not start")


@pytest.fixture
def image(tmp_path):
    """A small image of its own content."""
    name = f"stoker-push-test-{tmp_path.name.replace('_', '-')}:1"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as files:
        files.addfile(tarfile.TarInfo(str(time.time_ns())))
    client = find_client()
    subprocess.run([client, "import", "-", name], input=archive.getvalue(), check=True)
    yield name
    subprocess.run([client, "rmi", "--force", name], check=True, capture_output=True)


def test_a_local_image_is_pushed_and_named_by_its_digest(registry, image):
    target = make_target(image, f"{registry}/team/train", registry="")
    named = push_by_digest(target, Account(region="eu-west-1"))
    name, _, digest = named.partition("@")
    assert name == f"{registry}/team/train"
    try:
        request = urllib.request.Request(f"http://{registry}/v2/team/train/manifests/{digest}")
        request.add_header("Accept", "application/vnd.docker.distribution.manifest.v2+json, */*")
        with urllib.request.urlopen(request) as answer:
            assert answer.headers["Docker-Content-Digest"] == digest
        assert push_by_digest(target, Account(region="eu-west-1")) == named
    finally:
        tags = json.load(urllib.request.urlopen(f"http://{registry}/v2/team/train/tags/list"))
        for tag in tags["tags"]:
            subprocess.run([find_client(), "rmi", f"{name}:{tag}"], capture_output=True)
    assert len(tags["tags"]) == 1


def test_an_image_that_is_not_there_is_named(registry):
    target = make_target("nobodys:1", f"{registry}/x", registry="")
    with pytest.raises(ImageMissing, match="nobodys:1"):
        push_by_digest(target, Account(region="eu-west-1"))
