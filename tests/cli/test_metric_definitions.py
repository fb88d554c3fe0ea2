"""`stoker metric-definitions`, as it is typed."""

from __future__ import annotations

import ast
import json
import re

import pytest

from stoker.bus.metric_line import make_line
from stoker.cli.main import main


def run(capsys, *arguments):
    code = main(["metric-definitions", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_output_is_pasted_into_an_estimator(capsys):
    code, out, _ = run(capsys, "train/loss", "val acc", "train/loss")
    assert code == 0
    name, _, value = out.partition("=")
    assert name == "metric_definitions"
    definitions = ast.literal_eval(value.strip())
    assert [d["Name"] for d in definitions] == ["train/loss", "val acc"]
    line = make_line(3, {"train/loss": 0.5, "val acc": 2.0})
    assert [re.search(d["Regex"], line)[1] for d in definitions] == ["0.5", "2.0"]


def test_json_is_the_form_of_the_api(capsys):
    _, out, _ = run(capsys, "loss", "--json")
    (definition,) = json.loads(out)
    assert definition.keys() == {"Name", "Regex"}


def test_names_come_from_a_run_on_this_machine(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "stoker-job/output/data/stoker/metrics.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"step": 1, "time": 1.0, "metrics": {"b": 1, "a": "nan"}}\n{"step": 2')
    for arguments in ([], ["--from", str(file)]):
        _, out, _ = run(capsys, "--json", *arguments)
        assert [d["Name"] for d in json.loads(out)] == ["b", "a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which metrics?"),
        (["--from", "nothing.jsonl"], "nothing.jsonl cannot be read"),
        (["x" * 500], "SageMaker takes 500"),
    ],
)
def test_a_mistake_says_what_to_do(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "fix:" in err


def test_more_than_a_job_takes_is_told(capsys):
    code, out, err = run(capsys, "--json", *(f"m{number}" for number in range(41)))
    assert (code, len(json.loads(out))) == (0, 41)
    assert "a job takes 40" in err
