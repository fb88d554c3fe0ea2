"""What stock TensorBoard reads from a folder."""

from __future__ import annotations

import os
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader


def accumulate(folder: Path | str) -> EventAccumulator:
    """A run as TensorBoard shows it, every point kept."""
    everything = dict.fromkeys(("scalars", "histograms", "images", "tensors", "audio"), 0)
    accumulator = EventAccumulator(str(folder), size_guidance=everything)
    accumulator.Reload()
    return accumulator


def scalars(folder: Path | str, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in accumulate(folder).Scalars(tag)]


def event_files(folder: Path | str) -> list[Path]:
    return sorted(Path(folder).glob("*tfevents*"))


def events_of(file: Path) -> list[object]:
    """The events of one file as they were written, not migrated to newer forms."""
    return list(LegacyEventFileLoader(os.fspath(file)).Load())
