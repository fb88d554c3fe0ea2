from __future__ import annotations

import pytest

from stoker.tracking.run_filter import FilterInvalid, parse_filter

FACTS = {
    "metrics": {"loss": 0.25, "val acc": 0.9},
    "params": {"lr": "0.1", "opt": "Adam"},
    "tags": {"team": "a_b"},
    "attributes": {"status": "FINISHED", "start_time": 1000.0},
    "datasets": {"name": ("iris", "mnist")},
}
ATTRIBUTES = ("status", "start_time")


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
        ("status IN ('FINISHED',)", True),
        ("start_time >= 1001", False),
        ("params.opt = 'Ad''am'", False),
        ("params.lr = '0.10'", False),
        ("params.lr = 0.10", True),
        ("dataset.name = 'mnist' and datasets.name LIKE 'ir%'", True),
        ("dataset.name != 'iris'", True),
        ("dataset.digest IN ('1')", False),
    ],
)
def test_a_filter_holds_or_not(text, expected):
    assert all(condition.holds(FACTS) for condition in parse_filter(text, ATTRIBUTES)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("metrics.loss", "status < 1 or status < 2", "status ~ 1", "status IN 1", "and"),
        *("status = 'open", "status IN ('x'", "status IN ('x' 'y')", "status IN ()"),
        *("lr < 1", "things.lr < 1", "dataset.size = 1", "'a' = params.lr"),
    ],
)
def test_what_is_no_filter_is_refused(text):
    with pytest.raises(FilterInvalid):
        parse_filter(text, ATTRIBUTES)
