"""Reading the platform's JSON files, and writing files nobody sees half of."""

from __future__ import annotations

import os

from stoker.contract.quick_json import loads
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIX = "SageMaker writes a JSON object there: look at the test set-up or the mount that made it"


def read_object(path: str) -> dict[str, Any]:
    """Reads a JSON object; a file that is not there means "not configured" and is empty.

    Raises:
        ConfigInvalid: unreadable, not UTF-8, not JSON, or not an object.
    """
    try:
        with open(path, "rb") as file:
            text = file.read().removeprefix(_BYTE_ORDER_MARK).decode()
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise ConfigInvalid(f"{os.path.dirname(path)} is not a folder", fix=_FIX) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path} cannot be read: {error.strerror}",
            fix="run the container as root, as SageMaker does, or make the file readable",
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path} is not UTF-8 (byte {error.start})", fix=_FIX) from None
    return _parse_object(text, path)


def _parse_object(text: str, path: str) -> dict[str, Any]:
    if not text.strip():
        raise ConfigInvalid(f"{path} is empty, but a JSON object was expected", fix=_FIX)
    try:
        parsed = loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{path} is not valid JSON: {error}", fix=_FIX) from None
    if not isinstance(parsed, dict):
        raise ConfigInvalid(
            f"{path} holds a JSON {type(parsed).__name__}, but an object was expected", fix=_FIX
        )
    return parsed


def write_atomically(path: str, content: str) -> None:
    """Writes a whole file or none: temporary name, fsync, rename."""
    temporary = f"{path}.{os.getpid()}.sagemaker-ignore"
    try:
        with open(temporary, "w", encoding="utf-8", errors="replace") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        remove_file(temporary)
        raise


def remove_file(path: str) -> None:
    """Removes a file; one that is not there, or cannot be removed, is no error."""
    try:
        os.remove(path)
    except OSError:
        return
