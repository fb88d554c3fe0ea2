"""Images that hang, flood, fork for ever or cannot start: a clear line and a clean end."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from stoker.conformance.check import CHECKS
from stoker.conformance.checks import all_checks
from stoker.conformance.runner import LABEL_KEY, Task, run_checks
from stoker.machine.docker import call, find_builder, find_client
from stoker.machine.failures import EngineLost

pytestmark = pytest.mark.docker

assert all_checks()
CLIENT = find_client()
RUN = uuid.uuid4().hex[:12]
"""Other runs on this machine have images and containers of their own."""
HOSTILE = {
    "hangs": "RUN printf '#!/bin/sh\\nexec sleep 1000\\n' > /opt/venv/bin/train",
    "floods": "RUN printf '#!/bin/sh\\nexec yes a line that never ends to come\\n' "
    "> /opt/venv/bin/train",
    "forks": "RUN printf '#!/bin/sh\\nwhile true; do sleep 100 & done\\n' > /opt/venv/bin/train",
    "has-no-train": "RUN rm /opt/venv/bin/train",
    "crashes": "RUN printf '#!/bin/sh\\nexit 3\\n' > /opt/venv/bin/train",
}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    made = []

    def make(name: str, dockerfile: str) -> str:
        context = tmp_path_factory.mktemp(name)
        # A label makes it another image than that of the same lines in another run.
        (context / "Dockerfile").write_text(f"{dockerfile}\nLABEL run={RUN}\n")
        tag = f"stoker-hostile-{RUN}:{name}"
        command = [*find_builder().argv, "--quiet", "--tag", tag, str(context)]
        subprocess.run(command, check=True, capture_output=True, timeout=240)
        made.append(tag)
        return tag

    yield make
    subprocess.run([CLIENT, "rmi", "--force", *made], capture_output=True)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_image_fails_in_bounded_time_and_leaves_nothing(build, name):
    image = build(name, f"FROM stoker:cpu\n{HOSTILE[name]}")
    check = replace(CHECKS[1], limit_seconds=30)
    (result,) = run_checks(
        CLIENT, [Task(image=image, check=check, init=False)], jobs=1, on_result=lambda _: None
    )
    assert result.status == "fail"
    assert "the check itself broke" not in result.seen
    deadline = time.monotonic() + 120  # the engine may be at work on what its client gave up
    while _left(image) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _left(image) == []


def test_an_image_without_shell_and_python_is_told_apart(build):
    image = build("empty", "FROM scratch\nLABEL nothing=inside")
    (result,) = run_checks(
        CLIENT, [Task(image=image, check=CHECKS[1], init=False)], jobs=1, on_result=lambda _: None
    )
    assert result.status == "fail"
    assert "did not start" in result.seen
    assert _left(image) == []


def test_ctrl_c_leaves_nothing_behind(build):
    image = build("hangs", f"FROM stoker:cpu\n{HOSTILE['hangs']}")
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker.cli.main", "check", image, "--only", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background inherit an ignored SIGINT; a terminal's does not.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not _left(image) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130
    assert _left(image) == []


def test_no_engine_is_one_clear_line():
    done = _check("stoker:cpu", DOCKER_HOST="unix:///nonexistent.sock")
    assert done.returncode == 3
    assert "no Docker engine answers" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_image_that_does_not_exist_is_named():
    done = _check("no-such-image:ever")
    assert done.returncode == 3
    assert "Docker has no image no-such-image:ever" in done.stderr


def test_an_image_for_another_processor_is_refused(tmp_path):
    tag = f"stoker-hostile-{RUN}:arm64"
    subprocess.run([CLIENT, "load"], input=_saved_image(tag, "arm64"), check=True)
    done = _check(tag)
    subprocess.run([CLIENT, "rmi", "--force", tag], capture_output=True)
    assert done.returncode == 2
    assert "is made for arm64, but this engine runs amd64" in done.stderr


def _saved_image(tag: str, architecture: str) -> bytes:
    """An empty image as `docker save` writes it."""
    layer = bytes(10240)  # a tar archive without members
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in (
            ("layer.tar", layer),
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_an_engine_that_dies_is_told_apart_from_a_failed_check(tmp_path):
    with pytest.raises(EngineLost, match="does not answer any more"):
        call(_dead_client(tmp_path), "ps")


def test_an_engine_that_dies_in_mid_run_ends_it_and_keeps_what_was_found(build, tmp_path):
    image = build("ours", "FROM stoker:cpu")
    client = tmp_path / "docker"
    # The real client, which no server answers any more after its first calls.
    client.write_text(
        f"""#!/bin/sh
        echo call >> {tmp_path}/calls
        [ $(wc -l < {tmp_path}/calls) -le 5 ] || export DOCKER_HOST=unix:///nonexistent.sock
        exec {CLIENT} "$@"
        """
    )
    client.chmod(0o755)
    tasks = [Task(image=image, check=CHECKS[n], init=False) for n in (1, 21, 24)]
    found = []
    with pytest.raises(EngineLost):
        run_checks(str(client), tasks, jobs=1, on_result=found.append)
    assert [result.status for result in found] == ["pass"]
    for container in _left(image):
        call(CLIENT, "rm", "--force", container)


def _dead_client(folder: Path) -> str:
    client = folder / "docker"
    client.write_text(f'#!/bin/sh\nexec {CLIENT} --host unix:///nonexistent.sock "$@"\n')
    client.chmod(0o755)
    return str(client)


def _check(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stoker.cli.main", "check", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )


def _left(image: str) -> list[str]:
    filters = ("--filter", f"label={LABEL_KEY}", "--filter", f"ancestor={image}")
    return call(CLIENT, "ps", "--all", "--quiet", *filters).stdout.split()
