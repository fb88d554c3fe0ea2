"""What will be run, for each launcher."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from stoker.contract.code import Code, CodeSource
from stoker.contract.job import read_job
from stoker.contract.secrets import Masker
from stoker.errors import ConfigInvalid
from stoker.runtime.distribution import Distribution, choose_distribution, make_network_environment
from stoker.runtime.plan import make_fetch_step, make_plan, make_toolkit_plan
from stoker.runtime.program import find_program

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


@pytest.fixture
def plan(opt_ml):
    """Plans one job whose code folder holds some of everything."""
    code = opt_ml.root / "code"
    for name in ("train.py", "run.sh", "pkg/__main__.py", "tool"):
        (code / name).parent.mkdir(exist_ok=True)
        (code / name).write_text("#!/bin/sh\n")
    (code / "tool").chmod(0o755)

    def make(entry_point="train.py", environ=None, **hyperparameters):
        opt_ml.config("hyperparameters", hyperparameters)
        job = read_job(root=opt_ml.root, environ={"PATH": os.defpath, **(environ or {})})
        program = find_program(str(code), entry_point)
        return make_plan(job, program, crash_dir=f"{opt_ml.root}/crash", mask=Masker())

    return make


def two_hosts(opt_ml, current="algo-2", interface="eth0", **more):
    hosts = ["algo-1", "algo-2"]
    opt_ml.config(
        "resourceconfig",
        {"current_host": current, "hosts": hosts, "network_interface_name": interface, **more},
    )


@pytest.mark.parametrize(
    ("entry_point", "command"),
    [
        ("train.py", [sys.executable, "train.py"]),
        ("pkg", [sys.executable, "-m", "pkg"]),
        ("run.sh", ["/bin/sh", "run.sh"]),
        ("tool", ["./tool"]),
    ],
)
def test_each_kind_of_program_has_its_command(plan, entry_point, command):
    made = plan(entry_point, epochs="3")
    assert list(made.worker.argv) == [*command, "--epochs", "3"]
    assert made.distribution.launcher == "python"
    assert made.preparation == ()


@pytest.mark.parametrize(
    ("entry_point", "command"),
    [
        ("train.py", ["train.py"]),
        ("pkg", ["-m", "pkg"]),
        ("run.sh", ["--no-python", "/bin/sh", "./run.sh"]),
        ("tool", ["--no-python", "./tool"]),
    ],
)
def test_torchrun_starts_each_kind_of_program(plan, entry_point, command):
    made = plan(
        entry_point,
        epochs="3",
        sagemaker_torch_distributed_enabled="true",
        sagemaker_mpi_num_of_processes_per_host="2",
    )
    argv = list(made.worker.argv)
    assert argv[:4] == [*TORCHRUN, "--standalone"]
    assert argv[-len(command) - 4 :] == ["--nproc-per-node", "2", *command, "--epochs", "3"]


@pytest.mark.parametrize(
    "key", ["sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled"]
)
def test_torchrun_over_several_hosts_meets_at_the_leader(opt_ml, plan, key):
    two_hosts(opt_ml)
    made = plan(**{key: "true"})
    argv = " ".join(made.worker.argv)
    assert "--standalone" not in argv
    assert "--nnodes 2 --node-rank 1 --master-addr algo-1 --master-port 7777" in argv
    assert "--nproc-per-node 1 train.py" in argv
    assert [step.name for step in made.preparation] == ["find peers"]
    assert made.preparation[0].argv[-3:] == ("600", "algo-1", "algo-2")


@pytest.mark.parametrize(
    ("content", "processes"),
    [
        ({"process_count_per_node": 2, "smp": None}, "2"),
        ({"process_count_per_node": None, "smp": None}, "1"),
        ({}, None),
    ],
)
def test_a_trial_of_sdk_v3_is_distributed_as_its_channel_says(opt_ml, plan, content, processes):
    folder = opt_ml.root / "input/data/sm_drivers"
    folder.mkdir(parents=True)
    (folder / "distributed.json").write_text(json.dumps(content))
    opt_ml.config("inputdataconfig", {"sm_drivers": {"TrainingInputMode": "File"}})
    made = plan()
    assert made.distribution.launcher == ("torchrun" if processes else "python")
    if processes:
        assert f"--nproc-per-node {processes} train.py" in " ".join(made.worker.argv)


def test_mpi_of_sdk_v3_needs_mpirun(opt_ml, plan):
    folder = opt_ml.root / "input/data/sm_drivers"
    folder.mkdir(parents=True)
    (folder / "distributed.json").write_text('{"mpi_additional_options": null}')
    opt_ml.config("inputdataconfig", {"sm_drivers": {"TrainingInputMode": "File"}})
    with pytest.raises(ConfigInvalid, match="no mpirun in this image"):
        plan(environ={"PATH": str(opt_ml.root)})


def test_a_distribution_is_named_as_the_user_wrote_it(plan):
    # SDK v2 sends smdistributed for pytorchddp.
    with pytest.raises(ConfigInvalid, match=r"smdistributed\.dataparallel or pytorchddp"):
        plan(sagemaker_distributed_dataparallel_enabled="true")


def test_torchruns_own_deadline_leaves_time_to_save(plan):
    made = plan(sagemaker_torch_distributed_enabled="true")
    assert made.worker.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "105"
    assert made.worker.grace_seconds < 120


def test_a_group_that_takes_no_part_runs_alone(opt_ml, plan):
    two_hosts(
        opt_ml,
        current_group_name="data",
        instance_groups=[
            {"instance_group_name": "train", "hosts": ["algo-1"]},
            {"instance_group_name": "data", "hosts": ["algo-2"]},
        ],
    )
    made = plan(
        sagemaker_torch_distributed_enabled="true",
        sagemaker_distribution_instance_groups='["train"]',
    )
    assert made.distribution.launcher == "python"


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5", '""', "9" * 5000])
def test_a_number_of_processes_that_is_none_is_refused(plan, count):
    with pytest.raises(ConfigInvalid, match="processes_per_host") as caught:
        plan(
            sagemaker_torch_distributed_enabled="true",
            sagemaker_mpi_num_of_processes_per_host=count,
        )
    assert caught.value.fix


def test_mpi_without_mpirun_is_refused_with_two_ways_out(plan, tmp_path):
    with pytest.raises(ConfigInvalid, match="no mpirun") as caught:
        plan(sagemaker_mpi_enabled="true", environ={"PATH": str(tmp_path)})
    assert "torch_distributed" in caught.value.fix
    assert "openmpi" in caught.value.fix


def test_mpi_with_mpirun_is_handed_to_the_toolkit(opt_ml, tmp_path):
    (tmp_path / "mpirun").touch(mode=0o755)
    opt_ml.hyperparameters(sagemaker_mpi_enabled="true")
    job = read_job(root=opt_ml.root, environ={"PATH": str(tmp_path)})
    assert choose_distribution(job).launcher == "toolkit"


@pytest.mark.parametrize(
    "environ",
    [{"STOKER_LAUNCHER": "toolkit"}, {"SAGEMAKER_TRAINING_MODULE": "pkg.mod:main"}],
)
def test_the_toolkit_is_run_where_asked_for(opt_ml, environ):
    job = read_job(root=opt_ml.root, environ={"A": "b", **environ})
    assert choose_distribution(job).launcher == "toolkit"
    worker = make_toolkit_plan(job, mask=Masker(), crash_dir=f"{opt_ml.root}/crash").worker
    assert worker.argv[:2] == (sys.executable, "-c")
    assert "sagemaker_training.cli.train" in worker.argv[2]
    expected = {"A": "b", **environ, "SAGEMAKER_BASE_DIR": str(opt_ml.root)}
    assert worker.environ.items() >= expected.items()


@pytest.mark.parametrize(
    "key",
    ["sagemaker_distributed_dataparallel_enabled", "sagemaker_pytorch_xla_multi_worker_enabled"],
)
def test_a_distribution_this_image_lacks_is_refused(plan, key):
    with pytest.raises(ConfigInvalid, match="does not have") as caught:
        plan(**{key: "true"})
    assert "torch_distributed" in caught.value.fix


def test_peers_are_waited_for_only_where_there_are_some(opt_ml, plan):
    assert plan().preparation == ()
    two_hosts(opt_ml)
    assert len(plan().preparation) == 1
    assert plan(environ={"STOKER_PEER_LIMIT_SECONDS": "7"}).preparation[0].argv[4] == "7"
    assert plan(environ={"SM_STUDIO_LOCAL_MODE": "true"}).preparation == ()


def test_the_users_own_variables_win_over_our_defaults(plan):
    own = {"MASTER_ADDR": "mine", "OMP_NUM_THREADS": "3", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "9"}
    made = plan(environ=own, sagemaker_torch_distributed_enabled="true")
    assert made.worker.environ.items() >= own.items()
    assert made.worker.environ["MASTER_PORT"] == "7777"


def test_an_interface_that_does_not_exist_is_not_given_to_nccl(opt_ml, plan):
    two_hosts(opt_ml, interface="ethwe")
    assert "NCCL_SOCKET_IFNAME" not in plan().worker.environ
    two_hosts(opt_ml, interface="lo")
    assert plan().worker.environ["NCCL_SOCKET_IFNAME"] == "lo"
    assert plan(environ={"NCCL_SOCKET_IFNAME": "x"}).worker.environ["NCCL_SOCKET_IFNAME"] == "x"


def test_a_single_process_is_not_made_to_look_like_torchrun(plan):
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & plan().worker.environ.keys()


def test_the_request_s_environment_reaches_the_worker_unchanged(plan):
    own = {"WITH_NEWLINE": "a\nb", "WITH_EQUALS": "c=d", "EMPTY": ""}
    assert plan(environ=own).worker.environ.items() >= own.items()


def test_the_code_folder_leads_the_users_python_path(opt_ml, plan):
    code = str(opt_ml.root / "code")
    assert plan().worker.environ["PYTHONPATH"] == code
    assert plan(environ={"PYTHONPATH": "/x:/y"}).worker.environ["PYTHONPATH"] == f"{code}:/x:/y"


def test_requirements_are_installed_first(opt_ml, plan):
    (opt_ml.root / "code/requirements.txt").touch()
    (step,) = plan("run.sh").preparation
    assert step.name == "install requirements"
    assert step.argv[-2:] == ("-r", str(opt_ml.root / "code/requirements.txt"))
    assert "--no-input" in step.argv
    assert step.fix


def test_a_token_for_a_private_index_is_in_no_argument(opt_ml, plan):
    (opt_ml.root / "code/requirements.txt").touch()
    arn = "arn:aws:codeartifact:us-east-1:1:repository/d/r"
    (step,) = plan(environ={"CA_REPOSITORY_ARN": arn}).preparation
    assert step.argv[3:5] == ("install", arn)


def test_a_warm_pool_keeps_the_downloads(opt_ml, plan, tmp_path):
    (opt_ml.root / "code/requirements.txt").touch()
    assert plan().preparation[0].environ["PIP_NO_CACHE_DIR"] == "1"
    environ = {"SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY": str(tmp_path)}
    assert plan(environ=environ).preparation[0].environ["PIP_CACHE_DIR"] == f"{tmp_path}/pip"


@pytest.mark.parametrize("kind", ["archive", "file", "s3"])
def test_code_that_is_not_a_folder_is_fetched_by_a_helper(opt_ml, kind):
    job = read_job(root=opt_ml.root, environ={})
    source = CodeSource(origin="submit directory", kind=kind, location="/x/src.tar.gz")
    step = make_fetch_step(job, Code(entry_point="t.py", source=source), Masker())
    assert step.argv[-3:] == ("fetch", "/x/src.tar.gz", str(opt_ml.root / "code"))
    assert ("-IS" in step.argv) is (kind != "s3")  # boto3 lies in site-packages
    folder = source.replace(kind="folder")
    assert make_fetch_step(job, Code(entry_point="t.py", source=folder), Masker()) is None


def test_planning_starts_nothing_and_writes_nothing(opt_ml, plan):
    before = sorted(Path(opt_ml.root).rglob("*"))
    plan("run.sh", sagemaker_torch_distributed_enabled="true")
    written = {file.name for file in set(Path(opt_ml.root).rglob("*")) - set(before)}
    assert written == {"hyperparameters.json"}


@pytest.mark.parametrize("has_efa", [False, True])
def test_efa_is_switched_on_by_device_not_by_instance_name(opt_ml, has_efa):
    job = read_job(root=opt_ml.root, environ={"FI_EFA_USE_DEVICE_RDMA": "0"})
    job = job.replace(hardware=job.hardware.replace(has_efa=has_efa))
    made = make_network_environment(job, Distribution(launcher="python", hosts=("algo-1",)))
    assert ("FI_PROVIDER" in made) is has_efa
    assert "FI_EFA_USE_DEVICE_RDMA" not in made  # the user's own value wins
