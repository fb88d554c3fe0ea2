"""Makes the smdebug data in this folder with the real XGBoost and smdebug's own hook for it.

Run once, in a venv of its own, since neither the image nor the tests need XGBoost:

    pip install xgboost-cpu==3.2.0 "setuptools<81" smdebug-1.0.34+stoker1-py2.py3-none-any.whl
    python make.py

`overweight` puts nearly every split on one feature and grows trees without a limit; `balanced`
uses eight features alike in trees of depth 4. Both save everything at three boosting rounds.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pkg_resources
import xgboost

_get_distribution = pkg_resources.get_distribution
# smdebug asks for the version of "xgboost"; the wheel without CUDA has another name.
pkg_resources.get_distribution = lambda name: _get_distribution(
    "xgboost-cpu" if name == "xgboost" else name
)

from smdebug import SaveConfig  # noqa: E402 - needs the line above
from smdebug.xgboost import Hook  # noqa: E402 - as above

HERE = Path(__file__).parent
COLLECTIONS = ["metrics", "feature_importance", "trees", "labels", "predictions"]


def train(name: str, labels: np.ndarray, features: np.ndarray, max_depth: int) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    matrix = xgboost.DMatrix(features, labels)
    hook = Hook(
        out_dir=str(folder),
        save_config=SaveConfig(save_interval=1),
        include_collections=COLLECTIONS,
        validation_data=matrix,
    )
    parameters = {
        **{"objective": "binary:logistic", "max_depth": max_depth, "seed": 0, "nthread": 1},
        **{"min_child_weight": 0, "lambda": 0, "eta": 0.3},
    }
    xgboost.train(parameters, matrix, 3, evals=[(matrix, "validation")], callbacks=[hook])
    hook.close()


def main() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 8)).astype(np.float32)
    # Alternating labels along one feature: each boundary needs one more split on it.
    stripes = np.floor(features[:, 0] * 8) % 2
    only_one = features * np.eye(1, 8, dtype=np.float32)[0]
    train("overweight", stripes, only_one, max_depth=100)
    signs = np.sign(features) @ np.ones(8) + 0.1 * random.normal(size=60) > 0
    train("balanced", signs.astype(np.float32), np.sign(features), max_depth=4)


if __name__ == "__main__":
    main()
