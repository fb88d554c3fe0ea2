"""Evaluating steps as they are saved, during training: `python -m stoker.debugging.evaluate`."""

from stoker.debugging.evaluate.offline import evaluate_saved
from stoker.debugging.evaluate.watched import Fired, WatchedRule

__all__ = ["Fired", "WatchedRule", "evaluate_saved"]
