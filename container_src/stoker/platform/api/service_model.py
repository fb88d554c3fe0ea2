"""Requests held against botocore's own service model, with every mistake in AWS's wording."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape

from stoker.platform.model.faults import ApiFault

# Java's classes that Python's `re` lacks, as much as a class of characters can say it.
_JAVA_CLASSES = {
    r"\p{L}": r"\w",
    r"\p{N}": r"\w",
    r"\p{Z}": r"\s",
    r"\p{Alnum}": "a-zA-Z0-9",
}
_INVALID = {"logs": "InvalidParameterException"}
_LONGEST_ECHO = 256  # of a value, which may have megabytes
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_800  # the years 1 to 9999
_MODELS = {"monitoring": "cloudwatch"}  # where a signature has another name than the model


def known_operation(service: str, operation: str) -> bool:
    """Whether the service has the operation in botocore's model."""
    return operation in _service(service).operation_names


def find_operation(service: str, method: str, path: str) -> str | None:
    """The operation of a REST service that a method and path name."""
    model = _service(service)
    for name in model.operation_names:
        http = model.operation_model(name).http
        if (http["method"], http["requestUri"]) == (method, path):
            return str(name)
    return None


def require_valid(service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Check parameters against the operation's input shape.

    Returns:
        the parameters without members the model does not know and without nulls, as the service
        reads them.

    Raises:
        ApiFault: wrong types (SerializationException), or limits, patterns, enums and required
            members (ValidationException), all of them listed.
    """
    shape = _service(service).operation_model(operation).input_shape
    if shape is None:
        return {}
    known = cast("dict[str, Any]", _converted(shape, params, ""))
    mistakes = list(_mistakes(shape, known, ""))
    if mistakes:
        many = f"{len(mistakes)} validation error{'s' if len(mistakes) > 1 else ''} detected: "
        raise ApiFault(_INVALID.get(service, "ValidationException"), many + "; ".join(mistakes))
    return known


@cache
def _service(service: str) -> ServiceModel:
    model = _MODELS.get(service, service)
    return ServiceModel(Loader().load_service_model(model, "service-2"), model)


def convert_answer(
    service: str,
    operation: str,
    answer: Mapping[str, Any],
    convert: Callable[[str, Any], object],
) -> dict[str, Any]:
    """An answer with every plain value converted by its type's name: `timestamp`, `double`, …"""
    shape = _service(service).operation_model(operation).output_shape
    return cast("dict[str, Any]", _convert_leaves(shape, answer, convert) if shape else {})


def _convert_leaves(shape: Shape, value: Any, convert: Callable[[str, Any], object]) -> object:  # noqa: ANN401 - JSON
    if shape.type_name == "structure":
        return {
            name: _convert_leaves(shape.members[name], v, convert) for name, v in value.items()
        }
    if shape.type_name == "list":
        return [_convert_leaves(shape.member, item, convert) for item in value]
    if shape.type_name == "map":
        return {key: _convert_leaves(shape.value, v, convert) for key, v in value.items()}
    return convert(shape.type_name, value)


def parse_form(service: str, operation: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The parameters in a form (`Dimensions.member.1.Name=…`), of the types of the model.

    Raises:
        ApiFault: a value is not of its type.
    """
    shape = _service(service).operation_model(operation).input_shape
    return cast("dict[str, Any]", _parse_field(shape, form, "") if shape else {})


def _parse_field(shape: Shape, form: Mapping[str, str], path: str) -> object:
    if shape.type_name == "structure":
        prefix = f"{path}." if path else ""
        return {
            name: _parse_field(member, form, f"{prefix}{name}")
            for name, member in shape.members.items()
            if any(key == prefix + name or key.startswith(f"{prefix}{name}.") for key in form)
        }
    if shape.type_name == "list":
        start = f"{path}.member."
        numbers = {key.removeprefix(start).split(".")[0] for key in form if key.startswith(start)}
        return [
            _parse_field(shape.member, form, f"{start}{number}")
            for number in sorted((n for n in numbers if n.isdecimal()), key=int)
        ]
    text = form.get(path, "")
    try:
        return _PARSE.get(shape.type_name, str)(text)
    except ValueError:
        raise _wrong_type(text, f"a value of type {shape.type_name}", f".{path}") from None


_PARSE: Mapping[str, Callable[[str], object]] = {
    **{"integer": int, "long": int, "float": float, "double": float},
    "boolean": lambda text: {"true": True, "false": False}.get(text.lower(), text),
    "timestamp": lambda text: _parse_time(text),
}


def _parse_time(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _converted(shape: Shape, value: object, path: str) -> object:
    """A value of the shape's type, or SerializationException."""
    convert = _CONVERT.get(shape.type_name)
    if convert is None:
        return value
    return convert(shape, value, path)


def _structure(shape: Shape, value: object, path: str) -> object:
    if not isinstance(value, Mapping):
        raise _wrong_type(value, "a structure", path)
    return {
        name: _converted(member, value[name], f"{path}.{_camel(name)}")
        for name, member in shape.members.items()
        if value.get(name) is not None
    }


def _list(shape: Shape, value: object, path: str) -> object:
    if not isinstance(value, list):
        raise _wrong_type(value, "a list", path)
    return [_converted(shape.member, item, _item(path, n)) for n, item in enumerate(value, 1)]


def _map(shape: Shape, value: object, path: str) -> object:
    if not isinstance(value, Mapping):
        raise _wrong_type(value, "a map", path)
    return {
        key: _converted(shape.value, item, f"{path}.{key}")
        for key, item in value.items()
        if item is not None
    }


def _string(_shape: Shape, value: object, path: str) -> object:
    if not isinstance(value, str):
        raise _wrong_type(value, "a String", path)
    return value


def _integer(_shape: Shape, value: object, path: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, "an Integer", path)
    return value


def _number(_shape: Shape, value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(value, "a Number", path)
    return value


def _float(shape: Shape, value: object, path: str) -> object:
    """JSON has no other spelling for these three."""
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    try:
        return float(_number(shape, value, path))
    except OverflowError:
        raise _wrong_type(value, "a Double", path) from None


def _boolean(_shape: Shape, value: object, path: str) -> object:
    if not isinstance(value, bool):
        raise _wrong_type(value, "a Boolean", path)
    return value


def _timestamp(shape: Shape, value: object, path: str) -> object:
    seconds = _number(shape, value, path)
    if not _FIRST_SECOND <= seconds < _LAST_SECOND:
        place = path.lstrip(".")
        text = f"{str(seconds)[:30]} at '{place}' is not a time: seconds since 1970 are expected"
        raise ApiFault("SerializationException", text)
    return seconds


_CONVERT: Mapping[str, Callable[[Shape, object, str], object]] = {
    **{"structure": _structure, "list": _list, "map": _map, "string": _string},
    **{"integer": _integer, "long": _integer, "float": _float, "double": _float},
    **{"boolean": _boolean, "timestamp": _timestamp},
}


def _wrong_type(value: object, wanted: str, path: str) -> ApiFault:
    names = {str: "STRING", bool: "BOOLEAN", int: "NUMBER", float: "DECIMAL", list: "LIST"}
    got = names.get(type(value), "STRUCTURE")
    place = f" at '{path.lstrip('.')}'" if path else ""
    return ApiFault(
        "SerializationException", f"{got}_VALUE can not be converted to {wanted}{place}"
    )


def _mistakes(shape: Shape, value: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    for constraint in _broken(shape, value):
        yield _failed(_shown(value), path, constraint)
    if shape.type_name == "structure":
        for name in shape.required_members:
            if name not in value:
                yield _failed("null", f"{path}.{_camel(name)}", "Member must not be null")
        for name, item in value.items():
            yield from _mistakes(shape.members[name], item, f"{path}.{_camel(name)}")
    elif shape.type_name == "list":
        for number, item in enumerate(value, 1):
            yield from _mistakes(shape.member, item, _item(path, number))
    elif shape.type_name == "map":
        yield from _map_mistakes(shape, value, path)


def _map_mistakes(shape: Shape, value: Mapping[str, Any], path: str) -> Iterator[str]:
    keys = [broken for key in value for broken in _broken(shape.key, key)]
    if keys:
        listed = ", ".join(dict.fromkeys(keys))
        yield _failed(_shown(value), path, f"Map keys must satisfy constraint: [{listed}]")
    if shape.value.type_name in ("structure", "list", "map"):
        for key, item in value.items():
            yield from _mistakes(shape.value, item, f"{path}.{key}.member")
        return
    values = [broken for item in value.values() for broken in _broken(shape.value, item)]
    if values:
        listed = ", ".join(dict.fromkeys(values))
        yield _failed(_shown(value), path, f"Map value must satisfy constraint: [{listed}]")


def _failed(value: str, path: str, constraint: str) -> str:
    return f"Value {value} at '{path.lstrip('.')}' failed to satisfy constraint: {constraint}"


def _broken(shape: Shape, value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Which constraints of a shape a value breaks, in AWS's words."""
    limits = shape.metadata
    if shape.type_name in ("string", "list", "map"):
        yield from _outside(limits, len(value), "have length")
    elif shape.type_name in ("integer", "long", "float", "double"):
        yield from _outside(limits, value, "have value")
    # A text that is too long is said to be that, and not matched: a pattern may take for ever on
    # it.
    if shape.type_name != "string" or len(value) > limits.get("max", len(value)):
        return
    if limits.get("enum") and value not in limits["enum"]:
        yield f"Member must satisfy enum value set: [{', '.join(limits['enum'])}]"
    pattern = _pattern(limits["pattern"]) if "pattern" in limits else None
    # Here a channel may be a folder of this machine; where else it may not, the rules say.
    is_folder = shape.name == "S3Uri" and value.startswith("file:///")
    if pattern and not is_folder and not pattern.fullmatch(value):
        yield f"Member must satisfy regular expression pattern: {limits['pattern']}"


def _outside(limits: Mapping[str, Any], size: float, what: str) -> Iterator[str]:
    if "min" in limits and size < limits["min"]:
        yield f"Member must {what} greater than or equal to {limits['min']}"
    if "max" in limits and size > limits["max"]:
        yield f"Member must {what} less than or equal to {limits['max']}"


@cache
def _pattern(java: str) -> re.Pattern[str] | None:
    """A pattern of the model for Python; None where it says what `re` cannot: all is accepted."""
    for theirs, ours in _JAVA_CLASSES.items():
        java = java.replace(theirs, ours)
    # `.*` stands for any text: SDK v2 sends the whole reason of a failed job as a run's message.
    try:
        return re.compile(java, re.DOTALL if java == ".*" else 0)
    except re.error:
        return None


def _shown(value: object) -> str:
    text = str(value) if not isinstance(value, Mapping) else f"{{{', '.join(value)}}}"
    return f"'{text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + '…'}'"


def _camel(name: str) -> str:
    return name[0].lower() + name[1:]


def _item(path: str, number: int) -> str:
    return f"{path}.{number}.member"
