"""The `stoker train` command that trains the winner of a search again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from stoker.bus.metric_line import make_definitions
from stoker.cli.client.submission import DAY_SECONDS, INSTANCE_TYPE, VOLUME_GB
from stoker.contract.code import CODE_CHANNEL
from stoker.contract.hyperparameters import TORCHRUN_SWITCH
from stoker.platform.model.request import parse_folder

_SPOT = "STOKER_SPOT"


def make_best_command(
    best: Mapping[str, Any], training: Mapping[str, Any], script: str
) -> list[str]:
    """Its words after `stoker`.

    Args:
        best: the best training job of the search, as the search describes it.
        training: the description of that training job.
        script: where the script was when the search began; empty if that is not known.
    """
    words = ["train", *_find_script(training, script)]
    words += ["--image", training["AlgorithmSpecification"]["TrainingImage"]]
    static = {
        name: value
        for name, value in training["HyperParameters"].items()
        if not name.startswith(("sagemaker_", "_tuning_"))
    }
    for name, value in {**static, **best["TunedHyperParameters"]}.items():
        words += ["--param", f"{name}={value}"]
    for channel in training.get("InputDataConfig", ()):
        uri = channel["DataSource"].get("S3DataSource", {}).get("S3Uri", "")
        if channel["ChannelName"] != CODE_CHANNEL:
            words += ["--channel", f"{channel['ChannelName']}={parse_folder(uri) or uri}"]
    return [*words, *_find_options(training)]


def _find_script(training: Mapping[str, Any], script: str) -> list[str]:
    # SDK v2 puts JSON quotes around hyperparameters.
    program = training["HyperParameters"].get("sagemaker_program", "SCRIPT").strip('"')
    if not script:
        return [program]
    folder = PurePath(script)
    # The program is a path inside the source folder: as many steps up lead to that folder.
    for _ in PurePath(program).parts:
        folder = folder.parent
    return [script] if folder == PurePath(script).parent else [script, "--source-dir", str(folder)]


def _find_options(training: Mapping[str, Any]) -> Iterator[str]:
    """What differs from the defaults of `stoker train`."""
    environment = training.get("Environment", {})
    for name, text in environment.items():
        # `--spot` sets that variable itself, and the checkpoints that a spot job needs.
        yield from ("--spot", text) if name == _SPOT else ("--env", f"{name}={text}")
    for each in training["AlgorithmSpecification"].get("MetricDefinitions", ()):
        if each != make_definitions([each["Name"]])[0]:  # else it is one of `job.log`
            yield from ("--metric", f"{each['Name']}={each['Regex']}")
    if training["HyperParameters"].get(TORCHRUN_SWITCH, "").strip('"') == "true":
        yield "--torchrun"
    resources, stopping = training["ResourceConfig"], training.get("StoppingCondition", {})
    for option, value, usual, unit in (
        ("--instances", resources.get("InstanceCount", 1), 1, ""),
        ("--instance-type", resources.get("InstanceType", INSTANCE_TYPE), INSTANCE_TYPE, ""),
        ("--volume", resources.get("VolumeSizeInGB", VOLUME_GB), VOLUME_GB, ""),
        ("--max-run", stopping.get("MaxRuntimeInSeconds", DAY_SECONDS), DAY_SECONDS, "s"),
    ):
        if value != usual:
            yield from (option, f"{value}{unit}")
