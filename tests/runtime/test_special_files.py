"""FIFOs, devices, links, sockets and huge files where a script can put them: no process waits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import MAIN

MOST_MEMORY_BYTES = 700_000_000  # less than the huge file has
KINDS = {
    "fifo": "os.mkfifo(path)",
    "device": "os.symlink('/dev/zero', path)",
    "link": "os.symlink('/etc/passwd', path)",
    "socket": "os.mknod(path, 0o140600)",
    "folder": "os.mkdir(path)",
    "gigabyte": "f = open(path, 'w'); f.truncate(1 << 30); f.close()",
}
of_each_kind = pytest.mark.parametrize("kind", KINDS)
PUT = """
import os, sys, time
def put(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    {kind}
"""


def run(opt_ml):
    """Runs the launcher in little memory."""
    return subprocess.run(
        ["prlimit", f"--as={MOST_MEMORY_BYTES}", sys.executable, "-IS", str(MAIN)],
        env={**os.environ, "STOKER_ROOT": str(opt_ml.root), "TRAINING_JOB_NAME": "job"},
        capture_output=True,
        text=True,
        timeout=240,
    )


def put_in_script(opt_ml, kind, *places, last_line="", **hyperparameters):
    """A script that leaves special files in some places."""
    puts = "\n".join(f"put({place})" for place in places)
    opt_ml.script(f"{PUT.format(kind=KINDS[kind])}\n{puts}\n{last_line}", **hyperparameters)


@of_each_kind
def test_a_failure_keeps_its_reason(opt_ml, kind):
    put_in_script(
        opt_ml, kind, "os.environ['SM_OUTPUT_FAILURE']", last_line="raise ValueError('the cause')"
    )
    result = run(opt_ml)
    assert result.returncode == 1, result.stderr
    if kind == "folder":
        assert "could not be written" in result.stderr
    elif kind != "gigabyte":  # a text of the script's own, whatever its size, is kept
        assert opt_ml.failure.startswith("ValueError: the cause")


@of_each_kind
def test_a_success_stays_one(opt_ml, kind):
    output, crashes = "os.environ['SM_OUTPUT_DIR']", "os.environ['STOKER_CRASH_DIR']"
    put_in_script(
        opt_ml,
        kind,
        f"{output} + '/stoker/left.json'",
        f"{output} + '/stoker/stop.json'",
        f"{output} + '/data/stoker/rules.json'",
        f"{output} + '/tensors/training_job_end.ts'",
        f"{crashes} + '/1.json'",
    )
    result = run(opt_ml)
    assert result.returncode == 0, result.stderr
    assert result.stderr.endswith("[stoker] success\n")


@of_each_kind
def test_the_launchers_own_temporary_names_are_not_a_trap(opt_ml, kind):
    put_in_script(
        opt_ml,
        kind,
        "os.environ['SM_OUTPUT_FAILURE'] + f'.{os.getppid()}.sagemaker-ignore'",
        last_line="raise ValueError('the cause')",
    )
    result = run(opt_ml)
    assert result.returncode == 1, result.stderr
    if kind != "folder":
        assert opt_ml.failure.startswith("ValueError: the cause")


@of_each_kind
@pytest.mark.parametrize("name", ["stoker.toml", "pyproject.toml", "requirements.txt"])
def test_a_source_folder_does_not_hang_the_launcher(opt_ml, kind, name):
    opt_ml.script("print('trained')")
    exec(PUT.format(kind=KINDS[kind]), scope := {})
    scope["put"](str(opt_ml.root / "code" / name))
    result = run(opt_ml)
    if name == "requirements.txt" and kind != "link":  # of a link the target is installed
        assert result.returncode == 66
        assert "requirements.txt cannot be installed: it " in opt_ml.failure
    elif name != "requirements.txt" and kind != "gigabyte":
        assert result.stdout == "trained\n", result.stderr


@pytest.mark.parametrize("kind", ["fifo", "device", "socket", "folder"])
def test_a_script_that_is_none_is_refused_by_name(opt_ml, kind):
    opt_ml.script("print('trained')").unlink()
    exec(PUT.format(kind=KINDS[kind]), scope := {})
    scope["put"](str(opt_ml.root / "code/train.py"))
    result = run(opt_ml)
    assert result.returncode != 0
    if kind != "folder":
        assert "entry point 'train.py' is not a regular file" in opt_ml.failure


@of_each_kind
def test_a_config_file_that_is_none_is_refused_by_name(opt_ml, kind):
    opt_ml.script("print('trained')")
    exec(PUT.format(kind=KINDS[kind]), scope := {})
    scope["put"](str(opt_ml.root / "input/config/resourceconfig.json"))
    result = run(opt_ml)
    assert result.returncode == 78
    assert "resourceconfig.json" in opt_ml.failure
    assert "as root" not in opt_ml.failure


READERS = """
from stoker.bus.rule_status import read_rule_statuses
from stoker.bus.stop import read_left, read_stop_request
from stoker.checkpoints.store import Store
from stoker.contract.debugger import findings_file, rules_file
from stoker.contract.outcome import read_failure
from stoker.contract.paths import Paths
from stoker.debugging.evaluate.findings_file import read_findings
from stoker.debugging.hook.resume import FILE, _read_states
from stoker.debugging.tensors.saved_tensors import SavedTensors

for kind, make in KINDS.items():
    paths = Paths(root=sys.argv[1] + "/" + kind)
    checkpoints = paths.root + "/checkpoints"
    tensors = paths.output_dir + "/tensors"
    for path in (
        paths.failure_file,
        paths.output_dir + "/stoker/left.json",
        paths.output_dir + "/stoker/stop.json",
        rules_file(paths),
        findings_file(paths),
        checkpoints + "/000001-step-1/manifest.json",
        checkpoints + "/" + FILE,
        tensors + "/index/000000000/000000000000_worker_0.json",
        tensors + "/collections/000000000/worker_0_collections.json",
        tensors + "/stoker/worker_0_tensors.json",
    ):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        exec(make, {"os": os, "path": path})
    assert read_left(paths) is None
    assert read_stop_request(paths) is None
    assert read_rule_statuses(paths) == []
    assert len(read_failure(paths.failure_file)) <= 4096
    assert [bool(c.problem) for c in Store(checkpoints).read_all()] == [True]
    assert Store(checkpoints).newest() is None
    assert read_findings(findings_file(paths)) == []
    assert _read_states(checkpoints) == []
    assert list(SavedTensors(tensors).steps()) == []
"""


def test_none_is_waited_for_or_read_completely(tmp_path):
    """All kinds in one process: the imports take most of the time."""
    code = f"import os, sys\nKINDS = {KINDS!r}\n{READERS}"
    command = ["prlimit", f"--as={4 * MOST_MEMORY_BYTES}", sys.executable, "-c", code]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
