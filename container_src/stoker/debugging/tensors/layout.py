"""Names of the files and reductions of saved tensors; they are smdebug's, so its readers work."""

from __future__ import annotations

import re

from stoker.contract.upload_markers import IGNORED

COLLECTIONS = "collections/000000000"
DESCRIPTIONS = "stoker"
EVENTS = "events"
INDEX = "index"

NOT_WHOLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What comes of taking apart a JSON file that is cut off, overwritten or of another program."""

INDEX_LIMIT_BYTES = 256 * 1024 * 1024
"""What is read of a JSON file at most: more than a million tensors."""

_STEPS_PER_INDEX_FOLDER = 1000
_INDEX_FILE = re.compile(r"(\d+)_(.+)\.json")
_COLLECTIONS_FILE = re.compile(r"(.+)_collections\.json")
_DESCRIPTIONS_FILE = re.compile(r"(.+)_tensors\.json")


def events_file(step: int, worker: str) -> str:
    """Relative to the folder, as the index quotes it."""
    return f"{EVENTS}/{step:012d}/{step:012d}_{worker}.tfevents"


def index_file(step: int, worker: str) -> str:
    return f"{INDEX}/{step // _STEPS_PER_INDEX_FOLDER:09d}/{step:012d}_{worker}.json"


def collections_file(worker: str) -> str:
    return f"{COLLECTIONS}/{worker}_collections.json"


def descriptions_file(worker: str) -> str:
    return f"{DESCRIPTIONS}/{worker}_tensors.json"


def claim_file(worker: str) -> str:
    """Of no interest to anyone on another machine."""
    return f"{worker}.lock{IGNORED}"


def parse_index_name(name: str) -> tuple[int, str] | None:
    """Step and worker of an index file; None for any other file."""
    found = _INDEX_FILE.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def parse_collections_name(name: str) -> str | None:
    """The worker whose collections these are; None for any other file."""
    found = _COLLECTIONS_FILE.fullmatch(name)
    return found[1] if found else None


def parse_descriptions_name(name: str) -> str | None:
    """The worker whose descriptions these are; None for any other file."""
    found = _DESCRIPTIONS_FILE.fullmatch(name)
    return found[1] if found else None


_PREFIX = "smdebug/reductions/"
_NORMS = {"l1_norm": "l1", "l2_norm": "l2", "abs_l1_norm": "abs_l1", "abs_l2_norm": "abs_l2"}
_NORMS_BACK = {on_file: name for name, on_file in _NORMS.items()}


def reduction_name(reduction: str, tensor: str) -> str:
    """The name of its record: `smdebug/reductions/abs_mean/Net_fc.weight`.

    The norms lose their suffix there: smdebug's settings say `l2_norm`, its files `l2`.
    """
    return f"{_PREFIX}{_NORMS.get(reduction, reduction)}/{tensor}"


def parse_reduction_name(name: str) -> tuple[str, str] | None:
    """Reduction and tensor; None for the name of a tensor itself."""
    if not name.startswith(_PREFIX):
        return None
    reduction, slash, tensor = name.removeprefix(_PREFIX).partition("/")
    return (_NORMS_BACK.get(reduction, reduction), tensor) if slash else None
