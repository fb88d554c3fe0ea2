from __future__ import annotations

import pytest

from stoker.tracking.run_filter import FilterInvalid, parse_filter

FACTS = {
    "metrics": {"loss": 0.25, "val acc": 0.9},
    "params": {"lr": "0.1", "opt": "Adam"},
    "tags": {"team": "a_b"},
    "attributes": {"status": "FINISHED", "start_time": 1000.0},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metrics.loss < 0.5", True),
        ("metric.loss<=0.2", False),
        ('metrics."val acc" > 0.5 AND params.opt = "Adam"', True),
        ("metrics.`val acc` = 0.9", True),
        ("params.lr < 0.5", True),
        ("params.opt LIKE 'ad%'", False),
        ("params.opt ILIKE 'ad%'", True),
        ("params.opt != 'sgd'", True),
        ("params.none != 'sgd'", False),
        ("params.none IS NULL and tags.team IS NOT NULL", True),
        ("attributes.status IN ('RUNNING', 'FINISHED')", True),
        ("status NOT IN ('RUNNING')", True),
        ("start_time >= 1001", False),
    ],
)
def test_a_filter_holds_or_not(text, expected):
    assert all(condition.holds(FACTS) for condition in parse_filter(text)) == expected


@pytest.mark.parametrize(
    "text", ["metrics.loss", "a < 1 or b < 2", "a ~ 1", "a IN 1", "a = 'open", "and", "a IN ('x'"]
)
def test_what_is_no_filter_is_refused(text):
    with pytest.raises(FilterInvalid):
        parse_filter(text)
