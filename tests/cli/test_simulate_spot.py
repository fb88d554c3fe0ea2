"""`stoker simulate-spot` as a user calls it."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree

import pytest

from stoker.cli.main import main

JOB = ("--step-time", "1.2", "--steps", "40000", "--save-cost", "4s", "--runs", "200")
MODEL = ("simulate-spot", "--mean-time-between", "2", *JOB)


def test_the_table_marks_the_best_interval(capsys):
    assert main([*MODEL, "--price", "0.9", "--on-demand-price", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "13.3 h of work; a save costs 4 s, a start 3 min" in lines[0]
    assert "exponential, every 2 h up, 24 min without; 200 runs, seed 0" in lines[1]
    [best] = [line for line in lines[4:12] if line.startswith("*")]
    assert best.split()[1:3] == ["3.96", "min"]
    assert "Young/Daly: 3.96 min" in lines[-2]
    assert "on demand 40.15: " in lines[-1]
    assert "% saved" in lines[-1]


def test_json_holds_every_interval_and_null_where_the_job_never_ends(tmp_path, capsys):
    (tmp_path / "trace.txt").write_text("1h 10m\n")
    trace = ("simulate-spot", "--trace", str(tmp_path / "trace.txt"), *JOB)
    assert main([*trace, "--intervals", "2h,30s,5m", "--json", "--price", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    rows = report["intervals"]
    assert [row["interval_seconds"] for row in rows] == pytest.approx([30, 300, 7200])
    assert rows[2]["finish_seconds"] is None
    assert rows[2]["cost"] is None
    assert rows[1]["cost"] == pytest.approx(rows[1]["billed_seconds"] / 3600)
    assert report["best_interval_seconds"] == pytest.approx(300)


def test_the_same_seed_prints_the_same(capsys):
    main([*MODEL, "--seed", "3"])
    first = capsys.readouterr().out
    main([*MODEL, "--seed", "3"])
    assert capsys.readouterr().out == first
    main([*MODEL, "--seed", "4"])
    assert capsys.readouterr().out != first


def test_no_interval_is_good_enough(tmp_path, capsys):
    (tmp_path / "trace.txt").write_text("10m 10m\n")
    plot = tmp_path / "spot.svg"
    trace = ("simulate-spot", "--trace", str(tmp_path / "trace.txt"), *JOB)
    assert main([*trace, "--intervals", "1h", "--plot", str(plot)]) == 0
    assert "does the job finish: save more often" in capsys.readouterr().out
    assert "does the job finish" in plot.read_text()


def texts_of(svg):
    return [node.text for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")]


def test_the_plot_is_well_formed_and_leaves_out_what_would_flatten_it(tmp_path, capsys):
    plot = tmp_path / "spot.svg"
    assert main([*MODEL, "--intervals", "1m,4m,20m,8h", "--plot", str(plot)]) == 0
    assert str(plot) in capsys.readouterr().err
    texts = texts_of(plot.read_text())
    assert {"4 min", "20 min"} <= set(texts)
    assert "time between saves (finish far later, not shown: 8 h)" in texts
    assert any(text.startswith("best: ") for text in texts)


@pytest.mark.browser
@pytest.mark.skipif(
    not shutil.which("chromium"), reason="PNG is drawn by a browser, and chromium is not here"
)
def test_a_png_is_drawn_by_the_browser(tmp_path):
    plot = tmp_path / "spot.png"
    assert main([*MODEL, "--plot", str(plot)]) == 0
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_png_without_a_browser_is_refused_with_the_other_way(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*MODEL, "--plot", str(tmp_path / "spot.png")]) == 2
    assert "fix: --plot spot.svg" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--step-time", "0"), "--step-time 0 is not above 0"),
        (("--steps", "0"), "--steps 0 is not above 0"),
        (("--save-cost", "soon"), "'soon' is not a duration"),
        (("--intervals", "5m,0s"), "one is not above 0"),
        (("--mean-downtime", "-1"), "is below 0"),
        (("--plot", "spot.gif"), "neither .svg nor .png"),
    ],
)
def test_numbers_that_make_no_sense_are_usage(arguments, said, capsys):
    assert main([*MODEL, *arguments]) == 2
    assert said in capsys.readouterr().err
