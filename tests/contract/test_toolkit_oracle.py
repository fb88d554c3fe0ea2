"""The bundled toolkit's own Environment is the oracle of our reading of a job.

Both read the same tree, each in the way it is really used; every variable and argument is
compared. What differs on purpose is in DIFFERENCES, and docs/contract-differences.md tells users.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from stoker.contract.code import find_code
from stoker.contract.environment import make_environment
from stoker.contract.hyperparameters import make_arguments
from stoker.contract.job import read_job
from stoker.errors import StokerError
from stoker.runtime.program import find_program

DOCS = Path(__file__).resolve().parents[2] / "docs/contract-differences.md"

# The toolkit makes folders and changes its environment when imported: a process of its own.
ORACLE = """
import json, os, sys
from sagemaker_training.environment import Environment
environment = Environment()
beside = {n: os.environ[n] for n in ("CURRENT_HOST", "SAGEMAKER_JOB_NAME", "SAGEMAKER_REGION")}
with open(sys.argv[1], "w") as file:
    variables = {**environment.to_env_vars(), **beside}
    json.dump({"variables": variables, "arguments": environment.to_cmd_args()}, file)
"""


class Difference(NamedTuple):
    """One thing we do otherwise on purpose, and the cases that show it (None: every one)."""

    reason: str
    cases: frozenset[str] | None = None


def only_in(*cases: str) -> frozenset[str]:
    return frozenset(cases)


V3 = "the SDK v3 drivers set it: scripts written for either find what they expect"
OURS = "scripts need the place, and no launcher told it"
BY_DEVICE = "devices are counted from /dev: asking the vendor's program costs up to seconds"

DIFFERENCES: dict[str, Difference] = {
    "SM_INPUT_DATA_DIR": Difference(V3),
    "SM_OUTPUT_FAILURE": Difference(V3),
    "SM_CURRENT_HOST_RANK": Difference(V3),
    "SM_HOST_COUNT": Difference(V3),
    "SM_MASTER_ADDR": Difference(V3),
    "SM_MASTER_PORT": Difference(V3),
    "SM_SOURCE_DIR": Difference(V3),
    "SM_ENTRY_SCRIPT": Difference(V3),
    "SM_CHECKPOINT_DIR": Difference(OURS),
    "SM_TENSORBOARD_DIR": Difference(OURS),
    "SM_…_… next to SM_…-…": Difference(
        "no shell can read a name with - or .: the _ spelling is set beside the toolkit's",
        only_in("channel names with dots and dashes", "every raw value"),
    ),
    "SM_LOG_LEVEL": Difference(
        "SAGEMAKER_CONTAINER_LOG_LEVEL has an effect, and names become their numbers",
        only_in("log level by variable", "log level by name"),
    ),
    "SM_MODULE_DIR": Difference(
        "SAGEMAKER_SUBMIT_DIRECTORY has an effect, and the default is where the code really runs",
        only_in("submit directory by variable", "v3 code channel", "program in the image"),
    ),
    "SM_USER_ENTRY_POINT": Difference(
        "always relative to SM_MODULE_DIR, also for a program baked into the image",
        only_in("program in the image"),
    ),
    "SM_MODULE_NAME": Difference(
        "always relative to SM_MODULE_DIR, also for a program baked into the image",
        only_in("program in the image"),
    ),
    "SM_NUM_CPUS": Difference(
        "processors this process may use, not those of the machine", only_in("pinned to one CPU")
    ),
    "SM_NUM_GPUS": Difference(BY_DEVICE, only_in("vendor programs on PATH")),
    "SM_NUM_NEURONS": Difference(
        BY_DEVICE, only_in("vendor programs on PATH", "instance type with a fixed core count")
    ),
    "SAGEMAKER_REGION": Difference(
        "AWS_REGION, where the job really runs, wins over the hyperparameter",
        only_in("region of the platform against the hyperparameter", "region of the platform"),
    ),
    "SM_TRAINING_ENV: input_data_dir": Difference(V3),
    "SM_TRAINING_ENV: master_addr": Difference(V3),
    "SM_TRAINING_ENV: master_port": Difference(V3),
    "SM_TRAINING_ENV: is_modelparallel_enabled": Difference(
        "SageMaker's model-parallel launcher is not in this image",
        only_in("SageMaker's own launchers"),
    ),
    "SM_TRAINING_ENV: is_smddprun_installed": Difference(
        "never used by our launcher; asking costs a process", only_in("SageMaker's own launchers")
    ),
    "SM_TRAINING_ENV: is_smddpmprun_installed": Difference(
        "never used by our launcher; asking costs a process", only_in("SageMaker's own launchers")
    ),
    "refused by the toolkit": Difference(
        "an absent file means nothing configured; a log level may be a name",
        only_in("no config files", "log level variable by name"),
    ),
    "refused by stoker": Difference(
        "a file that contradicts itself fails now, with its fix, and not an hour into the job",
        only_in("current host is none of the hosts", "channel name that leaves its folder"),
    ),
}


class Case(NamedTuple):
    """One job: the three config files, the environment, and where the code is."""

    hyperparameters: object = {}
    channels: object = {}
    resources: object = {"current_host": "algo-1", "hosts": ["algo-1"]}
    environ: Mapping[str, str] = MappingProxyType({"SAGEMAKER_PROGRAM": "train.py"})
    code: str = "mounted"
    programs: Mapping[str, str] = MappingProxyType({})
    cpus: int | None = None


def file_channel(**more: str) -> dict[str, str]:
    return {"TrainingInputMode": "File", **more}


def service_resources(*groups: tuple[str, str, list[str]], current: str = "algo-1") -> dict:
    here = next(group for group in groups if current in group[2])
    return {
        "current_host": current,
        "current_instance_type": here[1],
        "current_group_name": here[0],
        "hosts": [host for group in groups for host in group[2]],
        "network_interface_name": "eth0",
        "instance_groups": [
            {"instance_group_name": name, "instance_type": kind, "hosts": hosts}
            for name, kind, hosts in groups
        ],
    }


def v2(**more: str) -> dict[str, str]:
    return {
        "epochs": "3",
        "lr": "0.001",
        "optimizer": '"adam"',
        "layers": "[64, 32]",
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": '"s3://bucket/job/source/sourcedir.tar.gz"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": '"job-1"',
        "sagemaker_region": '"us-east-1"',
        **more,
    }


SERVICE_CHANNELS = {
    "train": {
        "ContentType": "text/csv",
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    },
    "validation": {
        "TrainingInputMode": "FastFile",
        "S3DistributionType": "ShardedByS3Key",
        "RecordWrapperType": "None",
    },
}
ONE = ("homogeneousCluster", "ml.g5.xlarge", ["algo-1"])
THREE = ("homogeneousCluster", "ml.g5.xlarge", ["algo-1", "algo-2", "algo-3"])
ELEVEN = ("homogeneousCluster", "ml.p4d.24xlarge", sorted(f"algo-{i + 1}" for i in range(11)))
MIXED = (
    ("data", "ml.c5.xlarge", ["algo-1", "algo-2"]),
    ("train", "ml.g5.xlarge", ["algo-3", "algo-4"]),
)
SERVICE_ENVIRON = {
    "TRAINING_JOB_NAME": "job-1",
    "TRAINING_JOB_ARN": "arn:aws:sagemaker:us-east-1:111111111111:training-job/job-1",
    "AWS_REGION": "us-east-1",
}
V3_CHANNELS = {name: file_channel() for name in ("train", "code", "sm_drivers")}
V3_RESOURCES = {
    "current_host": "algo-1",
    "hosts": ["algo-1"],
    "network_interface_name": "ethwe",
    "current_instance_type": "local_cpu",
}
# Each raw value of the hyperparameter table in facts/container-contract.md, section 6.
RAW_VALUES = {
    "flag": "true",
    "off": "false",
    "none": "null",
    "small": "1e-4",
    "smaller": "1e-5",
    "version": "1.10",
    "quoted_version": '"1.10"',
    "sha": "1234e56",
    "long": "12345678901234567890.1",
    "zeros": "007",
    "list": '[1, "a"]',
    "map": '{"c":true,"a":{"b":1}}',
    "inf": "Infinity",
    "minus_inf": "-Infinity",
    "nan": "NaN",
    "batch-size": "64",
    "d": "3",
    "empty": "",
    "": "no name",
    "text": 'it\'s a = b\nnext line $HOME \\ "x"',
    "unicode": "größe 火 \ud83d\ude00",
    "half": '"\\ud800"',
    "_tuning_objective_metric": '"loss"',
    "default_user_module_name": "train",
    "sagemaker_s3_output": '"s3://bucket/out"',
    "sagemaker_enable_cloudwatch_metrics": "false",
    "sagemaker_estimator_class_name": '"PyTorch"',
}

CASES: dict[str, Case] = {
    "v2 local mode": Case(
        v2(sagemaker_submit_directory='"/opt/ml/code"'),
        {"train": file_channel()},
        {
            "current_host": "algo-1-x4j2k",
            "hosts": ["algo-1-x4j2k"],
            "network_interface_name": "eth0",
            "current_instance_type": "local",
        },
        {"TRAINING_JOB_NAME": "job-1", "AWS_REGION": "us-east-1"},
    ),
    "v3 local mode": Case(
        {"epochs": "3", "name": "adam"},
        {"train": file_channel()},
        V3_RESOURCES,
        {"TRAINING_JOB_NAME": "job-1", "SAGEMAKER_PROGRAM": "train.py"},
    ),
    "v3 code channel": Case(
        {"epochs": "3"},
        V3_CHANNELS,
        V3_RESOURCES,
        {"SAGEMAKER_PROGRAM": "train.py"},
        code="channel",
    ),
    "service": Case(v2(), SERVICE_CHANNELS, service_resources(ONE), SERVICE_ENVIRON),
    "three hosts": Case(
        v2(), SERVICE_CHANNELS, service_resources(THREE, current="algo-2"), SERVICE_ENVIRON
    ),
    "eleven hosts": Case(
        v2(sagemaker_torch_distributed_enabled="true"),
        SERVICE_CHANNELS,
        service_resources(ELEVEN, current="algo-10"),
        SERVICE_ENVIRON,
    ),
    "heterogeneous groups": Case(
        v2(), SERVICE_CHANNELS, service_resources(*MIXED), SERVICE_ENVIRON
    ),
    "heterogeneous, one group distributed": Case(
        v2(
            sagemaker_torch_distributed_enabled="true",
            sagemaker_distribution_instance_groups='["train"]',
        ),
        SERVICE_CHANNELS,
        service_resources(*MIXED, current="algo-4"),
        SERVICE_ENVIRON,
    ),
    "heterogeneous, seen from the other group": Case(
        v2(
            sagemaker_torch_distributed_enabled="true",
            sagemaker_distribution_instance_groups='["train"]',
        ),
        SERVICE_CHANNELS,
        service_resources(*MIXED, current="algo-1"),
        SERVICE_ENVIRON,
    ),
    "minimal resource config": Case(),
    "hosts not sorted": Case(resources={"current_host": "b", "hosts": ["c", "b", "a"]}),
    "ultraserver topology": Case(
        resources={
            **service_resources(ONE),
            "topology": [{"hostName": "algo-1", "capacityUnitId": "cu-1"}],
        }
    ),
    "unknown keys everywhere": Case(
        {"epochs": "3"},
        {"train": {**file_channel(), "NewKey": [1, {"a": None}]}},
        {**service_resources(ONE), "new_key": {"deep": [1.5, True]}},
    ),
    "every raw value": Case(RAW_VALUES),
    "values that are no texts": Case({"a": 1, "b": 1.5, "c": True, "d": [1], "e": {"x": None}}),
    "torch_distributed": Case(
        v2(
            sagemaker_torch_distributed_enabled="true",
            sagemaker_mpi_num_of_processes_per_host="2",
        ),
        SERVICE_CHANNELS,
        service_resources(THREE),
        SERVICE_ENVIRON,
    ),
    "MPI": Case(
        v2(
            sagemaker_mpi_enabled="true",
            sagemaker_mpi_num_of_processes_per_host="8",
            sagemaker_mpi_custom_mpi_options='"-x A"',
        ),
        SERVICE_CHANNELS,
        service_resources(THREE),
        SERVICE_ENVIRON,
    ),
    "channel names with dots and dashes": Case(
        channels={"my-data": file_channel(), "v1.2": file_channel(), "plain_one": file_channel()}
    ),
    "spellings that clash": Case(
        {"batch_size": "1", "batch-size": "2", "a-b": "3", "a_b": "4", "LR": "5", "lr": "6"},
        {"my_data": file_channel(), "my-data": file_channel()},
    ),
    "log level": Case({"sagemaker_container_log_level": "10"}),
    "log level by name": Case({"sagemaker_container_log_level": '"WARNING"'}),
    "log level by variable": Case(
        environ={"SAGEMAKER_PROGRAM": "train.py", "SAGEMAKER_CONTAINER_LOG_LEVEL": "40"}
    ),
    "log level variable by name": Case(
        environ={"SAGEMAKER_PROGRAM": "train.py", "SAGEMAKER_CONTAINER_LOG_LEVEL": "debug"}
    ),
    "program by variable and hyperparameter": Case(
        {"sagemaker_program": '"other.py"'}, environ={"SAGEMAKER_PROGRAM": "train.py"}
    ),
    "submit directory by variable": Case(
        environ={"SAGEMAKER_PROGRAM": "train.py", "SAGEMAKER_SUBMIT_DIRECTORY": "{elsewhere}"}
    ),
    "submit directory by variable and hyperparameter": Case(
        {"sagemaker_submit_directory": '"s3://bucket/sourcedir.tar.gz"'},
        environ={"SAGEMAKER_PROGRAM": "train.py", "SAGEMAKER_SUBMIT_DIRECTORY": "{elsewhere}"},
    ),
    "program in the image": Case(
        environ={"SAGEMAKER_PROGRAM": "{elsewhere}/train.py"}, code="image"
    ),
    "training module": Case(
        environ={"SAGEMAKER_PROGRAM": "train.py", "SAGEMAKER_TRAINING_MODULE": "pkg.mod:main"}
    ),
    "region of the platform": Case(
        environ={"SAGEMAKER_PROGRAM": "train.py", "AWS_REGION": "eu-west-1"}
    ),
    "region of the platform against the hyperparameter": Case(
        {"sagemaker_region": '"us-east-1"'},
        environ={"SAGEMAKER_PROGRAM": "train.py", "AWS_REGION": "eu-west-1"},
    ),
    "region by AWS_DEFAULT_REGION": Case(
        environ={"SAGEMAKER_PROGRAM": "train.py", "AWS_DEFAULT_REGION": "eu-west-1"}
    ),
    "pinned to one CPU": Case(cpus=1),
    "vendor programs on PATH": Case(
        programs={
            "nvidia-smi": "for i in $(seq 99); do echo GPU $i: fake; done",
            "neuron-ls": "echo '[{\"nc_count\": 77}]'",
        }
    ),
    "instance type with a fixed core count": Case(
        resources=service_resources(("g", "ml.trn2.48xlarge", ["algo-1"]))
    ),
    "SageMaker's own launchers": Case(
        environ={"SAGEMAKER_PROGRAM": "train.py", "SM_HP_MP_PARAMETERS": '{"partitions": 2}'},
        programs={"smddprun": "exit 0", "smddpmprun": "exit 0"},
    ),
    "no config files": Case(None, None, None),
    "current host is none of the hosts": Case(
        resources={"current_host": "algo-9", "hosts": ["algo-1"]}
    ),
    "channel name that leaves its folder": Case(channels={"..": file_channel()}),
}


class Reading(NamedTuple):
    """What a script would be given."""

    variables: dict[str, str]
    arguments: list[str]


def read_with_toolkit(root: Path, environ: dict[str, str], scratch: Path) -> Reading | None:
    """The oracle's answer; None when it fails."""
    answer = scratch / "answer.json"
    ended = subprocess.run(
        [sys.executable, "-c", ORACLE, answer],
        env={**environ, "SAGEMAKER_BASE_DIR": str(root), "AWS_CONFIG_FILE": os.devnull},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=240,
    )
    assert b"ModuleNotFoundError" not in ended.stderr, ended.stderr.decode()
    return Reading(**json.loads(answer.read_text())) if ended.returncode == 0 else None


def read_with_stoker(root: Path, environ: dict[str, str]) -> Reading | None:
    """Our own answer, made as the launcher makes it; None when the job is refused."""
    try:
        job = read_job(root=root, environ=environ)
        code = find_code(
            job.paths,
            hyperparameters=job.hyperparameters,
            channels=job.channels,
            environ=environ,
        )
    except StokerError:
        return None
    is_folder = code.source.kind == "folder"  # all else is fetched to /opt/ml/code first
    folder = code.source.location if is_folder else job.paths.code_dir
    program = find_program(folder, code.entry_point)
    variables = make_environment(job, entry_point=program.entry_point, code_dir=program.folder)
    return Reading(variables, make_arguments(job.hyperparameters.values()))


def find_differences(theirs: Reading | None, ours: Reading | None) -> dict[str, tuple]:
    """Name of each difference → (the toolkit's value, ours)."""
    if theirs is None or ours is None:
        both = theirs is None and ours is None
        name = "refused by both" if both else "refused by the toolkit"
        return {"refused by stoker" if theirs is not None else name: (theirs, ours)}
    found = _differing(theirs.variables, ours.variables)
    doubled = _underscored(theirs.variables)
    for name in [n for n in found if n in doubled and n not in theirs.variables]:
        assert found.pop(name)[1] in doubled[name]
        found["SM_…_… next to SM_…-…"] = (None, name)
    if "SM_TRAINING_ENV" in found:
        nested = _differing(*(json.loads(text) for text in found.pop("SM_TRAINING_ENV")))
        # A field that differs as a variable differs there too, for the same reason.
        same = {key for key in nested if f"SM_{key.upper()}" in found}
        added = {"input_data_dir", "master_addr", "master_port"}
        found |= {f"SM_TRAINING_ENV: {k}": v for k, v in nested.items() if k not in same - added}
    if theirs.arguments != ours.arguments:
        found["arguments"] = (theirs.arguments, ours.arguments)
    return found


def _differing(theirs: dict, ours: dict) -> dict[str, tuple]:
    # Compared as texts: NaN is not equal to itself, and 1 is not True to a script.
    return {
        name: (theirs.get(name), ours.get(name))
        for name in theirs.keys() | ours.keys()
        if name not in theirs
        or name not in ours
        or json.dumps(theirs[name], sort_keys=True) != json.dumps(ours[name], sort_keys=True)
    }


def _underscored(variables: dict[str, str]) -> dict[str, list[str]]:
    doubled: dict[str, list[str]] = {}
    for name, text in variables.items():
        plain = name.replace("-", "_").replace(".", "_")
        if plain != name and name.startswith(("SM_HP_", "SM_CHANNEL_")):
            doubled.setdefault(plain, []).append(text)
    return doubled


@pytest.fixture
def readings(make_root, tmp_path):
    """Lets both read one case."""

    def read(case: Case) -> tuple[Reading | None, Reading | None]:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "train.py").touch()
        root = make_root(
            program="train.py" if case.code == "mounted" else "",
            hyperparameters=case.hyperparameters,
            channels=case.channels,
            resources=case.resources,
        )
        if case.code == "channel":
            (root / "input/data/code").mkdir()
            (root / "input/data/code/train.py").touch()
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, body in case.programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name).chmod(0o755)
        environ = {
            "PATH": f"{folder}:{os.defpath}",
            "HOME": str(tmp_path),
            **{
                name: text.replace("{elsewhere}", str(elsewhere))
                for name, text in case.environ.items()
            },
        }
        allowed = os.sched_getaffinity(0)
        if case.cpus is not None:
            os.sched_setaffinity(0, sorted(allowed)[: case.cpus])
        try:
            return read_with_toolkit(root, environ, tmp_path), read_with_stoker(root, environ)
        finally:
            os.sched_setaffinity(0, allowed)

    return read


@pytest.mark.parametrize("name", CASES)
def test_we_read_a_job_as_the_toolkit_does_except_where_listed(name, readings):
    if name == "pinned to one CPU" and os.cpu_count() == 1:
        pytest.skip("a machine of one CPU cannot show this")
    theirs, ours = readings(CASES[name])
    found = find_differences(theirs, ours)
    if theirs is None or ours is None:
        listed = {n for n, d in DIFFERENCES.items() if d.cases and name in d.cases}
    else:
        listed = {n for n, d in DIFFERENCES.items() if d.cases is None or name in d.cases}
    new = {n: pair for n, pair in found.items() if n not in listed}
    gone = listed - found.keys()
    assert not new, f"differences that DIFFERENCES does not list for this case: {new}"
    assert not gone, f"listed in DIFFERENCES, but there is no difference any more: {gone}"


def test_the_table_of_differences_names_only_cases_there_are():
    named = {case for difference in DIFFERENCES.values() for case in difference.cases or ()}
    assert named <= CASES.keys()


def test_users_are_told_of_exactly_these_differences():
    section = DOCS.read_text().split("## From the stock toolkit", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == DIFFERENCES.keys()
