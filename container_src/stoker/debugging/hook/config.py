"""The hook's settings: from debughookconfig.json, as SageMaker writes it, and their defaults."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from stoker.debugging.booleans import parse_boolean
from stoker.debugging.hook.wanted import DEFAULT, LOSSES, REGEXES, Schedules, Wanted
from stoker.debugging.need import ALL
from stoker.debugging.reductions import REDUCTIONS
from stoker.debugging.step_tensors import MODES, Mode
from stoker.debugging.tensors.collection import Schedule
from stoker.errors import ConfigInvalid

WhenFull = Literal["wait", "drop"]
_TIMES = ("save_interval", "save_steps", "start_step", "end_step")
_FORMS = ("include_regex", "reductions", "save_raw_tensor", "save_shape", "save_histogram")
_OF_MODES = {f"{mode.lower()}.{time}" for mode in MODES for time in _TIMES}
HOOK_KEYS = {
    *(*_TIMES, *_FORMS, *_OF_MODES),
    *("save_all", "include_workers", "export_tensorboard", "tensorboard_dir"),
}
COLLECTION_KEYS = {*_TIMES, *_FORMS, *_OF_MODES}
_FILE = "debughookconfig.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class HookConfig:
    """What the hook saves, where nothing but the rules' needs is still to be added.

    Example:
        >>> read_hook_config({"CollectionConfigurations": [{"CollectionName": "gradients"}]})
    """

    wanted: tuple[Wanted, ...] = ()
    schedules: Schedules = field(default_factory=lambda: dict.fromkeys(MODES, Schedule()))
    """Of whatever has none of its own."""
    include_workers: Literal["one", "all"] = "one"
    when_full: WhenFull = "wait"
    limit_bytes: int = 1 << 30
    """Of memory for steps that wait to be written."""
    warnings: tuple[str, ...] = ()
    """What was asked for and is left out, since it is unknown here."""


class _Noted:
    """What is wrong with the settings."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        """None of it can be used."""
        self.warnings: list[str] = []
        """The rest can."""


def default_config(*collections: str, every: int = 500) -> HookConfig:
    """Losses, and some of smdebug's collections, each whole, at an interval."""
    return read_hook_config(
        {
            "HookParameters": {"save_interval": every},
            "CollectionConfigurations": [{"CollectionName": name} for name in collections],
        }
    )


def read_hook_config(content: Mapping[str, Any]) -> HookConfig:
    """What the content of debughookconfig.json asks for. `{}` means losses, every 500 steps.

    What is not known here may be for someone else, such as an smdebug hook of the script's own:
    it is not a mistake. The SDK itself asks for collections that only XGBoost has.

    Raises:
        ConfigInvalid: with all mistakes of it.
    """
    noted = _Noted()
    parameters = _Parameters(content.get("HookParameters"), "HookParameters", HOOK_KEYS, noted)
    schedules = parameters.schedules(dict.fromkeys(MODES, Schedule()))
    entries = _entries(content.get("CollectionConfigurations"), noted)
    found = (_of_collection(entry, parameters, schedules, noted) for entry in entries)
    # A name may come twice, as the SDK adds what a rule needs to what the user asked for.
    named = [wanted for wanted in found if wanted is not None]
    whole = _of_hook(parameters, schedules)
    # smdebug always saves its collection of losses.
    if not any(wanted.collection == LOSSES for wanted in named):
        named.insert(0, _loss(schedules))
    workers = parameters.choice("include_workers", ("one", "all"), "one")
    if noted.mistakes:
        raise ConfigInvalid(
            f"{_FILE} cannot be used: {'; '.join(dict.fromkeys(noted.mistakes))}",
            fix="see docs/guide/debugger.md for the keys and their values",
        )
    return HookConfig(
        wanted=(*named, *whole),
        schedules=schedules,
        include_workers="all" if workers == "all" else "one",
        warnings=tuple(noted.warnings),
    )


def _loss(schedules: Schedules) -> Wanted:
    return Wanted(collection=LOSSES, regexes=REGEXES[LOSSES], schedules=schedules)


def _entries(content: object, noted: _Noted) -> Sequence[object]:
    if content is None:
        return ()
    if not isinstance(content, list):
        noted.mistakes.append(f"CollectionConfigurations is {content!r:.80}: expected a list")
        return ()
    return content


def _of_collection(
    entry: object, hook: _Parameters, defaults: Schedules, noted: _Noted
) -> Wanted | None:
    name = entry.get("CollectionName") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(name, str) or not name:
        noted.mistakes.append(f"a collection without CollectionName: {entry!r:.80}")
        return None
    content = entry.get("CollectionParameters")
    own = _Parameters(content, f"collection {name}", COLLECTION_KEYS, noted)
    # Losses are saved as they are; smdebug takes no reductions of them either.
    form = own if own.has("reductions") else hook
    reductions = () if name == LOSSES else form.reductions()
    return Wanted(
        collection=name,
        regexes=(*REGEXES.get(name, ()), *own.regexes()),
        schedules=own.schedules(defaults),
        reductions=reductions,
        has_values=not reductions or form.flag("save_raw_tensor"),
        has_shapes=form.flag("save_shape"),
        has_histogram=name != LOSSES and own.flag("save_histogram", default=hook.asks_histograms),
    )


def _of_hook(parameters: _Parameters, schedules: Schedules) -> list[Wanted]:
    """What the parameters of the whole hook name: `include_regex` and `save_all`."""
    reductions = parameters.reductions()
    named = {DEFAULT: parameters.regexes()}
    if parameters.flag("save_all"):
        named[ALL] = REGEXES[ALL]
    return [
        Wanted(
            collection=name,
            regexes=regexes,
            schedules=schedules,
            reductions=reductions,
            has_values=not reductions or parameters.flag("save_raw_tensor"),
            has_shapes=parameters.flag("save_shape"),
            has_histogram=parameters.asks_histograms,
        )
        for name, regexes in named.items()
        if regexes
    ]


class _Parameters:
    """One map of text to text; what is wrong with it is noted, not raised."""

    def __init__(self, content: object, where: str, known: set[str], noted: _Noted) -> None:
        self._where, self._noted = where, noted
        self._content: Mapping[str, Any] = {}
        if content is not None and not isinstance(content, Mapping):
            self._note(f"is {content!r:.80}: expected an object")
        elif content:
            self._content = content
        for key in self._content:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else "it is left out"
                noted.warnings.append(f"{_FILE}: {where} does not know {key!r:.80}, {hint}")

    def has(self, key: str) -> bool:
        return key in self._content

    @property
    def asks_histograms(self) -> bool:
        """Of the whole hook: only then, since they may take more room than a small net itself."""
        return self.flag("save_histogram", default=self.flag("export_tensorboard"))

    def schedules(self, defaults: Schedules) -> Schedules:
        """For each mode: its own key, else the plain one, else the default."""
        return {mode: self._schedule(mode, defaults[mode]) for mode in MODES}

    def _schedule(self, mode: Mode, default: Schedule) -> Schedule:
        given: dict[str, Any] = {}
        for key in _TIMES:
            # The mode's own key is the second, so it replaces the plain one.
            for name in (key, f"{mode.lower()}.{key}"):
                if self.has(name):
                    value = self._parse(name, _whole_numbers if key == "save_steps" else _whole)
                    given |= {} if value is None else {key: value}
        if given.get("save_interval") == 0:
            self._note("has save_interval 0: expected 1 or more")
            del given["save_interval"]
        return replace(default, **given)

    def reductions(self) -> tuple[str, ...]:
        names = _split(self._content.get("reductions"))
        for name in names:
            if name not in REDUCTIONS:
                near = difflib.get_close_matches(name, REDUCTIONS, n=1)
                hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(REDUCTIONS)}"
                self._note(f"knows no reduction {name!r:.80}, {hint}")
        return tuple(dict.fromkeys(names))

    def regexes(self) -> tuple[str, ...]:
        found = _split(self._content.get("include_regex"))
        for regex in found:
            try:
                re.compile(regex)
            except re.error as error:
                self._note(
                    f"has the include_regex {regex!r:.80}, which is not a valid "
                    f"regular expression: {error}"
                )
        return tuple(found)

    def flag(self, key: str, *, default: bool = False) -> bool:
        if not self.has(key):
            return default
        value = self._parse(key, parse_boolean)
        return default if value is None else bool(value)

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        value = str(self._content.get(key, default))
        if value not in choices:
            self._note(f"has {key} {value!r:.80}: expected {' or '.join(choices)}")
        return value

    def _parse(self, key: str, parse: Callable[[str], Any]) -> Any:  # noqa: ANN401 - as parsed
        text = str(self._content[key]).strip()
        try:
            return parse(text)
        except ValueError:
            self._note(f"has {key} {text!r:.80}: expected {_EXPECTED[parse]}")
            return None

    def _note(self, mistake: str) -> None:
        self._noted.mistakes.append(f"{self._where} {mistake}")


def _split(text: object) -> list[str]:
    return [part.strip() for part in str(text or "").split(",") if part.strip()]


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(_whole(part) for part in _split(text))


_EXPECTED: dict[Callable[[str], Any], str] = {
    _whole: "a whole number",
    _whole_numbers: "whole numbers, separated by commas",
    parse_boolean: "True or False",
}
