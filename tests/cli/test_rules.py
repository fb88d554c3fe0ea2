"""`stoker rules` as a user calls it, on a folder and on a real S3 server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from stoker.cli.main import main
from stoker.debugging.profiler_rules import PROFILER_CATALOGUE
from stoker.debugging.rules import CATALOGUE
from stoker.debugging.tensors import Collection, SavedStep, mark_end, write_collections, write_step
from tests.s3_server import serve_s3

LOSS = "CrossEntropyLoss_output_0"
MINE = """
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter

class Low(Rule):
    '''A loss is lower than I like.'''

    limit: float = parameter(0.5, "the lowest I like", minimum=0)

    def needs(self):
        return [Need(collection="losses")]

    def check(self, step, tensors):
        (loss,) = tensors.needed("losses")
        if loss.value() < self.limit:
            return Finding(message=f"{float(loss.value()):g} is low", tensor=loss.name)
"""


OF_SMDEBUG = """
from smdebug.rules.rule import Rule

class Low(Rule):
    def __init__(self, base_trial, limit="0.5"):
        super().__init__(base_trial)
        self.limit = float(limit)

    def invoke_at_step(self, step):
        print("looking")
        return self.base_trial.tensor("CrossEntropyLoss_output_0").value(step) < self.limit
"""


def save(folder, losses):
    """A run of one loss a step, every tenth."""
    collection = Collection(name="losses", tensor_names=(LOSS,))
    write_collections(str(folder), "worker_0", [collection])
    for number, loss in enumerate(losses):
        write_step(
            str(folder),
            "worker_0",
            SavedStep(
                step=number * 10,
                mode="TRAIN",
                mode_step=number * 10,
                tensors={LOSS: np.array(loss, np.float32)},
            ),
        )
    mark_end(str(folder), is_job=False)


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path, monkeypatch):
    """A function: losses → the name of a place with such a run."""
    if request.param == "folder":

        def make(losses, name="run"):
            save(tmp_path / name, losses)
            return str(tmp_path / name)

        yield make
        return

    (tmp_path / "s3/bucket").mkdir(parents=True)
    with serve_s3(tmp_path / "s3", monkeypatch):

        def make_on_s3(losses, name="run"):
            save(tmp_path / name, losses)
            shutil.copytree(tmp_path / name, tmp_path / f"s3/bucket/{name}/debug-output")
            return f"s3://bucket/{name}/debug-output"

        yield make_on_s3


def test_ls_has_every_rule_of_the_catalogue(capsys):
    assert main(["rules", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [*CATALOGUE, *PROFILER_CATALOGUE]
    assert [line.split()[0] for line in lines[: len(names)]] == names
    assert all(len(line) < 130 for line in lines)
    assert main(["rules", "ls", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["rule"] for entry in listed] == names
    assert all(entry["about"] for entry in listed)


@pytest.mark.parametrize("name", [*CATALOGUE, *PROFILER_CATALOGUE])
def test_explain_has_a_page_of_every_rule(name, capsys):
    assert main(["rules", "explain", name]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{name}\n===")
    assert "\nParameters\n" in said
    assert "\nNeeds\n" in said
    for parameter in {**CATALOGUE, **PROFILER_CATALOGUE}[name].parameters.values():
        assert parameter.help in said


def test_explain_knows_the_sdks_spelling_and_names_the_nearest(capsys):
    assert main(["rules", "explain", "vanishing_gradient", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["rule"] == "VanishingGradient"
    (threshold,) = [p for p in page["parameters"] if p["name"] == "threshold"]
    assert threshold["default"] == 1e-7
    assert page["needs"] == ["the collection gradients; abs_mean will do"]
    assert main(["rules", "explain", "VanishingGradients"]) == 2
    assert "did you mean VanishingGradient?" in capsys.readouterr().err
    assert main(["rules", "explain", "zebra"]) == 2
    assert "`stoker rules ls` lists all" in capsys.readouterr().err


def test_run_tells_a_sick_run_from_a_healthy_one(place, capsys):
    sick = place([1.0, 0.9, float("nan")])
    assert main(["rules", "run", "ExplodingTensor", sick]) == 1
    said = capsys.readouterr().out
    assert said.startswith("ExplodingTensor: IssuesFound (3 of 3 saved steps evaluated)\n")
    assert f"  step 20 (TRAIN): {LOSS} holds NaN at step 20" in said
    assert "  hint: lower the learning rate" in said
    healthy = place([1.0, 0.9, 0.8], "healthy")
    assert main(["rules", "run", "exploding_tensor", healthy]) == 0
    said = capsys.readouterr().out
    assert said == "exploding_tensor: NoIssuesFound (3 of 3 saved steps evaluated)\n"


def test_run_takes_parameters_and_prints_json(place, capsys):
    run = place([1.0, 1.0, 1.0, float("inf")])
    asked = ["rules", "run", "UnchangedTensor", run, "--json", "--param", "tensor_regex=Loss"]
    assert main([*asked, "--param", "num_steps=2"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["findings"][0]["step"]) == ("IssuesFound", 10)
    assert main([*asked, "--param", "num_steps=4"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_run_leaves_a_page_with_the_losses(place, capsys, tmp_path):
    run, page = place([1.0, 0.9, float("nan")]), tmp_path / "report.html"
    assert main(["rules", "run", "ExplodingTensor", run, "--html", str(page)]) == 1
    assert f"{page}: " in capsys.readouterr().err
    assert "ExplodingTensor at 20</text>" in page.read_text()
    assert main(["rules", "run", "ExplodingTensor", run, "--html", str(tmp_path)]) == 2
    assert "cannot be written: Is a directory" in capsys.readouterr().err


def test_run_evaluates_by_a_rule_of_the_users(place, capsys, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    run = place([1.0, 0.7, 0.4])
    assert main(["rules", "run", "mine.py:Low", run]) == 1
    assert "step 20 (TRAIN): 0.4 is low" in capsys.readouterr().out
    assert main(["rules", "run", "mine.py:Low", run, "--param", "limit=0.1"]) == 0


def test_a_rule_of_ones_own_without_a_word_about_it_borrows_none(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(MINE.replace("'''A loss is lower than I like.'''", ""))
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "explain", "mine.py:Low"]) == 0
    shown = capsys.readouterr().out
    assert "the lowest I like" in shown
    assert "Subclass it" not in shown


def test_run_evaluates_by_a_rule_of_smdebugs_kind_and_prints_its_own_answer_only(
    place, capsys, tmp_path, monkeypatch
):
    (tmp_path / "mine.py").write_text(OF_SMDEBUG)
    monkeypatch.chdir(tmp_path)
    asked = ["rules", "run", "mine.py:Low", place([1.0, 0.7, 0.4]), "--json"]
    assert main(asked) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["step"] == 20
    assert main([*asked, "--param", "limit=0.1"]) == 0


def test_run_compares_with_another_run_wherever_it_is(place, capsys):
    asked = ["rules", "run", "SimilarAcrossRuns", place([1.0, 0.9])]
    assert main([*asked, "--param", f"other_trials={place([1.0, 0.9], 'same')}"]) == 0
    assert main([*asked, "--param", f"other_trial_0={place([1.0, 0.8], 'other')}"]) == 1
    assert "step 10 (TRAIN)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("def needs(self): raise ValueError('boo')", "ValueError: boo (mine.py, line 4)"),
        ("def needs(self): return ['losses']", "its needs() returns 'losses'"),
        ("def __init__(self): pass", "TypeError: "),
        ("pass", "NotImplementedError: Mine does not say what it needs"),
    ],
)
def test_explain_tries_a_rule_of_ones_own(tmp_path, monkeypatch, capsys, body, what):
    (tmp_path / "mine.py").write_text(f"import stoker\n\nclass Mine(stoker.Rule):\n    {body}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "explain", "mine.py:Mine"]) == 2
    said = capsys.readouterr().err
    assert what in said
    assert "internal error" not in said


def test_explain_names_a_rule_of_ones_own_as_it_is_asked_for(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    assert main(["rules", "explain", "mine.py:Low"]) == 0
    assert 'STOKER_RULES="mine.py:Low"' in capsys.readouterr().out


def test_what_was_never_saved_is_an_error_and_not_a_pass(place, capsys):
    assert main(["rules", "run", "VanishingGradient", place([1.0, 0.9])]) == 2
    said = capsys.readouterr().out
    assert "VanishingGradient: Error" in said
    assert "it never found tensors of the collection 'gradients'" in said


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (["--param", "threshold"], "has no value"),
        (["--param", "a=1", "--param", "a=2"], "is given twice"),
    ],
)
def test_parameters_that_cannot_be_are_refused(tmp_path, params, text, capsys):
    save(tmp_path / "run", [1.0])
    assert main(["rules", "run", "AllZero", str(tmp_path / "run"), *params]) == 2
    assert text in capsys.readouterr().err


def test_a_wrong_parameter_of_the_rule_is_told(tmp_path, capsys):
    save(tmp_path / "run", [1.0])
    run = ["rules", "run", "VanishingGradient", str(tmp_path / "run")]
    assert main([*run, "--param", "treshold=1"]) == 2
    assert "did you mean threshold?" in capsys.readouterr().out


def test_a_place_without_tensors_is_refused(tmp_path, capsys):
    assert main(["rules", "run", "AllZero", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["rules", "run", "AllZero", str(tmp_path)]) == 2
    assert "there are no saved tensors in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["ls"], 0), (["explain", "DeadRelu"], 0), (["run", "DeadRelu", "folder"], 2)],
)
def test_without_numpy_rules_are_listed_and_the_extra_is_named(argv, code):
    start = "import sys; sys.modules['numpy'] = None; from stoker.cli.main import main"
    command = [sys.executable, "-c", f"{start}; sys.exit(main(['rules', *{argv!r}]))"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == code, done.stderr
    assert ("fix: pip install 'stoker[tensors]'" in done.stderr) == (code == 2)
