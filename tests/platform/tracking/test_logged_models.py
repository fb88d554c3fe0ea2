"""MLflow's logged models, where a stock client does not come by (tests/platform/sdk has those)."""

from __future__ import annotations

from stoker.platform.tracking.logged_models import LoggedModelOperations
from stoker.tracking.store import RunStore


def test_a_model_may_be_the_first_thing_that_is_logged(tmp_path):
    store = RunStore(tmp_path / "runs.sqlite")
    create = LoggedModelOperations(store).operations()["POST logged-models"]
    info = create({"experiment_id": "0", "name": "early"})["model"]["info"]
    assert (info["experiment_id"], info["name"]) == ("0", "early")
    assert info["artifact_uri"].endswith(f"/mlflow/0/models/{info['model_id']}/artifacts")
    store.close()
