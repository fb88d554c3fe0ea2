"""Tensors on disk in smdebug's own format: writing them cheaply, reading them lazily."""

from stoker.debugging.tensors.background import BackgroundWriter, Tally
from stoker.debugging.tensors.collection import Collection, Schedule, write_collections
from stoker.debugging.tensors.end_marker import mark_end
from stoker.debugging.tensors.folder_notes import write_descriptions
from stoker.debugging.tensors.saved_tensors import SavedTensors
from stoker.debugging.tensors.step import Step
from stoker.debugging.tensors.step_file import SavedStep, Written, write_step
from stoker.debugging.tensors.tensor import Tensor

__all__ = [
    "BackgroundWriter",
    "Collection",
    "SavedStep",
    "SavedTensors",
    "Schedule",
    "Step",
    "Tally",
    "Tensor",
    "Written",
    "mark_end",
    "write_collections",
    "write_descriptions",
    "write_step",
]
