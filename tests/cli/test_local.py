"""`stoker local` as a user calls it: up, status, env, down, and nothing is left at the end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from stoker.cli.client.variables import render_variables

from .conftest import DEADLINE_SECONDS, wait_for_line


def processes_of(root: Path) -> list[str]:
    """Command lines that name the root: the server, S3 and whatever else."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            found += [words.replace("\0", " ")] if str(root) in words else []
    return found


def servers_of(root: Path) -> list[str]:
    return [words for words in processes_of(root) if "stoker.platform " in words]


def test_up_status_env_and_down(cli):
    cli.up()
    assert len(processes_of(cli.platform)) >= 2  # the server and S3
    status = cli.on_platform("local", "status", "--json")
    assert status.returncode == 0
    server = json.loads(status.stdout)
    assert (server["up"], server["engine"]) == (True, "process")

    again = cli.on_platform("local", "up", "--detach")
    assert (again.returncode, f"already up at {server['endpoint']}" in again.stdout) == (0, True)
    other = cli.on_platform("local", "up", "--detach", "--engine", "docker")
    assert other.returncode == 2
    assert "up with the engine process, not docker" in other.stderr

    for _ in range(2):  # the second time there is nothing to do
        down = cli.on_platform("local", "down")
        assert down.returncode == 0, down.stderr
        assert processes_of(cli.platform) == []
    status = cli.on_platform("local", "status", "--json")
    assert (status.returncode, json.loads(status.stdout)["up"]) == (1, False)


def test_a_shell_that_evaluates_env_reaches_the_platform_with_plain_boto3(cli):
    cli.up()
    script = "import boto3; print(boto3.client('s3').list_buckets()['Buckets'][0]['Name'])"
    command = shlex.join([sys.executable, "-m", "stoker.cli.main", "local", "env"])
    program = shlex.join([sys.executable, "-c", script])
    shell = f'eval "$({command} --root {cli.platform})" && {program}'
    # In the way on purpose: a profile that does not exist, an endpoint without a server.
    wrong = {"AWS_PROFILE": "none", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    done = subprocess.run(
        ["sh", "-c", shell],
        env={**os.environ, **wrong},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.stdout == "sagemaker-us-east-1-000000000000\n", done.stderr


def test_a_shell_can_come_back_from_a_platform_that_is_down(cli):
    cli.up()
    stoker = shlex.join([sys.executable, "-m", "stoker.cli.main", "local"])
    variables = shlex.join([sys.executable, "-c", "import os; print(sorted(os.environ.items()))"])
    metadata = cli.platform / "notebook-metadata.json"
    assert metadata.exists()
    shell = f"""
{variables}; eval "$({stoker} env --root {cli.platform})"; {stoker} down --root {cli.platform}
eval "$({stoker} env --undo)"; {stoker} env --undo; {variables}
"""
    done = subprocess.run(
        ["sh", "-c", shell],
        env={"PATH": os.environ["PATH"], "HOME": str(cli.platform), "PYTHONPATH": "/mine"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    before, down, undo, nothing, after = done.stdout.splitlines()
    assert down.startswith("local: down")
    assert undo.endswith("local env --undo --root " + f"{cli.platform})")
    assert (nothing, after) == ("", before)
    assert not metadata.exists(), "the SDKs are shown a role only while there is one"


def test_two_that_start_at_once_share_one_server(cli):
    words = ("local", "up", "--detach", "--engine", "process", "--root", str(cli.platform))
    both = [cli.start(*words) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, out + err
    deadline = time.monotonic() + DEADLINE_SECONDS  # the one that came second has yet to give way
    while len(servers_of(cli.platform)) != 1:
        assert time.monotonic() < deadline, servers_of(cli.platform)
        time.sleep(0.05)
    assert cli.on_platform("local", "status").returncode == 0


def test_in_the_foreground_ctrl_c_ends_all_of_it(cli):
    process = cli.start("local", "up", "--engine", "process", "--root", str(cli.platform))
    wait_for_line(process, "end it")
    server = json.loads((cli.platform / "server.json").read_text())
    os.kill(server["pid"], signal.SIGINT)  # a terminal sends it to both
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    assert processes_of(cli.platform) == []


def test_a_server_that_was_killed_is_not_taken_for_one(cli):
    cli.up()
    server = json.loads((cli.platform / "server.json").read_text())
    os.kill(server["pid"], signal.SIGKILL)
    down = cli.on_platform("local", "down")
    assert down.returncode == 0, down.stderr
    assert cli.on_platform("local", "status").returncode == 1
    cli.up()


def test_what_needs_a_platform_says_how_to_start_it(cli):
    for words in (("local", "env"), ("status",), ("logs", "x"), ("stop", "x")):
        done = cli.on_platform(*words)
        assert done.returncode == 3
        assert "fix: start it: stoker local up --detach" in done.stderr


def test_a_server_that_cannot_start_says_why(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = cli.on_platform("local", "up", "--detach", "--engine", "process", "--port", port)
    assert done.returncode == 3
    assert f"port {port} of 127.0.0.1 is taken" in done.stderr
    assert "fix: see " in done.stderr


def test_variables_are_quoted_for_each_shell():
    variables = {"A": "it's"}
    assert render_variables(variables, removed=["B"], shell="sh") == (
        "unset B\nexport A='it'\"'\"'s'"
    )
    assert render_variables(variables, removed=["B"], shell="fish") == (
        "set --erase B\nset --export A 'it\\'s'"
    )
    assert json.loads(render_variables(variables, removed=["B"], shell="json")) == {
        "A": "it's",
        "B": None,
    }
