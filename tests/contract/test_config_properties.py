"""Whatever lies in /opt/ml/input/config: a job starts, or it is told what is wrong and the fix.

Never a traceback of ours, and never an environment or command line that no process can be given.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stoker.contract.code import find_code
from stoker.contract.environment import drop_oversized, make_environment
from stoker.contract.hyperparameters import make_arguments
from stoker.contract.job import read_job
from stoker.contract.params import make_params
from stoker.contract.secrets import Masker
from stoker.errors import StokerError
from stoker.runtime.launch import launch
from stoker.runtime.plan import make_fetch_step, make_plan
from stoker.runtime.program import find_program
from stoker.runtime.signals import unblock_signals
from stoker.runtime.step import LaunchStep

# The same examples on every machine and in every run.
repeatable = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=80,
    suppress_health_check=list(HealthCheck),
)

HYPERPARAMETERS = {
    "epochs": "3",
    "lr": "1e-3",
    "optimizer": '"adam"',
    "layers": "[64, 32]",
    "batch-size": "64",
    "sagemaker_program": '"train.py"',
    "sagemaker_submit_directory": '"/opt/ml/code"',
    "sagemaker_container_log_level": "20",
    "sagemaker_job_name": '"job-1"',
    "sagemaker_region": '"us-east-1"',
    "sagemaker_torch_distributed_enabled": "true",
    "sagemaker_mpi_num_of_processes_per_host": "2",
    "sagemaker_distribution_instance_groups": '["train"]',
}
CHANNELS = {
    "train": {
        "ContentType": "text/csv",
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    },
    "v1.2-data": {"TrainingInputMode": "Pipe", "RecordWrapperType": "RecordIO"},
}
RESOURCES = {
    "current_host": "algo-1",
    "hosts": ["algo-1", "algo-2"],
    "network_interface_name": "eth0",
    "current_instance_type": "ml.g5.xlarge",
    "current_group_name": "train",
    "instance_groups": [
        {"instance_group_name": "train", "instance_type": "ml.g5.xlarge", "hosts": ["algo-1"]},
        {"instance_group_name": "data", "instance_type": "ml.c5.xlarge", "hosts": ["algo-2"]},
    ],
    "topology": [{"hostName": "algo-1", "capacityUnitId": "cu"}],
}
SERVICES = {
    "checkpointconfig.json": {"LocalPath": "/opt/ml/checkpoints"},
    "tensorboardoutputconfig.json": {"LocalPath": "/opt/ml/output/tensorboard"},
    "debughookconfig.json": {"LocalPath": "/opt/ml/output/tensors", "HookParameters": {}},
    "profilerconfig.json": {"ProfilingIntervalInMilliseconds": 500},
}
REAL = {
    "hyperparameters": HYPERPARAMETERS,
    "channels": CHANNELS,
    "resources": RESOURCES,
    **SERVICES,
}

ODD_TEXTS = (
    *("", " ", "\0", "a\0b", "\ud800", "\udcff", "it's", "a=b", "=", "a\nb", "\r", "\x1b[0m"),
    *("-x", "--", "..", "../x", "/", ".", "...", "//", "/dev/null", "~", "x" * 300, "x" * 5000),
    *("9" * 5000, "1e999", "-0", "NaN", "Infinity", "null", "true", "[]", "{}", '"', '""'),
    *('"a\\u0000b"', '"\\ud800"', "{" * 50, "[" * 3000, "٣", "é", "s3://", "s3://b", "file://"),
    *(
        "train.py",
        "train.sh",
        "pkg",
        "pkg.module",
        "pkg/module.py",
        ".train",
        "train.",
        "x" * 140_000,
    ),
)
texts = st.sampled_from(ODD_TEXTS) | st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\0\n='\"\\\ud800"), max_size=12
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**4290, 10**4299)
    | st.floats()
    | texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
reserved_names = st.sampled_from(
    [*HYPERPARAMETERS, "sagemaker_mpi_enabled", "sagemaker_pytorch_ddp_enabled", "sagemaker_"]
)


def prepare(root: Path, environ: dict[str, str]) -> LaunchStep:
    """All the launcher does before it starts the user's program, as entry.py does it."""
    job = read_job(root=root, environ=environ)
    mask = Masker(job.environ, job.hyperparameters.raw)
    code = find_code(
        job.paths,
        hyperparameters=job.hyperparameters,
        channels=job.channels,
        environ=environ,
    )
    fetch = make_fetch_step(job, code, mask)
    folder = code.source.location if fetch is None else job.paths.code_dir
    program = find_program(folder, code.entry_point)
    variables = make_environment(job, entry_point=program.entry_point, code_dir=program.folder)
    kept, left_out = drop_oversized(variables)
    assert kept.keys() | set(left_out) == variables.keys()
    plan = make_plan(job, program, crash_dir=f"{root}/crash", mask=mask)
    assert plan.worker.environ.keys() >= kept.keys()
    arguments = make_arguments(job.hyperparameters.values())
    assert len(plan.worker.argv) > len(arguments)
    mask(" ".join(plan.worker.argv) + str(job.hyperparameters.changed_texts()))
    return plan.worker


EXECUTED_ONE_IN = 10
LONGEST = 128 * 1024 - 2  # and its NUL: MAX_ARG_STRLEN


def execute(step: LaunchStep) -> None:
    """Really starts a process with this environment and these arguments."""
    child = launch(step.replace(argv=("/bin/true", *step.argv[1:]), folder="/"))
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) == 0
    finally:
        unblock_signals()
        os.close(child.stdout)
        os.close(child.stderr)


def assert_can_be_executed(step: LaunchStep) -> None:
    """The same without the cost of a process: what the kernel and the C library refuse."""
    assert not [name for name in step.environ if "=" in name or not name]
    texts = [*step.argv, *step.environ, *step.environ.values()]
    assert not [text for text in texts if "\0" in text], "a NUL that no process can be given"
    # Other strings that are too long are refused by launch(), with a fix.
    ours = {name: text for name, text in step.environ.items() if name.startswith("SM_")}
    assert not [
        n for n, text in ours.items() if len(f"{n}={text}".encode("utf-8", "replace")) > LONGEST
    ]


@pytest.fixture
def check(tmp_path, write_root):
    """Starts a job of these configs, or has it say what is wrong and how to fix it."""
    root = tmp_path / "opt-ml"
    (root / "code/pkg").mkdir(parents=True)
    for name in ("pkg/__init__.py", "pkg/module.py", "train.sh"):
        (root / "code" / name).touch()
    number = itertools.count()

    def start(configs: dict[str, object], environ: dict[str, str]) -> None:
        for file in root.glob("input/config/*.json"):
            file.unlink()
        step = prepare(write_root(root, **configs), {"PATH": os.defpath, **environ})
        assert_can_be_executed(step)
        if next(number) % EXECUTED_ONE_IN == 0:
            execute(step)

    def start_or_refuse(configs: dict[str, object], environ: dict[str, str] | None = None) -> None:
        refusal = None
        try:
            start({**REAL, **configs}, environ or {})
        except StokerError as error:
            refusal = error
        if refusal is not None:
            assert refusal.message.strip()
            assert refusal.fix.strip(), f"no fix for: {refusal.message}"

    return start_or_refuse


def test_the_real_files_start_a_process(tmp_path, write_root):
    execute(prepare(write_root(tmp_path, **REAL), {"PATH": os.defpath}))


@given(st.sampled_from(list(REAL)), st.binary(max_size=60))
@repeatable
@example("hyperparameters", b"")
@example("resources", b"\xff\xfe{\x00}\x00")
@example("channels", b"\xef\xbb\xbf{}")
def test_any_bytes_in_a_config_file(check, name, content):
    check({name: content})


@given(st.sampled_from(list(REAL)), st.data())
@repeatable
def test_a_truncated_or_damaged_real_file(check, name, data):
    content = bytearray(json.dumps(REAL[name]).encode())
    end = data.draw(st.integers(0, len(content)))
    if data.draw(st.booleans()) and end < len(content):
        content[end] = data.draw(st.integers(0, 255))
    else:
        del content[end:]
    check({name: bytes(content)})


@given(st.sampled_from(list(REAL)), json_values)
@repeatable
def test_any_json_in_a_config_file(check, name, value):
    check({name: value})


def places(value: object, path: tuple = ()) -> list[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if path else []
    for key, child in inner if isinstance(value, dict | list) else ():
        found += places(child, (*path, key)) if isinstance(child, dict | list) else [(*path, key)]
    return found


PLACES = [(name, path) for name, content in REAL.items() for path in places(content)]


@pytest.mark.parametrize(
    ("name", "path"), PLACES, ids=[".".join(map(str, (name, *path))) for name, path in PLACES]
)
def test_a_wrong_value_at_every_place(check, name, path):
    wrong = (None, True, -1, 1.5, 10**400, math.inf, [], [None], {}, {"a": []}, [[1]], *ODD_TEXTS)
    faults = []
    for value in wrong:
        configs = copy.deepcopy(REAL)
        target = configs[name]
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value
        try:
            check(configs)
        except Exception as error:
            faults.append(f"{value!r:.40}: {type(error).__name__}: {error!s:.120}")
    assert not faults, "\n".join(faults)


@given(st.dictionaries(texts | reserved_names, json_values | texts, max_size=6), st.booleans())
@repeatable
@example({"a=b": "1", "it's\n": "x'; rm -rf /; echo '"}, True)
@example({"x": '"a\\u0000b"'}, False)
def test_any_hyperparameters(check, hyperparameters, encode):
    sent = {key: json.dumps(value) if encode else value for key, value in hyperparameters.items()}
    sent.setdefault("sagemaker_program", "train.py")
    check({"hyperparameters": sent})


@given(st.dictionaries(texts, st.just({"TrainingInputMode": "File"}) | json_values, max_size=4))
@repeatable
def test_any_channel_names(check, channels):
    check({"channels": channels})


@given(st.lists(texts, max_size=4), texts, st.lists(texts, max_size=3))
@repeatable
@example(["a\0b"], "a\0b", ["g"])
def test_any_host_and_group_names(check, hosts, group, more):
    resources = {
        "hosts": hosts,
        "current_host": hosts[0] if hosts else None,
        "current_group_name": group,
        "network_interface_name": group,
        "current_instance_type": group,
        "instance_groups": [
            {"instance_group_name": name, "hosts": hosts} for name in (group, *more)
        ],
    }
    check({"resources": resources})


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("SAGEMAKER_PROGRAM", "SAGEMAKER_SUBMIT_DIRECTORY", "CUDA_VISIBLE_DEVICES"),
                *("SAGEMAKER_CONTAINER_LOG_LEVEL", "CHECKPOINT_CONFIG_FILE_PATH", "AWS_REGION"),
                *("TRAINING_JOB_NAME", "PYTHONPATH", "STOKER_PEER_LIMIT_SECONDS", "API_KEY"),
                *("SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY", "SMPROFILER_CONFIG_PATH"),
            ]
        ),
        # What a real environment can hold: no NUL, undecodable bytes as surrogate escapes.
        texts.map(lambda text: text.replace("\0", "").encode("utf-8", "replace"))
        .map(lambda raw: raw[:100_000] + b"\xff" * (len(raw) % 2))
        .map(os.fsdecode),
        max_size=4,
    )
)
@repeatable
@example({"SAGEMAKER_CONTAINER_LOG_LEVEL": "9" * 5000})
@example({"SAGEMAKER_PROGRAM": "x" * 300})
@example({"SAGEMAKER_PROGRAM": "."})
@example({"CHECKPOINT_CONFIG_FILE_PATH": "x" * 5000})
def test_any_environment(check, environ):
    check({}, environ)


# Just below the depth at which reading gives up lies one at which writing does.
DEPTHS = (1, 100, 500, *range(900, 1000), 100_000)


@pytest.mark.parametrize("name", ["hyperparameters", "channels", "resources", *SERVICES])
@pytest.mark.parametrize("kind", ["list", "object"])
def test_nesting_of_any_depth(check, name, kind):
    opening, closing = ("[", "]") if kind == "list" else ('{"a":', "}")
    key, real = next(iter(REAL[name].items()))
    others = {k: v for k, v in REAL[name].items() if k != key}
    value = json.dumps({key: "NESTED", **others})
    beside = json.dumps({key: real, **others, "unknown": "NESTED"})
    faults = []
    for depth in DEPTHS if name not in SERVICES else DEPTHS[::20]:
        nested = f"{opening * depth}1{closing * depth}"
        for text in (value, beside, '"NESTED"'):
            try:
                check({name: text.replace('"NESTED"', nested).encode()})
            except Exception as error:
                faults.append(f"depth {depth}: {type(error).__name__}: {error!s:.100}")
    assert not faults, "\n".join(faults[:8])


def test_a_hyperparameter_nested_to_any_depth(check):
    faults = []
    for depth in DEPTHS:
        sent = {"sagemaker_program": "train.py", "deep": "[" * depth + "]" * depth}
        try:
            check({"hyperparameters": sent})
        except Exception as error:
            faults.append(f"depth {depth}: {type(error).__name__}: {error!s:.100}")
    assert not faults, "\n".join(faults[:8])


# What SDK v2 sends (json.dumps of every value) and what SDK v3, boto3 and the tuner send (str()).
plain_texts = st.text(st.characters(exclude_categories=("Cs",)))
json_content = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | plain_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_texts, inner, max_size=4),
    max_leaves=8,
)
params = st.one_of(
    st.integers(),
    st.floats(),
    plain_texts,
    st.booleans(),
    st.lists(json_content, max_size=5),
    st.dictionaries(plain_texts, json_content, max_size=5),
)


def same(value: object, expected: object) -> bool:
    both_nan = value != value and expected != expected
    return type(value) is type(expected) and (both_nan or value == expected)


@given(params)
@repeatable
def test_params_come_back_as_sdk_v2_sends_them(value):
    read = make_params({"x": json.dumps(value)}, {"x": type(value)})
    assert same(read.x, value)


@given(params)
@repeatable
def test_params_come_back_as_sdk_v3_and_boto3_send_them(value):
    if isinstance(value, str) and value.startswith('"'):
        return  # a bare text in quotes cannot be told from a JSON-quoted one
    bare = json.dumps(value) if isinstance(value, list | dict) else str(value)
    assert same(make_params({"x": bare}, {"x": type(value)}).x, value)


@given(st.dictionaries(texts, texts, max_size=5), st.dictionaries(texts, json_values, max_size=5))
@repeatable
def test_params_fit_or_name_every_mistake(sent, defaults):
    try:
        made = make_params(sent, defaults)
    except StokerError as error:
        refusal = error
    else:
        assert made.to_dict().keys() == defaults.keys()
        return
    assert refusal.message
    assert refusal.fix
