"""Reading the platform's JSON files, and writing files nobody sees half of."""

from __future__ import annotations

import json
import os

from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_FIX = "SageMaker writes a JSON object there: look at the test set-up or the mount that made it"


def read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object; a file that is not there means "not configured" and is empty.

    Raises:
        ConfigInvalid: unreadable, not UTF-8, not JSON, or not an object.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise ConfigInvalid(f"{path.parent} is not a folder", fix=_FIX) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path} cannot be read: {error.strerror}",
            fix="run the container as root, as SageMaker does, or make the file readable",
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path} is not UTF-8 (byte {error.start})", fix=_FIX) from None
    return _parse_object(text, path)


def _parse_object(text: str, path: Path) -> dict[str, Any]:
    if not text.strip():
        raise ConfigInvalid(f"{path} is empty, but a JSON object was expected", fix=_FIX)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{path} is not valid JSON: {error}", fix=_FIX) from None
    if not isinstance(parsed, dict):
        raise ConfigInvalid(
            f"{path} holds a JSON {type(parsed).__name__}, but an object was expected", fix=_FIX
        )
    return parsed


def write_atomically(path: Path, content: str) -> None:
    """Writes a whole file or none: temporary name, fsync, rename."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.sagemaker-ignore")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
