"""Trains with the Keras callback: whole, interrupted, resumed. Prints what came of it as JSON.

Usage: python keras_runs.py FOLDER     (the backend is KERAS_BACKEND)
"""

import json
import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np

import stoker
import stoker.bus.stop
from stoker.checkpoints.keras import StokerCheckpoints
from stoker.errors import CheckpointFailed, CheckpointMismatch

ROWS = np.random.default_rng(1).random((80, 8), dtype="float32")
# TensorFlow's order of shuffled arrays cannot be restored: it has its rows in order.
SHUFFLES = keras.backend.backend() == "torch"


class Interruption(keras.callbacks.Callback):
    def __init__(self, at):
        super().__init__()
        self.left = at

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


def make_model(units=16):
    keras.utils.set_random_seed(1)
    layers = keras.layers
    parts = [keras.Input((8,)), layers.Dense(units, activation="relu"), layers.Dropout(0.3)]
    model = keras.Sequential([*parts, layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    return model


def fit(root, *, at=0, model=None, **options):
    (root / "input/config").mkdir(parents=True, exist_ok=True)
    checkpoints = StokerCheckpoints(stoker.job(root=root), steps=3, minutes=None, **options)
    settings = {"batch_size": 8, "epochs": 3, "shuffle": SHUFFLES, "verbose": 0}
    settings["callbacks"] = [Interruption(at), checkpoints]
    model = model or make_model()
    history = model.fit(ROWS, ROWS.sum(1), validation_data=(ROWS, ROWS.sum(1)), **settings)
    return {
        "stopped": checkpoints.stopped,
        "epochs": history.epoch,
        "history": history.history,
        "weights": float(sum(abs(array).sum() for array in model.get_weights())),
        "checkpoints": [c.name + (" best" * c.is_best) for c in checkpoints.store.read_all()],
        "problems": [checkpoints.store.verify(c) for c in checkpoints.store.read_all()],
        "left": _read(root / "output/stoker/left.json"),
    }


def refusal(root, **options):
    try:
        fit(root, **options)
    except (CheckpointFailed, CheckpointMismatch) as error:
        return f"{error.message} {error.fix}"
    return ""


def _read(file):
    return json.loads(file.read_text()) if file.exists() else None


def main(folder):
    results = {
        "whole": fit(folder / "whole", monitor="val_loss"),
        "interrupted": fit(folder / "resumed", at=17),
    }
    # The handler of the first SIGTERM belongs to a process that would have ended.
    stoker.bus.stop._LISTENERS.clear()
    results["resumed"] = fit(folder / "resumed")
    results["finished"] = fit(folder / "resumed")
    results["other model"] = refusal(folder / "resumed", model=make_model(units=8))
    results["not logged"] = refusal(folder / "new", monitor="accuracy")
    unbuilt = keras.Sequential([keras.layers.Dense(1)])
    unbuilt.compile("adam", "mse")
    results["unbuilt"] = refusal(folder / "unbuilt", model=unbuilt)
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
