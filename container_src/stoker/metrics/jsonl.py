"""metrics.jsonl: one JSON object a line, one line a call.

    {"step": 12, "time": 1763300000.5, "metrics": {"train/loss": 0.25, "val/loss": "nan"}}

JSON has no NaN and no infinities: they are the texts "nan", "inf" and "-inf". After a resume a
step may be there again; the later line counts.
"""

from __future__ import annotations

import json
import math
import os

from stoker.contract.files import open_regular
from stoker.metrics.ranks import rank_name
from stoker.metrics.sinks import LocalFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stoker.contract.job import Job

_MOST_STEP = 2**63  # as far as the tables reach that steps are kept in
FOLDER = "stoker"
"""Below output/data, so that it ends up in output.tar.gz."""


def metrics_file(job: Job) -> str:
    """The file of this process: metrics.jsonl, of the other ranks metrics.rank-1.jsonl."""
    rank = rank_name(job)
    name = f"metrics.{rank}.jsonl" if rank else "metrics.jsonl"
    return os.path.join(job.paths.output_data_dir, FOLDER, name)


def make_jsonl_sink(path: str) -> LocalFile:
    """Appends to what an earlier attempt has written, on a line of its own."""
    try:
        with open(open_regular(path), "rb") as file:
            # An attempt that was killed may have left half of a line.
            file.seek(-1, os.SEEK_END)
            is_cut = file.read() != b"\n"
    except OSError:
        is_cut = False  # none, or an empty one
    return LocalFile(path, b"\n" if is_cut else b"")


def make_json_line(wall_time: float, step: int, metrics: Mapping[str, float]) -> bytes:
    """One line, with its end."""
    values = {name: v if math.isfinite(v) else repr(v) for name, v in metrics.items()}
    entry = {"step": step, "time": round(wall_time, 3), "metrics": values}
    return json.dumps(entry, separators=(", ", ": ")).encode() + b"\n"


def read_metrics(path: str | os.PathLike[str]) -> Iterator[tuple[int, dict[str, float]]]:
    """Step and metrics of each line; the last one may be cut while the job runs.

    Raises:
        OSError: there is no such file.
    """
    with open(path, encoding="utf-8") as file:
        for _, step, metrics in parse_lines(file):
            yield step, metrics


def parse_lines(lines: Iterable[str]) -> Iterator[tuple[float, int, dict[str, float]]]:
    """Wall time, step and metrics of each line; others, such as one that is cut, are left out."""
    for line in lines:
        try:
            entry = json.loads(line)
            metrics = {name: float(value) for name, value in entry["metrics"].items()}
            at, step = float(entry.get("time", 0.0)), int(entry["step"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue
        if math.isfinite(at) and abs(step) < _MOST_STEP:
            yield at, step, metrics
