"""The page of a run that rules have watched."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from stoker.bus.rule_status import RuleStatus
from stoker.debugging.evaluate.findings_file import FindingsFile, read_findings
from stoker.debugging.evaluate.watched import Fired
from stoker.debugging.report import Report, render_report
from stoker.debugging.report.curves import Curve, read_curves, render_chart
from stoker.debugging.rule import Finding
from stoker.debugging.tensors import SavedStep, SavedTensors, write_step

LOSS = "CrossEntropyLoss_output_0"
INFINITY, NAN = float("inf"), float("nan")


def save(folder, step, *, mode="TRAIN", worker="worker_0", **tensors):
    arrays = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
    saved = SavedStep(step=step, mode=mode, mode_step=step, tensors=arrays)
    write_step(str(folder), worker, saved)


def curve(*losses, mode="TRAIN", name=LOSS):
    return Curve(name=name, mode=mode, points=tuple(enumerate(losses)))


def fired(rule="Exploding", step=3, **parts):
    return Fired(rule=rule, step=step, finding=Finding(message="it explodes", **parts))


def test_curves_are_the_losses_of_each_mode(tmp_path):
    for step in range(6):
        save(tmp_path, step, mode="EVAL" if step % 3 == 2 else "TRAIN", **{LOSS: [step, step + 2]})
    save(tmp_path, 6, weight=[1.0])
    assert read_curves(SavedTensors(tmp_path)) == [
        Curve(name=LOSS, mode="TRAIN", points=((0, 1.0), (1, 2.0), (3, 4.0), (4, 5.0))),
        Curve(name=LOSS, mode="EVAL", points=((2, 3.0), (5, 6.0))),
    ]


def test_of_many_steps_some_are_read_but_always_the_first_the_last_and_those_asked_for(tmp_path):
    for step in range(60):
        save(tmp_path, step, **{LOSS: step})
    (read,) = read_curves(SavedTensors(tmp_path), required_steps=[17, 999], most_points=5)
    assert [step for step, _ in read.points] == [0, 15, 17, 30, 44, 59]


def test_a_damaged_step_is_left_out_of_the_curve(tmp_path):
    for step in range(3):
        save(tmp_path, step, **{LOSS: step})
    (events,) = tmp_path.glob("events/*1/*")
    events.write_bytes(b"")
    (read,) = read_curves(SavedTensors(tmp_path))
    assert [step for step, _ in read.points] == [0, 2]


@pytest.mark.parametrize(
    "losses",
    [
        (1.0, 0.5, 0.2),
        (1.0,),
        (0.7, 0.7, 0.7),
        (NAN, INFINITY, -INFINITY),
        (1e-30, 1.0, 1e30, INFINITY),
        (-3.4e38, 3.4e38),
        (-1.7e308, 1.7e308, 0.0),
        (5e-324, 1.0),
    ],
)
def test_any_losses_are_drawn_within_the_drawing(losses):
    drawn = ET.fromstring(render_chart([curve(*losses)], {1: ["A"], len(losses): ["B", "C"]}))
    width, height = map(float, drawn.attrib["viewBox"].split()[2:])
    for line in drawn.iter("polyline"):
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    # One cross for each loss that is no number, all in one path.
    crosses = [path.attrib["d"] for path in drawn.iter("path") if path.get("class") == "wild"]
    assert sum(each.count("M") for each in crosses) == int(np.sum(~np.isfinite(losses)))


def test_large_differences_get_a_logarithmic_scale():
    labels = [
        text.text for text in ET.fromstring(render_chart([curve(0.1, 1e4)], {})).iter("text")
    ]
    assert {"0.1", "1", "10"} <= set(labels)
    labels = [text.text for text in ET.fromstring(render_chart([curve(1, 3)], {})).iter("text")]
    assert {"1", "2", "3"} <= set(labels)


def test_the_page_tells_the_outcome_the_findings_and_what_could_not_be_evaluated():
    def status(name, status, **parts):
        return RuleStatus(name=name, rule=name, status=status, **parts)

    page = render_report(
        Report(
            title="job",
            outcome="stopped by rule Exploding at step 3",
            rules=(
                status("Fine", "NoIssuesFound", evaluated_steps=12),
                status("Exploding", "IssuesFound", step=3),
                status("Lost", "Error", details="it never found gradients"),
            ),
            findings=(fired(hint="lower the learning rate"),),
            curves=(curve(1.0, 2.0, 9.0, INFINITY),),
            saved_steps=4,
        )
    )
    for text in (
        "<b>stopped by rule Exploding at step 3</b>",
        "1 of 3 rules found something in 4 saved steps.",
        "Exploding at 3</text>",
        "it explodes",
        "lower the learning rate",
        "it never found gradients",
        "12 steps evaluated",
        "infinite or not a number",
    ):
        assert text in page
    # What matters stands first.
    assert page.index("<b>Exploding</b>") < page.index("<b>Lost</b>") < page.index("<b>Fine</b>")


def test_names_of_the_users_do_no_harm_and_nothing_is_loaded():
    evil = "<script>alert(1)</script>"
    page = render_report(
        Report(
            title=evil,
            outcome=evil,
            rules=(RuleStatus(name=evil, rule=evil, status="Error", details=evil),),
            findings=(fired(evil, hint=evil),),
            curves=(curve(1.0, 2.0, name=evil),),
            saved_steps=1,
        )
    )
    assert "<script" not in page
    assert "http" not in page
    assert "no curve to show" not in page


def test_a_run_without_losses_says_so():
    page = render_report(Report(title="run", rules=(), findings=(), curves=(), saved_steps=0))
    assert "No losses were saved" in page
    assert "0 of 0 rules found something in 0 saved steps." in page


def test_findings_are_read_as_they_were_written(tmp_path):
    file = tmp_path / "stoker/findings.jsonl"
    path = str(file)
    written = [
        fired("A", 3, tensor="w", values={"max": 2.0, "limit": INFINITY}, hint="clip"),
        fired("B", 9),
    ]
    for each in written:
        assert FindingsFile(path).append(each) == ""
    with file.open("a") as opened:
        opened.write('[]\n{"rule": "C"}\n{"rule": "half')
    assert read_findings(path) == written
    assert read_findings(str(tmp_path / "none")) == []
    assert json.loads(file.read_text().splitlines()[0])["values"]["limit"] == "inf"
