"""Two hosts, each with a disk of its own, as the platform starts them, and one S3 prefix."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

from tests.checkpoints.runs import DEADLINE_SECONDS, SCRIPT, Run, end


def start_host(root, number, port, *arguments):
    root.mkdir(parents=True, exist_ok=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    where = [f"--node-rank={number}", "--master-addr=127.0.0.1", f"--master-port={port}"]
    return subprocess.Popen(
        [*launcher, *where, str(SCRIPT), str(root), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_both(roots, *arguments):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = [start_host(root, i, port, *arguments) for i, root in enumerate(roots)]
    try:
        said = [process.communicate(timeout=DEADLINE_SECONDS)[1] for process in processes]
    finally:
        for process in processes:
            end(process)
    return "".join(said)


def sync(roots, bucket):
    """What the platform does around a restart: all hosts' files to one prefix, and back."""
    for root in roots:
        shutil.copytree(root / "checkpoints", bucket, dirs_exist_ok=True)
    for root in roots:
        shutil.rmtree(root / "checkpoints")
        shutil.copytree(bucket, root / "checkpoints")


def files_below(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_two_hosts_write_names_that_never_clash_and_resume_from_both(whole_of_two, tmp_path):
    roots = [tmp_path / f"host-{i}" for i in range(2)]
    run_both(roots, "--stop-at=5")
    first, second = (files_below(root / "checkpoints") for root in roots)
    assert first
    assert not first & second
    assert all(name.endswith("rank00001.safetensors") for name in second)
    sync(roots, tmp_path / "bucket")
    assert "resumed from step 7" in run_both(roots)
    assert Run(roots[0]).weights == whole_of_two.weights
    assert Run(roots[1]).losses(1) == whole_of_two.losses(1)
