"""TensorBoard's `SummaryWriter` with its whole API, over an event file of our own.

Scalars and histograms, which training loops write by the thousand, build no protobuf messages;
everything else is made by torch's code and goes through the same file.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.tensorboard.summary import hparams
from torch.utils.tensorboard.writer import FileWriter, SummaryWriter

from stoker.metrics.event_file import EventFile
from stoker.metrics.events import make_histogram as encode_histogram
from stoker.metrics.events import make_session_start
from stoker.metrics.histogram import make_histogram
from stoker.metrics.numbers import keep_number
from stoker.metrics.runs import open_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from stoker.contract.job import Job

# The arguments are those of SummaryWriter, which has no types.
# ruff: noqa: ANN401


def open_writer(job: Job, *, purge_step: int | Literal["auto"] | None = "auto") -> Writer:
    """The writer of this process's run."""
    file = open_run(job, purge_step=purge_step)
    return Writer(file.get_logdir(), file=file)


class Writer(SummaryWriter):
    """Drop-in for `SummaryWriter`; made by `job.tensorboard()`."""

    file_writer: Any
    all_writers: Any

    def __init__(
        self, log_dir: str | os.PathLike[str], *, file: EventFile | None = None, **options: Any
    ) -> None:
        """
        Args:
            log_dir: a folder, or a prefix like `s3://bucket/runs/1`.
            file: of that folder, where it is open already.
            options: those of `SummaryWriter`.
        """
        self._file = file
        super().__init__(os.fspath(log_dir), **options)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Adds one point of a curve, as `SummaryWriter.add_scalar` does."""
        # A tensor message instead of a simple value: rare, so torch's own code makes it.
        if new_style:
            super().add_scalar(
                tag, scalar_value, global_step, walltime, new_style, double_precision
            )
            return
        if self.file_writer is None:
            self._get_file_writer()
        self._add_scalar(
            (
                time.time() if walltime is None else walltime,
                global_step if type(global_step) is int else _as_step(global_step),
                tag,
                scalar_value if type(scalar_value) is float else keep_number(scalar_value),
            )
        )

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds one point to each of several curves of one chart; each curve is a run."""
        folder = self._get_file_writer().get_logdir()
        step, at = _as_step(global_step), time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            run = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if run not in self.all_writers:
                self.all_writers[run] = _EventFileWriter(EventFile(run))
            stream = self.all_writers[run].event_writer.stream
            stream.add_scalar((at, step, main_tag, keep_number(value)))

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Adds a histogram, as `SummaryWriter.add_histogram` does.

        Raises:
            ValueError: there are no values.
        """
        array = _as_array(values)
        has_usual_bins = isinstance(bins, str) and bins == "tensorflow" and max_bins is None
        if array is None or not has_usual_bins:
            super().add_histogram(tag, values, global_step, bins, walltime, max_bins)
            return
        message = encode_histogram(
            time.time() if walltime is None else walltime,
            _as_step(global_step),
            tag.encode("utf-8", "replace"),
            make_histogram(array),
        )
        self._get_file_writer().event_writer.stream.add_message(message)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Adds hyperparameters and the metrics they led to, as a run of their own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        summaries = hparams(hparam_dict, metric_dict, hparam_domain_discrete)  # type: ignore[no-untyped-call] # torch has none
        folder = self._get_file_writer().get_logdir()
        with Writer(f"{folder}/{run_name or time.time()}") as writer:
            for summary in summaries:
                writer._get_file_writer().add_summary(summary, global_step)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def _get_file_writer(self) -> Any:
        """What the other methods of `SummaryWriter` write to; made again after a close."""
        if self.file_writer is None:
            file, self._file = self._file or EventFile(self.log_dir), None
            self.file_writer = _EventFileWriter(file)
            self.all_writers = {file.get_logdir(): self.file_writer}
            self._add_scalar = file.stream.add_scalar
            if self.purge_step is not None:
                file.stream.add_message(make_session_start(time.time(), self.purge_step))
                self.purge_step = None
        return self.file_writer


class _EventFileWriter(FileWriter):
    """torch's own methods for each kind of event, over our file."""

    def __init__(self, file: EventFile) -> None:
        self.event_writer = file


def _as_step(step: Any) -> int:
    return 0 if step is None else int(step)


def _as_array(values: Any) -> NDArray[np.generic] | None:
    if isinstance(values, np.ndarray):
        return values
    if not isinstance(values, torch.Tensor) or values.device.type == "meta":
        return None
    # NumPy has no bfloat16; float16, which the stock writer takes, ends at 65504.
    values = values.detach()
    array: NDArray[np.generic] = (
        (values.float() if values.dtype is torch.bfloat16 else values).cpu().numpy()
    )
    return array
