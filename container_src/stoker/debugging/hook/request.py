"""STOKER_DEBUG: what to save, in one line of text.

    STOKER_DEBUG="collections=losses,gradients every=100 gradients.reductions=abs_mean"

    request  := "off" | setting { " " setting }
    setting  := [ mode "." | collection "." ] key "=" value

key          value                      as in debughookconfig.json
collections  names, by commas           CollectionName; losses are always saved
every        steps                      save_interval (500)
steps        numbers, by commas         save_steps
start, end   step                       start_step, end_step
reductions   names, by commas           reductions
values       yes | no                   save_raw_tensor
shapes       yes | no                   save_shape
histograms   yes | no                   save_histogram, for TensorBoard
regex        patterns, by commas        include_regex
workers      one | all                  include_workers
full         wait | drop                – when the disk is slower than the training
memory       such as 512MB or 2GB       – for steps that wait to be written

A mode (`train.`, `eval.`, …) goes before every, steps, start and end; the name of a collection
before those, reductions, values, shapes, histograms and regex.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from typing import Any

from stoker.debugging.hook.config import HookConfig, WhenFull, read_hook_config
from stoker.debugging.step_tensors import MODES
from stoker.errors import ConfigInvalid

_KEYS = {
    "every": "save_interval",
    "steps": "save_steps",
    "start": "start_step",
    "end": "end_step",
    "reductions": "reductions",
    "values": "save_raw_tensor",
    "shapes": "save_shape",
    "histograms": "save_histogram",
    "regex": "include_regex",
}
_WHOLE_KEYS = ("collections", "workers", "full", "memory")
_TIMES = ("every", "steps", "start", "end")
_OFF = ("off", "0", "no", "false")
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_EXAMPLE = 'STOKER_DEBUG="collections=losses,gradients every=100"'


def is_off(text: str) -> bool:
    """Whether the hook is to stay away, whatever else is configured."""
    return text.strip().lower() in _OFF


def read_request(text: str) -> HookConfig:
    """What such a text asks for.

    Raises:
        ConfigInvalid: it cannot be read.
    """
    hook: dict[str, str] = {}
    own: dict[str, dict[str, str]] = {}
    whole: dict[str, str] = {}
    for setting in text.split():
        name, equals, value = setting.partition("=")
        scope, _, key = name.rpartition(".")
        if not equals or not value:
            raise _refusal(f"{setting!r:.80} is not a setting: expected key=value")
        if not scope and key in _WHOLE_KEYS:
            whole[key] = value
        elif key not in _KEYS:
            near = difflib.get_close_matches(key, (*_KEYS, *_WHOLE_KEYS), n=1)
            raise _refusal(
                f"there is no setting {key!r:.80}" + (f", did you mean {near[0]}?" if near else "")
            )
        elif not scope or (scope.upper() in MODES and key in _TIMES):
            hook[f"{scope}.{_KEYS[key]}".lstrip(".")] = value
        else:
            own.setdefault(scope, {})[_KEYS[key]] = value
    return _make(hook, own, whole)


def merge(file: HookConfig, request: HookConfig) -> HookConfig:
    """Both are saved; where they differ on the whole, the request has the last word."""
    # A request that names no interval leaves that of the file alone.
    is_plain = request.schedules == HookConfig().schedules
    return replace(
        request,
        wanted=(*file.wanted, *request.wanted),
        schedules=file.schedules if is_plain else request.schedules,
        include_workers="all"
        if "all" in (file.include_workers, request.include_workers)
        else "one",
        warnings=(*file.warnings, *request.warnings),
    )


def _make(
    hook: dict[str, str], own: dict[str, dict[str, str]], whole: dict[str, str]
) -> HookConfig:
    if "workers" in whole:
        hook["include_workers"] = whole["workers"]
    names = [name for name in whole.get("collections", "").split(",") if name]
    collections: list[dict[str, Any]] = [
        {"CollectionName": name, "CollectionParameters": own.get(name)}
        for name in dict.fromkeys((*names, *own))
    ]
    try:
        config = read_hook_config(
            {"HookParameters": hook, "CollectionConfigurations": collections}
        )
    except ConfigInvalid as error:
        raise _refusal(error.message.partition(": ")[2]) from None
    return replace(
        config,
        when_full=_when_full(whole.get("full", "wait")),
        limit_bytes=_size_bytes(whole.get("memory", "1GB")),
    )


def _when_full(text: str) -> WhenFull:
    if text == "wait":
        return "wait"
    if text == "drop":
        return "drop"
    raise _refusal(f"full={text:.80}: expected wait or drop")


def _size_bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]B)?", text.upper())
    if found is None or not int(found[1]):
        raise _refusal(f"memory={text:.80}: expected a size such as 512MB or 2GB")
    return int(found[1]) * _UNITS[found[2] or ""]


def _refusal(message: str) -> ConfigInvalid:
    return ConfigInvalid(f"STOKER_DEBUG: {message}", fix=f"write it like {_EXAMPLE}")
