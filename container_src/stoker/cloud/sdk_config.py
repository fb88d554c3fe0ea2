"""The SDKs' own config.yaml: defaults that users of SageMaker have already.

`SAGEMAKER_ADMIN_CONFIG_OVERRIDE` and `SAGEMAKER_USER_CONFIG_OVERRIDE` name a file or its folder;
else the SDKs look in the site's and the user's folder of settings. What the user has wins.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stoker.machine.failures import UsageRefused

_FILE_NAME = "config.yaml"
_TABLE = ("SageMaker", "TrainingJob")
_SESSION = ("SageMaker", "PythonSDK", "Modules", "Session")
# What is read of both tables, and the type of each value.
_SHAPE: Mapping[str, Any] = {
    "RoleArn": str,
    "VpcConfig": {"Subnets": [str], "SecurityGroupIds": [str]},
    "OutputDataConfig": {"S3OutputPath": str, "KmsKeyId": str},
    "ResourceConfig": {"VolumeKmsKeyId": str},
    "EnableNetworkIsolation": bool,
    "EnableInterContainerTrafficEncryption": bool,
    "Environment": {str: str},
    "Tags": [{"Key": str, "Value": str}],
    "DefaultS3Bucket": str,
    "DefaultS3ObjectKeyPrefix": str,
}
_NAMES = {str: "text (a number in quotes)", bool: "true or false", list: "a list", dict: "a table"}


def read_sdk_config(environ: Mapping[str, str]) -> dict[str, Any]:
    """The part `SageMaker.TrainingJob`, with `DefaultS3Bucket` and its prefix of the session.

    Raises:
        UsageRefused: a file is not YAML, or a variable names one that is not there.
    """
    merged: dict[str, Any] = {}
    for file in _find_files(environ):
        content = _read(file)
        # The user's file comes second and wins, as in the SDKs.
        table = {**_part(content, _SESSION, file), **_part(content, _TABLE, file)}
        if mistakes := list(_find_mistakes(table, _SHAPE, "")):
            raise UsageRefused(f"{file}: {'; '.join(mistakes)}", fix="correct the file")
        merged.update(table)
    return merged


def _find_files(environ: Mapping[str, str]) -> Iterator[Path]:
    for variable, usual in (
        ("SAGEMAKER_ADMIN_CONFIG_OVERRIDE", _site_folder(environ)),
        ("SAGEMAKER_USER_CONFIG_OVERRIDE", _user_folder(environ)),
    ):
        given = environ.get(variable)
        if given and given.startswith("s3://"):
            raise UsageRefused(
                f"{variable} is {given}: only files of this machine are read",
                fix=f"copy it: aws s3 cp {given} config.yaml, and set {variable} to the file",
            )
        file = Path(given) if given else usual / _FILE_NAME
        file = file / _FILE_NAME if file.is_dir() else file
        if file.is_file():
            yield file
        elif given:
            raise UsageRefused(
                f"{variable} is {given}, but there is no such file", fix=f"unset {variable}"
            )


def _user_folder(environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/sagemaker"
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sagemaker"


def _site_folder(environ: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return Path("/Library/Application Support/sagemaker")
    return Path((environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")[0]) / "sagemaker"


def _read(file: Path) -> object:
    try:
        yaml = importlib.import_module("yaml")  # few users have such a file
    except ImportError as error:
        raise UsageRefused(
            f"{file} cannot be read: PyYAML is not installed", fix="pip install 'stoker[host]'"
        ) from error
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    # ValueError: also a date that no calendar has; RecursionError: thousands of brackets.
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as error:
        raise UsageRefused(f"{file} is not YAML: {error}", fix="correct the file") from error


def _part(content: object, path: tuple[str, ...], file: Path) -> Mapping[str, Any]:
    for key in (*path, ""):
        if content is None:
            return {}
        if not isinstance(content, dict):
            above = f"above {key}" if key else f"as {'.'.join(path)}"
            raise UsageRefused(
                f"{file}: a table is expected {above}", fix="see the SDKs' documentation"
            )
        content = content.get(key) if key else content
    return content if isinstance(content, dict) else {}


def _find_mistakes(value: object, shape: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Of all that is read; a null is as good as nothing, except in a list."""
    kind = type(shape) if isinstance(shape, list | dict) else shape
    if not isinstance(value, kind):
        yield f"{path} is {value!r:.60}, but {_NAMES[kind]} is expected"
    elif isinstance(value, list):
        for number, part in enumerate(value):
            # Key and Value of a tag: one without the other means nothing.
            needed = shape[0] if isinstance(shape[0], dict) and isinstance(part, dict) else ()
            yield from (f"{path}[{number}] has no {key}" for key in needed if key not in part)
            yield from _find_mistakes(part, shape[0], f"{path}[{number}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            expected = shape.get(key, shape.get(str))
            if expected is not None and (part is not None or path.endswith("]")):
                yield from _find_mistakes(part, expected, f"{path}.{key}".lstrip("."))
