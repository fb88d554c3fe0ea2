"""Log streams on disk and the calls that read them."""

from __future__ import annotations

import threading

import pytest

from stoker.platform.api.logs import GROUP, make_logs
from stoker.platform.data.log_streams import LogStreams
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import open_root

JOB, HOST, EPOCH = "job-1", "algo-1", 1_700_000_000
STREAM = f"{JOB}/{HOST}-{EPOCH}"


@pytest.fixture
def root(tmp_path):
    return open_root(tmp_path / "root")


@pytest.fixture
def streams(root):
    streams = LogStreams(root)
    streams.create(JOB, HOST, EPOCH)
    return streams


@pytest.fixture
def call(streams):
    operations = make_logs(streams).operations

    def call(operation, **params):
        return operations[operation]({"logGroupName": GROUP, **params})

    return call


def get(call, **params):
    return call("GetLogEvents", logStreamName=STREAM, **params)


def texts(answer):
    return [event["message"] for event in answer["events"]]


def fill(streams, count):
    streams.append(JOB, HOST, [(1000 + n // 3, f"line {n}") for n in range(count)])


def test_lines_come_back_in_order_whatever_they_hold(streams):
    lines = ["plain", "", 'quotes " and \\', "tab\tand \u2028 and \x00", "größe 🔥", "a\ud800b"]
    streams.append(JOB, HOST, [(5, line) for line in lines])
    assert [event.text for event in streams.read(JOB, HOST)] == lines


def test_times_never_fall_even_over_a_restart(streams, root):
    streams.append(JOB, HOST, [(10, "a"), (7, "b")])
    LogStreams(root).append(JOB, HOST, [(3, "c"), (12, "d")])
    assert [event.time_ms for event in streams.read(JOB, HOST)] == [10, 10, 10, 12]


def test_a_restart_of_the_job_keeps_its_one_stream(streams):
    again = streams.create(JOB, HOST, EPOCH + 99)
    assert again.name == STREAM
    streams.create(JOB, "algo-10", EPOCH)
    assert streams.names(JOB) == [STREAM, f"{JOB}/algo-10-{EPOCH}"]


def test_a_line_cut_by_a_kill_is_not_read_and_gone_at_the_next_write(streams, root):
    streams.append(JOB, HOST, [(1, "whole")])
    with streams.create(JOB, HOST).file.open("ab") as file:
        file.write(b'[2,"hal')
    assert [event.text for event in streams.read(JOB, HOST)] == ["whole"]
    restarted = LogStreams(root)
    restarted.append(JOB, HOST, [(3, "next")])
    assert [event.text for event in restarted.read(JOB, HOST)] == ["whole", "next"]


def test_hosts_write_at_the_same_time_without_mixing(streams):
    hosts = [f"algo-{n}" for n in range(1, 5)]
    for host in hosts:
        streams.create(JOB, host, EPOCH)

    def write(host):
        for n in range(50):
            streams.append(JOB, host, [(n, f"{host} {n}")])

    threads = [threading.Thread(target=write, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for host in hosts:
        assert [e.text for e in streams.read(JOB, host)] == [f"{host} {n}" for n in range(50)]


def test_pages_forward_end_in_an_empty_one_that_later_continues(call, streams):
    fill(streams, 25)
    seen, token = [], {}
    while True:
        page = get(call, startFromHead=True, limit=10, **token)
        token = {"nextToken": page["nextForwardToken"]}
        if not page["events"]:
            break
        seen += texts(page)
    assert seen == [f"line {n}" for n in range(25)]
    streams.append(JOB, HOST, [(9999, "later")])
    assert texts(get(call, startFromHead=True, **token)) == ["later"]


def test_without_start_from_head_the_newest_come_first_and_pages_go_back(call, streams):
    fill(streams, 25)
    newest = get(call, limit=10)
    assert texts(newest) == [f"line {n}" for n in range(15, 25)]
    before = get(call, limit=10, nextToken=newest["nextBackwardToken"])
    assert texts(before) == [f"line {n}" for n in range(5, 15)]
    first = get(call, limit=10, nextToken=before["nextBackwardToken"])
    assert texts(first) == [f"line {n}" for n in range(5)]
    assert texts(get(call, nextToken=first["nextBackwardToken"])) == []


def test_times_choose_the_first_included_the_end_not(call, streams):
    fill(streams, 25)  # three lines in each millisecond from 1000 on
    between = get(call, startFromHead=True, startTime=1002, endTime=1004)
    assert texts(between) == [f"line {n}" for n in range(6, 12)]
    assert texts(get(call, startTime=1002, endTime=1003, limit=2)) == ["line 7", "line 8"]
    assert texts(get(call, startFromHead=True, startTime=5000)) == []


def test_sdk_v2s_way_of_resuming_loses_and_repeats_nothing(call, streams):
    """By the last time it saw, and a count of events it had seen at that time."""
    position, skip, seen = 0, 0, []
    written = 0
    for burst in (4, 0, 7, 1, 30):
        streams.append(
            JOB, HOST, [(1000 + n // 5, f"line {n}") for n in range(written, written + burst)]
        )
        written += burst
        token, left = {}, skip
        while page := get(call, startFromHead=True, startTime=position, limit=3, **token):
            events = page["events"]
            if not events:
                break
            token = {"nextToken": page["nextForwardToken"]}
            fresh, left = events[left:], max(0, left - len(events))
            for event in fresh:
                seen.append(event["message"])
                same = event["timestamp"] == position
                position, skip = event["timestamp"], skip + 1 if same else 1
    assert seen == [f"line {n}" for n in range(written)]


def test_a_page_stays_below_a_megabyte_but_holds_one_event_at_least(call, streams):
    streams.append(JOB, HOST, [(n, "x" * 700_000) for n in range(3)])
    streams.append(JOB, HOST, [(9, "y" * 3_000_000)])
    page = get(call, startFromHead=True)
    assert len(page["events"]) == 1
    assert [len(text) for text in texts(get(call))] == [3_000_000]


def test_streams_are_described_by_prefix_with_their_first_and_last_event(call, streams):
    streams.create("job-10", HOST, EPOCH)
    streams.append(JOB, HOST, [(5, "a"), (8, "b")])
    (described,) = call("DescribeLogStreams", logStreamNamePrefix=f"{JOB}/")["logStreams"]
    assert described["logStreamName"] == STREAM
    assert (described["firstEventTimestamp"], described["lastEventTimestamp"]) == (5, 8)
    page = call("DescribeLogStreams", limit=1)
    rest = call("DescribeLogStreams", limit=1, nextToken=page["nextToken"])
    assert rest["logStreams"][0]["logStreamName"] == f"job-10/{HOST}-{EPOCH}"
    assert "nextToken" not in rest


def test_filtering_merges_the_streams_by_time_page_by_page(call, streams):
    streams.create(JOB, "algo-2", EPOCH)
    streams.append(JOB, HOST, [(n, f"one {n}") for n in range(0, 20, 2)])
    streams.append(JOB, "algo-2", [(n, f"two {n}") for n in range(1, 20, 2)])
    seen, token = [], {}
    while True:
        page = call("FilterLogEvents", logStreamNamePrefix=JOB, limit=7, **token)
        seen += [event["timestamp"] for event in page["events"]]
        if "nextToken" not in page:
            break
        token = {"nextToken": page["nextToken"]}
    assert seen == list(range(20))
    page = call("FilterLogEvents", logStreamNames=[STREAM], startTime=6, endTime=9)
    assert texts(page) == ["one 6", "one 8"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", ["loss=1 ok", "loss=2 ERROR disk", "say hello world"]),
        ("loss", ["loss=1 ok", "loss=2 ERROR disk"]),
        ("loss -ERROR", ["loss=1 ok"]),
        ('"hello world"', ["say hello world"]),
        ("?ok ?disk", ["loss=1 ok", "loss=2 ERROR disk"]),
    ],
)
def test_words_and_phrases_filter(call, streams, pattern, found):
    lines = ["loss=1 ok", "loss=2 ERROR disk", "say hello world"]
    streams.append(JOB, HOST, [(1, line) for line in lines])
    assert texts(call("FilterLogEvents", filterPattern=pattern)) == found


@pytest.mark.parametrize(
    ("operation", "params", "code"),
    [
        ("GetLogEvents", {"logStreamName": f"{JOB}/algo-9-1"}, "ResourceNotFoundException"),
        ("GetLogEvents", {"logStreamName": "../../etc/passwd"}, "ResourceNotFoundException"),
        ("DescribeLogStreams", {"logGroupName": "/other"}, "ResourceNotFoundException"),
        (
            "GetLogEvents",
            {"logStreamName": STREAM, "nextToken": "f/../x"},
            "InvalidParameterException",
        ),
        ("FilterLogEvents", {"nextToken": "x"}, "InvalidParameterException"),
        ("FilterLogEvents", {"filterPattern": "{ $.a = 1 }"}, "InvalidParameterException"),
    ],
)
def test_what_is_not_there_is_refused_by_its_name(call, operation, params, code):
    with pytest.raises(ApiFault) as caught:
        call(operation, **params)
    assert caught.value.code == code


def test_prefixes_that_are_not_a_job_find_nothing(call):
    for prefix in ("../", "nope", "/", "job-1/algo-9"):
        assert call("DescribeLogStreams", logStreamNamePrefix=prefix)["logStreams"] == []
