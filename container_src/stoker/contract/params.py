"""Typed hyperparameters: the script's defaults say the types, the raw text says the values."""

from __future__ import annotations

import difflib
import json

from stoker.contract.hyperparameters import as_text
from stoker.errors import ParamsInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_TRUE = {"true", "1", "yes", "on"}
# argparse's type=bool, as documented for the SDK, is True for every text but "", so for "False".
_FALSE = {"false", "0", "no", "off", ""}


class Params:
    """Hyperparameters by name, each of the type of its default.

    Example:
        >>> hp = make_params({"lr": "1e-4", "amp": "False"}, {"lr": 0.1, "amp": True, "depth": 3})
        >>> hp.lr, hp.amp, hp.depth
        (0.0001, False, 3)
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        # Past __setattr__, which refuses.
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the default gave the type
        raise AttributeError(f"no hyperparameter {name!r}; declared: {', '.join(self.__dict__)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Params never change: they are what the job was started with")

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the default gave the type
        return self.__dict__[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Params) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(frozenset(self.__dict__))

    def __repr__(self) -> str:
        return f"Params({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"

    def to_dict(self) -> dict[str, Any]:
        """All values by name."""
        return dict(self.__dict__)


def make_params(sent: Mapping[str, str], defaults: Mapping[str, Any]) -> Params:
    """Fits the texts that were sent to the defaults a script declares.

    Args:
        sent: raw texts, as in hyperparameters.json; `batch-size` and `batch_size` are one name.
        defaults: name → default value, or a type (`lr=float`) where the job must give a value.

    Raises:
        ParamsInvalid: every mistake at once: unknown names, missing ones, texts of another type.
    """
    texts = {_identifier(key): text for key, text in sent.items()}
    mistakes = [
        f"{key} was sent as {_identifier(key)} too, with another value"
        for key, text in sent.items()
        if texts[_identifier(key)] != text
    ]
    mistakes += [_unknown(key, defaults) for key in texts if key not in defaults]
    values: dict[str, Any] = {}
    for name, default in defaults.items():
        if name not in texts:
            if isinstance(default, type):
                mistakes.append(f"{name} ({default.__name__}) is required, but was not sent")
            values[name] = default
            continue
        try:
            values[name] = _convert(texts[name], default)
        except ValueError as error:
            mistakes.append(f"{name}={texts[name]!r:.80} {error}")
    if mistakes:
        raise ParamsInvalid(
            "hyperparameters do not fit this script: " + "; ".join(mistakes),
            fix="correct the names and values in the estimator's hyperparameters, "
            "or the defaults in the script",
        )
    return Params(values)


def _unknown(key: str, defaults: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(key, defaults, n=1)
    known = f"did you mean {near[0]}?" if near else f"known: {', '.join(defaults) or 'none'}"
    return f"{key} is not a parameter of this script ({known})"


def _convert(raw: str, default: object) -> object:
    kind = default if isinstance(default, type) else type(default)
    # A default of None has no type to convert to.
    if kind is type(None):
        return _from_json(raw)
    convert = _CONVERTERS.get(kind)
    if convert is None:
        raise ValueError(f"cannot become a {kind.__name__}: use str, int, float, bool, list, dict")
    return convert(raw)


def _to_bool(raw: str) -> bool:
    text = as_text(raw).strip().lower()
    if text not in _TRUE | _FALSE:
        raise ValueError("is not a bool: use true or false")
    return text in _TRUE


def _to_int(raw: str) -> int:
    text = as_text(raw).strip()
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)  # 1e3 and 64.0 are whole numbers too
    except ValueError:
        raise ValueError("is not an int") from None
    if not number.is_integer():
        raise ValueError("is not a whole number")
    return int(number)


def _to_float(raw: str) -> float:
    try:
        return float(as_text(raw).strip())
    except ValueError:
        raise ValueError("is not a float") from None


def _to_list(raw: str) -> list[Any]:
    value = _from_json(raw)
    if not isinstance(value, list):
        raise ValueError("is not a JSON list")
    return value


def _to_dict(raw: str) -> dict[str, Any]:
    value = _from_json(raw)
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    return value


def _from_json(raw: str) -> Any:  # noqa: ANN401 - JSON is any of six types
    for text in (raw, as_text(raw)):  # SDK v2 may quote what was JSON already
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, str):
            return value
    return as_text(raw)


_CONVERTERS = {
    bool: _to_bool,
    int: _to_int,
    float: _to_float,
    str: as_text,
    list: _to_list,
    tuple: lambda raw: tuple(_to_list(raw)),
    dict: _to_dict,
}


def _identifier(key: str) -> str:
    return key.replace("-", "_")
