"""The collections that rules want saved, as STOKER_DEBUG says it to the hook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker.errors import RuleInvalid

# As the hook's own settings call them (stoker.debugging.hook.request).
_KEYS = {
    "save_interval": "every",
    "save_steps": "steps",
    "start_step": "start",
    "end_step": "end",
    "reductions": "reductions",
    "save_raw_tensor": "values",
    "save_shape": "shapes",
    "include_regex": "regex",
}
_IGNORED = ("save_histogram",)  # for TensorBoard; job.tensorboard() and smdebug itself make them
_DEFAULT = {"save_interval": "500"}
"""What the SDK adds by itself, and what the hook does without being told."""


def make_hook_request(collections: Iterable[Any]) -> str:
    """One text for `CollectionConfig` objects (of any SDK); empty for none.

    Raises:
        RuleInvalid: two want the same collection saved differently, or a setting cannot be
            carried.
    """
    wanted: dict[str, dict[str, str]] = {}
    for collection in collections:
        name, settings = collection.name, _settings(collection)
        known = wanted.setdefault(name, settings)
        if known != settings and _DEFAULT not in (known, settings):
            raise RuleInvalid(
                f"two rules want the collection {name} saved differently: {known} and {settings}",
                fix="make their collections_to_save the same, or give one another name",
            )
        wanted[name] = settings if known == _DEFAULT else known
    if not wanted:
        return ""
    texts = [f"collections={','.join(wanted)}"]
    for name, settings in wanted.items():
        texts += [
            f"{name}.{_KEYS[key]}={text}"
            for key, text in settings.items()
            if (key, text) not in _DEFAULT.items()
        ]
    return " ".join(texts)


def _settings(collection: Any) -> dict[str, str]:  # noqa: ANN401 - the SDK's own
    given = {key: str(text) for key, text in (collection.parameters or {}).items()}
    settings = {**_DEFAULT, **{key: given[key] for key in given if key not in _IGNORED}}
    for key, text in settings.items():
        if key not in _KEYS or not text or any(letter.isspace() for letter in text):
            raise RuleInvalid(
                f"{key}={text!r:.80} of the collection {collection.name} cannot be carried",
                fix="set it by debugger_hook_config=, or write save_interval, save_steps, "
                "start_step, end_step, reductions, include_regex (without blanks)",
            )
    return settings
