"""The SM_* variables, and what no process can be given."""

from __future__ import annotations

import json
import os

import pytest

from stoker.contract.environment import drop_oversized, make_environment
from stoker.contract.job import read_job
from stoker.contract.secrets import Masker
from stoker.errors import StokerError
from stoker.runtime.launch import launch
from stoker.runtime.plan import make_plan
from stoker.runtime.program import find_program
from stoker.runtime.signals import unblock_signals

LONGEST = 128 * 1024 - 1


def variables(opt_ml, **environ):
    job = read_job(root=opt_ml.root, environ=environ)
    return make_environment(job, entry_point="train.py", code_dir=f"{opt_ml.root}/code")


def start(opt_ml):
    """Plans the job and really starts a process with its environment and arguments."""
    job = read_job(root=opt_ml.root, environ={"PATH": os.defpath})
    program = find_program(f"{opt_ml.root}/code", "train.py")
    plan = make_plan(job, program, crash_dir=str(opt_ml.root), mask=Masker())
    child = launch(plan.worker.replace(argv=("/bin/true", *plan.worker.argv[1:])))
    unblock_signals()
    os.close(child.stdout)
    os.close(child.stderr)
    assert os.waitpid(child.pid, 0)[1] == 0
    return plan


def test_values_are_spelt_as_the_toolkit_spells_them(opt_ml):
    opt_ml.hyperparameters(text="a b", flag="true", none="null", map='{"b": 1, "a": "ä"}')
    made = variables(opt_ml)
    assert made["SM_HP_TEXT"] == "a b"
    assert made["SM_HP_FLAG"] == "true"
    assert made["SM_HP_NONE"] == ""
    assert made["SM_HP_MAP"] == '{"a":"\\u00e4","b":1}'
    assert made["SM_USER_ARGS"].startswith('["--flag","True",')


def test_names_with_dashes_and_dots_get_a_second_spelling(opt_ml):
    opt_ml.config("hyperparameters", {"batch-size": "8", "opt.beta-1": "0.9"})
    opt_ml.config("inputdataconfig", {"my-data.v1": {}})
    made = variables(opt_ml)
    assert made["SM_HP_BATCH-SIZE"] == made["SM_HP_BATCH_SIZE"] == "8"
    assert made["SM_HP_OPT.BETA-1"] == made["SM_HP_OPT_BETA_1"] == "0.9"
    assert made["SM_CHANNEL_MY-DATA.V1"] == made["SM_CHANNEL_MY_DATA_V1"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_second_spelling_never_replaces_the_name_that_was_sent(opt_ml, order):
    opt_ml.config("hyperparameters", dict([("a-b", "dash"), ("a_b", "plain")][::order]))
    opt_ml.config("inputdataconfig", {name: {} for name in ["c-d", "c_d"][::order]})
    made = variables(opt_ml)
    assert made["SM_HP_A_B"] == "plain"
    assert made["SM_HP_A-B"] == "dash"
    assert made["SM_CHANNEL_C_D"].endswith("/c_d")


def test_places_of_the_job_are_told(opt_ml):
    made = variables(opt_ml)
    assert made["SM_CHECKPOINT_DIR"] == str(opt_ml.root / "checkpoints")
    assert made["SM_TENSORBOARD_DIR"] == str(opt_ml.root / "output/tensorboard")
    assert made["SM_OUTPUT_FAILURE"] == str(opt_ml.root / "output/failure")


def test_the_leader_is_the_first_host_of_the_distribution(opt_ml):
    opt_ml.config("hyperparameters", {"sagemaker_distribution_instance_groups": '["train"]'})
    opt_ml.config(
        "resourceconfig",
        {
            "current_host": "algo-3",
            "hosts": ["algo-1", "algo-2", "algo-3"],
            "current_group_name": "train",
            "instance_groups": [
                {"instance_group_name": "data", "hosts": ["algo-1"]},
                {"instance_group_name": "train", "hosts": ["algo-2", "algo-3"]},
            ],
        },
    )
    made = variables(opt_ml)
    assert made["SM_MASTER_ADDR"] == "algo-2"
    assert made["SM_CURRENT_HOST_RANK"] == "2"
    assert json.loads(made["SM_TRAINING_ENV"])["is_master"] is False


def test_rank_and_world_size_are_left_to_torchrun(opt_ml):
    made = variables(opt_ml)
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & made.keys()


@pytest.mark.parametrize(
    ("size_bytes", "fits"), [(LONGEST - 1, True), (LONGEST, False), (10**6, False)]
)
def test_what_the_kernel_refuses_is_left_out(size_bytes, fits):
    text = "x" * (size_bytes - len("NAME="))
    kept, left_out = drop_oversized({"NAME": text, "A": "b"})
    assert ("NAME" in kept) is fits
    assert left_out == ([] if fits else ["NAME"])
    assert kept["A"] == "b"


def test_the_limit_counts_bytes_and_not_characters():
    kept, _ = drop_oversized({"X": "火" * 50_000, "Y": "x" * 50_000})
    assert list(kept) == ["Y"]


def test_a_name_with_an_equals_sign_is_left_out():
    assert drop_oversized({"A=B": "c", "D": "e=f"}) == ({"D": "e=f"}, ["A=B"])


@pytest.mark.parametrize("name", ["p{:02}", "p-{:02}"])
def test_the_legal_maximum_of_hyperparameters_starts(opt_ml, name):
    (opt_ml.root / "code/train.py").touch()
    opt_ml.config("hyperparameters", {name.format(i): "x" * 2500 for i in range(100)})
    plan = start(opt_ml)
    assert plan.left_out == ("SM_HPS", "SM_TRAINING_ENV", "SM_USER_ARGS")
    assert len([n for n in plan.worker.environ if n.startswith("SM_HP_P")]) >= 100


@pytest.mark.parametrize("name", ["p{:02}", "p-{:02}"])
def test_the_legal_maximum_starts_with_the_widest_characters(opt_ml, name):
    # 2500 characters are 10 000 bytes each; twice in the environment and once as an argument.
    (opt_ml.root / "code/train.py").touch()
    opt_ml.config("hyperparameters", {name.format(i): "😀" * 2500 for i in range(100)})
    start(opt_ml)


def test_a_hyperparameter_too_long_for_any_argument_is_told_with_a_fix(opt_ml):
    (opt_ml.root / "code/train.py").touch()
    opt_ml.config("hyperparameters", {"x": "x" * 200_000})
    with pytest.raises(StokerError) as caught:
        start(opt_ml)
    assert "hyperparameters" in caught.value.fix


def test_names_and_values_no_shell_could_spell_reach_the_process(opt_ml):
    (opt_ml.root / "code/train.py").touch()
    sent = {"it's": "a'b", "new\nline": "c\nd", "half": '"\\ud800"', "火": "größe"}
    opt_ml.config("hyperparameters", sent)
    plan = start(opt_ml)
    assert plan.worker.environ["SM_HP_IT'S"] == "a'b"
    assert plan.worker.environ["SM_HP_NEW\nLINE"] == "c\nd"
    assert str(plan.worker.folder) == f"{opt_ml.root}/code"
