"""smdebug as published, but for what keeps it from running, saves in a job and reads from S3.

The job is killed in the middle of its writes, as a rule's StopTraining may do it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from stoker.platform.jobs.hosts import list_synced_folders, make_sync
from stoker.platform.model.root import read_credentials
from tests.platform.data.s3_root import make_request, running_world, uri, wait_for
from tests.smdebug_wheels import make_wheels

TRAIN = """
import sys, time
sys.path.insert(0, sys.argv[1])
import smdebug.pytorch as smd
import torch
from torch import nn

save_all = smd.SaveConfig(save_interval=1)
hook = smd.Hook(out_dir=sys.argv[2], save_config=save_all, include_collections=["all"])
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
hook.register_module(net)
while True:
    net(torch.ones(1, 4)).sum().backward()
    time.sleep(0.05)
"""
READ = """
import sys
sys.path.insert(0, sys.argv[1])
from smdebug.trials import create_trial

for line in sys.stdin:
    trial = create_trial(sys.argv[2])
    steps = trial.steps()
    for name in trial.tensor_names(step=steps[-1]) if steps else ():
        trial.tensor(name).value(steps[-1])
    print(len(steps), flush=True)
"""


@pytest.fixture
def world(tmp_path):
    with running_world(tmp_path / "root") as world:
        yield world


@pytest.fixture
def sync(world):
    job = make_request(DebugHookConfig={"S3OutputPath": uri("debug")})
    (kept,) = list_synced_folders(job)
    sync = make_sync(world.root, job, "algo-1", kept, world.storage)
    sync.start()
    yield sync
    sync.flush_and_stop(0)


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    return make_wheels(tmp_path_factory.mktemp("wheels"))[1]


def run_stock(program, stock, place, **variables):
    return subprocess.Popen(
        [sys.executable, "-c", program, stock, place],
        env={**os.environ, "OMP_NUM_THREADS": "1", "SMDEBUG_LOG_LEVEL": "error", **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def ending(process):
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_trial_can_be_read_at_any_moment_and_after_a_kill(world, sync, stock):
    credentials = read_credentials(world.root)
    keys = {
        "AWS_ENDPOINT_URL": f"http://{world.server.address}",
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_REGION": "us-east-1",
    }
    folder = world.host_dir() / "output/tensors"
    with (
        ending(run_stock(TRAIN, stock, folder, TRAINING_JOB_NAME="job")) as training,
        ending(run_stock(READ, stock, uri("debug/job/debug-output"), **keys)) as reader,
    ):

        def read():
            reader.stdin.write("\n")
            reader.stdin.flush()
            return int(reader.stdout.readline())

        indexes = "index/*/*.json"
        wait_for(lambda: list(world.object_file("debug").rglob(indexes)), "a step is in S3")
        first = read()
        assert first > 0
        wait_for(lambda: read() > first, "later steps are read")
        last = read()
        training.kill()
        training.wait(60)
        for name in ("index/000000000/000000999999_worker_0.json.tmp", "collections/x.json.tmp"):
            (folder / name).touch()
        sync.flush_and_stop(60)
        assert read() >= last
    assert not [name for name in world.objects("debug") if name.endswith(".tmp")]
