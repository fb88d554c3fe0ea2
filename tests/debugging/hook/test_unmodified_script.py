"""What the files and variables of a job make of the hook, in a process of the launcher's."""

from __future__ import annotations

import pytest

from stoker.bus.rule_plan import write_rule_plan
from stoker.contract.job import read_job
from stoker.debugging.hook.unmodified_script import (
    attach_to_job,
    make_place,
    read_config,
    read_needs,
)
from stoker.debugging.tensors.saved_tensors import SavedTensors
from stoker.worker import autoload

from .trainings import Net, fit, plain_loss


@pytest.fixture
def job_of(opt_ml, monkeypatch):
    """The job of a worker with some variables."""
    monkeypatch.setenv("STOKER_ROOT", str(opt_ml.root))

    def make(**environ: str):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return read_job()

    return make


def collections_of(job) -> dict[str, int]:
    return {w.collection: w.schedules["TRAIN"].save_interval for w in read_config(job).wanted}


def test_file_and_variable_are_saved_both(opt_ml, job_of):
    opt_ml.config(
        "debughookconfig",
        {
            "HookParameters": {"save_interval": "7"},
            "CollectionConfigurations": [{"CollectionName": "weights"}],
        },
    )
    assert collections_of(job_of()) == {"losses": 7, "weights": 7}
    both = job_of(STOKER_DEBUG="collections=gradients every=3")
    assert collections_of(both) == {"losses": 3, "weights": 7, "gradients": 3}


def test_the_variable_alone_is_enough(job_of):
    job = job_of(STOKER_DEBUG="collections=gradients every=3")
    assert collections_of(job) == {"losses": 3, "gradients": 3}


@pytest.mark.parametrize("environ", [{"STOKER_DEBUG": "off"}, {"USE_SMDEBUG": "False"}])
def test_it_can_be_switched_off(opt_ml, job_of, environ):
    opt_ml.config("debughookconfig", {"HookParameters": {"save_interval": "1"}})
    job_of(**environ)
    assert attach_to_job(lambda _: None) is None


def test_what_rules_need_is_saved(opt_ml, job_of):
    job = job_of(STOKER_DEBUG="every=2")
    write_rule_plan(job.paths, "VanishingGradient")
    (need,) = read_needs(job)
    assert need.reductions == ("abs_mean",)
    hook = attach_to_job(lambda _: None)
    assert hook is not None
    with hook:
        fit(Net(), plain_loss)
    saved = SavedTensors(opt_ml.root / "output/tensors")
    assert list(saved.steps()) == [0, 2]
    gradients = saved.at(2).needed(need)
    assert gradients
    assert all(tensor.reduction("abs_mean") > 0 for tensor in gradients)
    assert not saved.at(2).needed("weights")


@pytest.mark.parametrize(
    ("environ", "rank", "ranks"),
    [
        ({}, 1, 3),
        ({"RANK": "5", "WORLD_SIZE": "8"}, 5, 8),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, 2, 4),
    ],
)
def test_launchers_or_hosts_number_the_processes(opt_ml, job_of, environ, rank, ranks):
    hosts = ["algo-1", "algo-2", "algo-3"]
    opt_ml.config("resourceconfig", {"current_host": "algo-2", "hosts": hosts})
    place = make_place(job_of(**environ))
    assert (place.rank, place.ranks) == (rank, ranks)


def test_a_setting_that_cannot_be_read_is_one_warning(job_of, capsys):
    job_of(STOKER_DEBUG="colections=losses")
    autoload._attach_hook()
    error = capsys.readouterr().err
    assert error.startswith("[stoker] warning: no tensors are saved: STOKER_DEBUG: ")
    assert "did you mean collections?" in error
