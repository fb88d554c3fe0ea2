"""The page of a study: offline, safe against names, and drawn by a browser without errors."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess

import pytest

from stoker.tuning.page import MOST_VALUES, render_page
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
    return render_page(STUDY, trials, name="tune-1", metric="accuracy", state="Completed")


def test_the_page_needs_no_network():
    page = render(make_trials(30))
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)|src=|@import|url\(", page)


def test_the_same_values_give_the_same_page():
    assert render(make_trials(20)) == render(make_trials(20))


def test_names_cannot_end_the_data():
    page = render(make_trials(12))
    assert "<script>alert" not in page
    assert facts_of(page)["parameters"][2] == {"name": NASTY, "values": ["sgd", "adam"]}


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


@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not here to draw the page")
@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_browser_draws_every_part(tmp_path, count):
    page = tmp_path / "page.html"
    page.write_text(render(make_trials(count)))
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    argv += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [*argv, page.as_uri()], capture_output=True, text=True, timeout=240, check=True
    )
    assert "CONSOLE" not in done.stderr
    assert done.stdout.count('<tr data-trial="') == count
    if count == 30:
        for part in ("history", "importance", "curves", "parallel"):
            assert re.search(f'id="{part}"><svg', done.stdout), part
        assert done.stdout.count("<circle") > 40
