"""What a script does with smdebug, one function a fault: run as a program by test_smdebug_faults.

    python smdebug_faults.py SMDEBUG FOLDER RESULTS [S3_OUT_DIR]

SMDEBUG is a wheel or a folder with one. Each result is a value, or the error as text.
"""

import copy
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import boto3
import numpy as np
import smdebug.pytorch as smd
import torch
from smdebug.core.config_constants import CHECKPOINT_CONFIG_FILE_PATH_ENV_VAR
from smdebug.core.state_store import StateStore
from smdebug.core.tfevent.event_file_reader import EventFileReader
from smdebug.core.utils import error_handling_agent
from smdebug.profiler.profiler_config_parser import ProfilerConfigParser
from smdebug.rules import Rule
from torch import nn

FOLDER = Path(sys.argv[2])
EVERY_STEP = smd.SaveConfig(save_interval=1)


def hook_in(name: str, **settings) -> smd.Hook:
    settings = {"save_config": EVERY_STEP, **settings}
    return smd.Hook(out_dir=str(FOLDER / name), **settings)


def recorded(name: str, tensors: dict[str, torch.Tensor], **settings) -> smd.create_trial:
    """A trial of one step in which each of the tensors was recorded."""
    hook = hook_in(name, include_regex=["probe"], **settings)
    net = nn.Linear(1, 1)
    hook.register_module(net)
    net(torch.ones(1, 1))
    for key, tensor in tensors.items():
        hook.record_tensor_value(f"probe_{key}", tensor)
    hook.close()
    return smd.create_trial(str(FOLDER / name))


def value_of(trial, key: str) -> np.ndarray:
    return trial.tensor(f"probe_{key}_output_0").value(0)


def bfloat16():
    value = value_of(recorded("bf16", {"x": torch.tensor([1.5, -2.0]).bfloat16()}), "x")
    return [str(value.dtype), value.tolist()]


def float8():
    value = value_of(recorded("f8", {"x": torch.tensor([1.5]).to(torch.float8_e4m3fn)}), "x")
    return [str(value.dtype), value.tolist()]


def bfloat16_with_the_default_configuration():
    hook = smd.Hook(out_dir=str(FOLDER / "default"))
    net, loss = nn.Linear(2, 1).bfloat16(), nn.MSELoss()
    hook.register_module(net)
    hook.register_loss(loss)
    loss(net(torch.ones(1, 2).bfloat16()), torch.zeros(1, 1).bfloat16()).backward()
    hook.close()
    return error_handling_agent.disable_smdebug


def sparse_gradients():
    hook = hook_in("sparse", include_collections=["gradients"])
    net = nn.Embedding(3, 2, sparse=True)
    hook.register_module(net)
    net(torch.tensor([1])).sum().backward()
    hook.close()
    tensor = smd.create_trial(str(FOLDER / "sparse")).tensor("gradient/Embedding_weight")
    return tensor.value(0).tolist()


def reductions_of_sparse_integer_and_float8_tensors():
    reductions = smd.ReductionConfig(reductions=["mean", "max"], norms=["l2"])
    tensors = {
        "sparse": torch.tensor([0.0, 4.0]).to_sparse(),
        "integer": torch.tensor([1, 3]),
        "boolean": torch.tensor([True, False]),
        "float8": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
    }
    trial = recorded("reductions", tensors, reduction_config=reductions)
    means = [trial.tensor(f"probe_{key}_output_0").reduction_value(0, "mean") for key in tensors]
    return [float(mean) for mean in means]


def integers():
    types = ("int8", "int16", "uint16", "uint32", "uint64", "complex64")
    tensors = {name: torch.tensor([1, 3]).to(getattr(torch, name)) for name in types}
    tensors["int8"] = torch.tensor([-1, 3], dtype=torch.int8)
    trial = recorded("integers", tensors)
    values = [value_of(trial, name) for name in types]
    assert values[0].tolist() == [-1, 3], values[0]
    return [str(value.dtype) for value in values]


def shape_beside_the_value():
    reductions = smd.ReductionConfig(save_raw_tensor=True, save_shape=True)
    trial = recorded("shape", {"x": torch.ones(2, 3)}, reduction_config=reductions)
    tensor = trial.tensor("probe_x_output_0")
    return [list(tensor.shape(0)), tensor.value(0).sum().item()]


def string_booleans():
    words = {"reductions": "mean", "save_raw_tensor": "True", "save_shape": "false"}
    parsed = smd.ReductionConfig.from_dict(words)
    return [parsed.save_raw_tensor, parsed.save_shape]


@dataclass
class Answer:
    logits: torch.Tensor
    note: str


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.as_dict, self.as_dataclass = AsDict(), AsDataclass()

    def forward(self, *, x):
        return self.as_dataclass(self.as_dict(x=x)["a"])


class AsDict(nn.Module):
    def forward(self, x):
        return {"a": x * 2, "b": [x * 3]}


class AsDataclass(nn.Module):
    def forward(self, x):
        return Answer(logits=x * 5, note="kept")


def dicts_dataclasses_and_keywords():
    hook = hook_in("forms", include_regex=["put_"])
    net = Net()
    hook.register_module(net)
    loss = nn.MSELoss()
    hook.register_loss(loss)
    loss(input=net(x=torch.ones(1)).logits, target=torch.zeros(1))
    hook.close()
    trial = smd.create_trial(str(FOLDER / "forms"))
    return {name: trial.tensor(name).value(0).item() for name in sorted(trial.tensor_names())}


def spot_state():
    """A checkpoint is written, overwritten with one of the same size, a second one is added."""
    checkpoints = FOLDER / "checkpoints"
    checkpoints.mkdir()
    config = FOLDER / "checkpointconfig.json"
    config.write_text(json.dumps({"LocalPath": str(checkpoints)}))
    os.environ[CHECKPOINT_CONFIG_FILE_PATH_ENV_VAR] = str(config)
    store, seen = StateStore(), []
    for second, name in enumerate(("a.pt", "a.pt", "b.pt", None), start=1):
        if name:
            (checkpoints / name).write_bytes(name.encode())
            os.utime(checkpoints / name, (second, second))
        seen.append(store.is_checkpoint_updated())
    del os.environ[CHECKPOINT_CONFIG_FILE_PATH_ENV_VAR]
    return seen


def scalars_stay_in_their_mode():
    hook = hook_in("scalars", export_tensorboard=True, include_collections=["weights"])
    net = nn.Linear(1, 1)
    hook.register_module(net)
    for mode in (smd.modes.TRAIN, smd.modes.EVAL):
        hook.set_mode(mode)
        net(torch.ones(1, 1))
        hook.save_scalar(f"of_{mode.name}", 1.0)
    hook.close()
    found = {}
    for mode in ("TRAIN", "EVAL"):
        folder = FOLDER / "scalars/tensorboard" / mode
        files = sorted(folder.glob("*.tfevents"))
        content = b"".join(file.read_bytes() for file in files)
        found[mode] = [
            tag for tag in ("of_TRAIN", "of_EVAL") if f"scalar/{tag}".encode() in content
        ]
    # Of the tensors themselves, each event says its mode. The first file is that of TRAIN.
    event_file = min(FOLDER.glob("scalars/events/*/*.tfevents"))
    tensors = EventFileReader(str(event_file)).read_tensors()
    found["first step"] = sorted({mode.name for _, _, _, mode, _ in tensors})
    return found


def save_tensor_into_new_collections():
    hook = hook_in("custom", include_collections=["weights"])
    net = nn.Linear(1, 1)
    hook.register_module(net)
    hook.save_tensor("mine", np.arange(3), collections_to_write=["first", "second"])
    net(torch.ones(1, 1)).sum().backward()
    hook.close()
    trial = smd.create_trial(str(FOLDER / "custom"))
    names = [trial.tensor_names(collection=name) for name in ("first", "second")]
    return [trial.tensor("mine").value(0).tolist(), *names]


def the_documented_rule():
    class VanishingGradientRule(Rule):
        def __init__(self, base_trial, threshold=0.0000001):
            super().__init__(base_trial, other_trials=None)
            self.threshold = float(threshold)

        def invoke_at_step(self, step):
            for tensorname in self.base_trial.tensors(collection="gradients"):
                tensor = self.base_trial.tensor(tensorname)
                if tensor.reduction_value(step, "mean", abs=True) < self.threshold:
                    return True
            return False

    hook = hook_in("rule", include_collections=["gradients"])
    net = nn.Linear(1, 1)
    hook.register_module(net)
    (net(torch.ones(1, 1)) * 0).sum().backward()
    hook.close()
    return VanishingGradientRule(smd.create_trial(str(FOLDER / "rule"))).invoke_at_step(0)


def out_dir_of_a_finished_job():
    hook_in("again", include_collections=["weights"]).close()
    return hook_in("again", include_collections=["weights"]).out_dir


def case_in_profilerconfig():
    config = FOLDER / "profilerconfig.json"
    fields = {"MetricsRegex": r"\S+Loader", "StartStep": 1, "NumSteps": 2}
    python = {"ProfilerName": "cProfile", "StartStep": 1}
    parameters = {
        "LocalPath": "/Mixed/Case",
        "DataloaderProfilingConfig": json.dumps(fields),
        "PythonProfilingConfig": json.dumps(python),
        "DetailedProfilingConfig": str({"StartStep": 3}),
    }
    config.write_text(json.dumps({"ProfilingParameters": parameters}))
    os.environ["SMPROFILER_CONFIG_PATH"] = str(config)
    try:
        read = ProfilerConfigParser().config
    finally:
        del os.environ["SMPROFILER_CONFIG_PATH"]
    names = [read.dataloader_profiling_config.valid_metrics_name("DataLoader")]
    names += [read.python_profiling_config.profiler_name]
    return [read.local_path, *names, read.detailed_profiling_config.start_step]


def booleans_in_profilerconfig():
    config = FOLDER / "profilerconfig.json"
    fields = json.dumps({"StartStep": 1, "DefaultProfiling": True})
    config.write_text(json.dumps({"ProfilingParameters": {"PythonProfilingConfig": fields}}))
    os.environ["SMPROFILER_CONFIG_PATH"] = str(config)
    try:
        return ProfilerConfigParser().config.python_profiling_config.start_step
    finally:
        del os.environ["SMPROFILER_CONFIG_PATH"]


def broken_field_in_profilerconfig():
    config = FOLDER / "profilerconfig.json"
    config.write_text(json.dumps({"ProfilingParameters": {"PythonProfilingConfig": "{"}}))
    os.environ["SMPROFILER_CONFIG_PATH"] = str(config)
    try:
        return ProfilerConfigParser().config.python_profiling_config.disabled
    finally:
        del os.environ["SMPROFILER_CONFIG_PATH"]


def compiled_models():
    hook = hook_in("compiled", export_tensorboard=True, save_all=True)
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    hook.register_module(net)
    compiled = torch.compile(net, backend="eager")
    for _ in range(2):
        compiled(torch.ones(1, 2)).sum().backward()
    hook.close()
    trial = smd.create_trial(str(FOLDER / "compiled"))
    gradients = trial.tensor("gradient/Sequential_0.weight").steps()
    return [trial.steps(), gradients, "Sequential_output_0" in trial.tensor_names()]


def copies_of_a_watched_model():
    hook = hook_in("copies", include_collections=["weights"])
    net = nn.Linear(1, 1)
    hook.register_module(net)
    outputs = [net(torch.ones(1, 1)).item(), copy.deepcopy(net)(torch.ones(1, 1)).item()]
    torch.save(net, FOLDER / "net.pt")
    outputs.append(torch.load(FOLDER / "net.pt", weights_only=False)(torch.ones(1, 1)).item())
    hook.close()
    return [len(set(outputs)), smd.create_trial(str(FOLDER / "copies")).steps()]


def names_of_unfinished_files():
    hook = hook_in("unfinished", include_collections=["weights"])
    net = nn.Linear(1, 1)
    hook.register_module(net)
    net(torch.ones(1, 1))
    files = [f for f in (FOLDER / "unfinished/events").rglob("*") if f.is_file()]
    hook.close()
    unfinished = {file.suffix for file in files if not file.exists()}
    return [*unfinished, smd.create_trial(str(FOLDER / "unfinished")).steps()]


def unfinished_files_in_s3():
    hook = smd.Hook(out_dir=f"{sys.argv[4]}-half", save_config=EVERY_STEP, save_all=True)
    net = nn.Linear(1, 1)
    hook.register_module(net)
    for _ in range(2):
        net(torch.ones(1, 1))
    hook.close()
    bucket = sys.argv[4].split("/")[2]
    index = "tensors-half/index/000000000/000000000001_worker_0.json"
    collections = "tensors-half/collections/000000000/worker_0_collections.json"
    for key in (f"{index}.tmp", f"{index}.7.sagemaker-ignore", f"{collections}.tmp"):
        boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=b"")
    trial = smd.create_trial(f"{sys.argv[4]}-half")
    return [trial.steps(), sorted(trial.workers())]


FAULTS = (
    *(names_of_unfinished_files, unfinished_files_in_s3),
    *(bfloat16, float8, bfloat16_with_the_default_configuration, sparse_gradients),
    *(reductions_of_sparse_integer_and_float8_tensors, integers, shape_beside_the_value),
    *(string_booleans, dicts_dataclasses_and_keywords, spot_state, scalars_stay_in_their_mode),
    *(save_tensor_into_new_collections, the_documented_rule, out_dir_of_a_finished_job),
    *(case_in_profilerconfig, booleans_in_profilerconfig, compiled_models),
    *(copies_of_a_watched_model, broken_field_in_profilerconfig),
)


def outcome_of(fault):
    error_handling_agent.disable_smdebug = False  # smdebug never does that by itself
    try:
        return fault()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def main():
    results = {fault.__name__: outcome_of(fault) for fault in FAULTS}
    Path(sys.argv[3]).write_text(json.dumps(results))
    error_handling_agent.disable_smdebug = False
    if len(sys.argv) > 4:  # never closed: what is written depends on smdebug's exit handler
        hook = smd.Hook(out_dir=sys.argv[4], save_config=EVERY_STEP, include_collections=["all"])
        net = nn.Linear(1, 1)
        hook.register_module(net)
        for _ in range(3):
            net(torch.ones(1, 1)).sum().backward()


main()
