"""Requests to stop, and what a worker leaves: files that a script may write, too."""

from __future__ import annotations

import json

import pytest

from stoker.bus.rule_status import read_rule_statuses
from stoker.bus.stop import Left, StopRequest, read_left, read_stop_request
from stoker.contract.paths import Paths

RULE = {"name": "a", "status": "Error"}


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "output/stoker").mkdir(parents=True)
    (tmp_path / "output/data/stoker").mkdir(parents=True)
    return Paths(root=str(tmp_path))


@pytest.mark.parametrize("step", ["abc", [1], None, {}, True, 1e999, float("nan")])
def test_a_step_that_is_not_a_number_is_not_a_request(tmp_path, paths, step):
    text = json.dumps({"by": "x", "step": step})
    for name in ("stop", "left"):
        (tmp_path / f"output/stoker/{name}.json").write_text(text)
    assert read_stop_request(paths) is None
    assert read_left(paths) is None


def test_what_we_write_is_read(tmp_path, paths):
    (tmp_path / "output/stoker/stop.json").write_text('{"by": "x", "is_sent_by_platform": true}')
    (tmp_path / "output/stoker/left.json").write_text('{"by": "x", "step": 4}')
    assert read_stop_request(paths) == StopRequest(by="x", is_sent_by_platform=True)
    assert read_left(paths) == Left(by="x", step=4)


@pytest.mark.parametrize("field", [{"details": 7}, {"step": None}, {"status": []}, {"name": {}}])
def test_a_rule_status_of_another_type_is_left_out(tmp_path, paths, field):
    file = tmp_path / "output/data/stoker/rules.json"
    file.write_text(json.dumps({"rules": [{**RULE, "modified": 1}]}))
    assert [rule.name for rule in read_rule_statuses(paths)] == ["a"]
    file.write_text(json.dumps({"rules": [{**RULE, **field}]}))
    assert read_rule_statuses(paths) == []
