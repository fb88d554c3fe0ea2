"""The page of a study: offline, safe against names, and drawn by a browser without errors."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess

import pytest

from stoker.tuning.page import MOST_VALUES, SearchedDefinition, render_page
from stoker.tuning.parameters import Categorical, Continuous, Integer
from stoker.tuning.search import suggest
from stoker.tuning.space import SearchSpace
from stoker.tuning.study import Goal, Strategy, Study, Trial, TrialState

NASTY = "</script><script>alert(1)</script>"
SPACE = SearchSpace(
    parameters=(
        Continuous(name="lr", low=1e-5, high=1e-1),
        Integer(name="layers", low=1, high=4),
        Categorical(name=NASTY, values=('"sgd"', '"adam"')),
    )
)
STUDY = Study(space=SPACE, goal=Goal.MAXIMIZE, strategy=Strategy.RANDOM)


def make_trials(count):
    trials = []
    for number in range(1, count + 1):
        values = suggest(STUDY, number, trials)
        curve = tuple(1 - 1 / (epoch + number) for epoch in range(5))
        state = [*TrialState][number % 5]
        is_pending = state in (TrialState.RUNNING, TrialState.PAUSED)
        objective = None if is_pending or state is TrialState.FAILED else curve[-1]
        trials.append(
            Trial(number=number, parameters=values, state=state, curve=curve, objective=objective)
        )
    return trials


def facts_of(page):
    return json.loads(re.search(r'id="facts">(.*?)</script>', page, re.S)[1])


def render(trials):
    definition = SearchedDefinition(study=STUDY, metric="accuracy", trials=trials)
    return render_page([definition], name="tune-1", state="Completed")


def render_several(*, metric):
    """Two definitions with a space each; the trials take turns."""
    other = SearchSpace(parameters=(Continuous(name="depth", low=1, high=9),))
    study = Study(space=other, goal=Goal.MINIMIZE if metric == "loss" else Goal.MAXIMIZE)
    mine = [trial for trial in make_trials(60) if trial.number % 2]
    theirs = [
        Trial(
            number=trial.number + 1,
            parameters={"depth": str(1 + trial.number / 8)},
            state=TrialState.COMPLETED,
            curve=(0.1, trial.number / 60),
            objective=trial.number / 60,
        )
        for trial in mine
    ]
    definitions = [
        SearchedDefinition(name="net", study=STUDY, metric="accuracy", trials=mine),
        SearchedDefinition(name="<trees>", study=study, metric=metric, trials=theirs),
    ]
    return render_page(definitions, name="tune-2", state="Completed")


def test_the_page_needs_no_network():
    page = render(make_trials(30))
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)|src=|@import|url\(", page)


def test_the_same_values_give_the_same_page():
    assert render(make_trials(20)) == render(make_trials(20))


def test_names_cannot_end_the_data():
    page = render(make_trials(12))
    assert "<script>alert" not in page
    (definition,) = facts_of(page)["definitions"]
    assert definition["parameters"][2] == {"name": NASTY, "values": ["sgd", "adam"]}


def test_values_that_are_no_numbers_and_long_curves_are_kept_small():
    long = Trial(
        number=1,
        parameters={"lr": "0.01", "layers": "2", NASTY: '"sgd"'},
        state=TrialState.COMPLETED,
        curve=(math.nan, *(float(i) for i in range(10_000))),
        objective=math.inf,
    )
    (trial,) = facts_of(render([long]))["trials"]
    assert trial["objective"] is None
    assert trial["epochs"] == 10_001
    assert len(trial["curve"]) <= MOST_VALUES + 1
    assert trial["curve"][-1] == [10_001, 9_999.0]


def test_each_definition_has_its_own_space_objective_and_importance():
    facts = facts_of(render_several(metric="loss"))
    net, trees = facts["definitions"]
    assert [p["name"] for p in net["parameters"]] == ["lr", "layers", NASTY]
    assert [p["name"] for p in trees["parameters"]] == ["depth"]
    assert [one["name"] for one in trees["importance"]] == ["depth"]
    assert (net["isMaximized"], trees["isMaximized"]) == (True, False)
    assert trees["best"] == 2
    assert [trial["number"] for trial in facts["trials"]] == list(range(1, 61))
    assert {len(t["places"]) for t in facts["trials"] if t["definition"]} == {1}


@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not here to draw the page")
@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_browser_draws_every_part(tmp_path, count):
    shown = draw(tmp_path, render(make_trials(count)))
    assert shown.count('<tr data-trial="') == count
    if count == 30:
        for part in ("history", "importance", "curves", "parallel"):
            assert shown.count(f'data-part="{part}"><svg') == 1, part
        assert shown.count("<circle") > 40


@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not here to draw the page")
@pytest.mark.parametrize(("metric", "histories"), [("accuracy", 1), ("loss", 2)])
def test_a_browser_draws_every_definition(tmp_path, metric, histories):
    shown = draw(tmp_path, render_several(metric=metric))
    assert shown.count('data-part="history"><svg') == histories
    for part in ("importance", "curves", "parallel"):
        assert shown.count(f'data-part="{part}"><svg') == 2, part
    assert shown.count('<tr data-trial="') == 60
    assert "Definition &lt;trees&gt;" in shown


def draw(tmp_path, text):
    """The page as a browser has drawn it."""
    page = tmp_path / "page.html"
    page.write_text(text)
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    argv += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [*argv, page.as_uri()], capture_output=True, text=True, timeout=240, check=True
    )
    assert "CONSOLE" not in done.stderr
    return done.stdout
