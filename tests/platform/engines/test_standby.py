"""The shell that waits in a container for its command, without a container."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from stoker.platform.engines.engine import Launch, Standby
from stoker.platform.engines.standby import hand_over, make_script, make_standby_arguments

pytestmark = pytest.mark.functional

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)], sort_keys=True))"


def test_a_run_has_its_own_variables_and_those_of_its_image(tmp_path):
    standby = Standby(name="job-warm", folder=tmp_path / "pool")
    text = "two\nlines, 'quotes', $HOME and `id`"
    launch = Launch(
        name="job-algo-1-1",
        job="job",
        host="algo-1",
        attempt=1,
        image="image",
        entrypoint=(sys.executable, "-c", SHOW),
        arguments=(text,),
        environment={"TEXT": text, "PATH": "/of/the/job", "UID": "7", "KEY": "secret"},
        host_dir=tmp_path / "host",
        standby=standby,
    )
    assert "secret" not in make_script(launch, ()).rpartition("\nexec ")[2], "no command has it"
    holder = make_standby_arguments(launch, container="c", root_id="r", gpus=False)[-1]
    image = {"PATH": "/usr/bin:/bin", "run": "of the image"}
    with subprocess.Popen(
        ["/bin/sh", "-c", holder.replace("/run/stoker", str(standby.control_dir))],
        env=image,
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        assert hand_over(launch, (), lambda: shell.poll() is None, 60)
        said = shell.communicate(timeout=240)[0]
    environment = {**image, **launch.environment}
    arguments, found = json.loads(said)
    assert arguments == [text]
    assert {k: v for k, v in found.items() if k != "LC_CTYPE"} == environment  # Python's own
    assert not list(standby.control_dir.iterdir()), "what it was told is not left"
