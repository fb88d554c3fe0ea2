"""What only the TensorFlow image has: `make test-tensorflow`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.checkpoints.test_keras import check_resume

from .conftest import IMAGE

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif("tensorflow" not in IMAGE, reason="another image is under test"),
]
RUNS = Path(__file__).parents[1] / "checkpoints/keras_runs.py"


def test_an_interrupted_keras_run_continues_as_if_nothing_had_happened(opt_ml, containers):
    opt_ml.hyperparameters(sagemaker_program="keras_runs.py")
    shutil.copy(RUNS, opt_ml.root / "code")
    done = containers.run("--entrypoint", "python", command=("keras_runs.py", "/opt/ml/runs"))
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads(done.stdout.splitlines()[-1])
    check_resume(results)
    assert "has no weights yet" in results["unbuilt"]


def test_an_old_save_of_keras_is_refused_with_what_to_write_instead(opt_ml, containers):
    opt_ml.script("""
        import keras
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.save("/opt/ml/model/1")
    """)
    assert containers.run().returncode == 1
    assert "model.export('/opt/ml/model/1')" in opt_ml.failure


def test_a_script_for_torch_is_told_which_image_it_needs(opt_ml, containers):
    opt_ml.script("import torch")
    assert containers.run().returncode == 1
    assert "name the image stoker:cpu" in opt_ml.failure


def test_hosts_of_a_mirrored_strategy_get_their_tf_config(opt_ml, containers):
    opt_ml.script(
        """
        import tensorflow as tf
        found = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        print(found.cluster_spec().as_dict(), found.task_type, found.task_id)
        """,
        sagemaker_multi_worker_mirrored_strategy_enabled="true",
    )
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"]})
    done = containers.run("--hostname", "algo-1")
    assert done.stdout == "{'worker': ['algo-1:8890']} worker 0\n", done.stderr
