"""The operations of CloudWatch Logs that SDKs, the AWS CLI and `stoker logs` call."""

from __future__ import annotations

import heapq
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from stoker.platform.api.json_protocol import JsonProtocol
from stoker.platform.api.service import Service
from stoker.platform.data.log_streams import (
    Event,
    LogStreams,
    Stream,
    offset_at,
    offset_before,
    read_events,
    size_of,
)
from stoker.platform.model import faults
from stoker.platform.model.processing_request import PREFIX
from stoker.platform.model.root import ACCOUNT, REGION

GROUP = "/aws/sagemaker/TrainingJobs"
_PREFIXES = {GROUP: "", "/aws/sagemaker/ProcessingJobs": PREFIX}
"""Group → what the names of its jobs begin with on this machine."""

_GROUP_ARN = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:"
# The service's limits for one answer, in events and in bytes.
_MOST_EVENTS = 10_000
_MOST_BYTES = 1024 * 1024  # the service's limit of one page
_MOST_STREAMS = 50  # the service's default

Params = Mapping[str, Any]
Answer = dict[str, Any]


def make_logs(streams: LogStreams) -> Service:
    """The service over the streams on disk."""
    operations = LogOperations(streams)
    return Service(
        name="logs",
        protocol=JsonProtocol(target_prefix="Logs_20140328"),
        operations={
            "DescribeLogGroups": operations.describe_groups,
            "DescribeLogStreams": operations.describe_streams,
            "FilterLogEvents": operations.filter_events,
            "GetLogEvents": operations.get_events,
        },
    )


class LogOperations:
    """Answers calls from the streams on disk."""

    def __init__(self, streams: LogStreams) -> None:
        self._streams = streams

    def describe_groups(self, params: Params) -> Answer:
        prefix, part = params.get("logGroupNamePrefix", ""), params.get("logGroupNamePattern", "")
        names = [each for each in sorted(_PREFIXES) if each.startswith(prefix) and part in each]
        return {
            "logGroups": [
                {
                    "logGroupName": name,
                    "arn": f"{_GROUP_ARN}{name}:*",
                    "logGroupArn": f"{_GROUP_ARN}{name}",
                    "creationTime": 0,
                    "storedBytes": 0,
                }
                for name in names
            ]
        }

    def describe_streams(self, params: Params) -> Answer:
        group = _find_group(params)
        streams = self._with_prefix(params.get("logStreamNamePrefix", ""), group)
        if params.get("orderBy") == "LastEventTime":
            streams.sort(key=lambda stream: stream.file.stat().st_mtime)
        if params.get("descending", False):
            streams.reverse()
        start = _number(params.get("nextToken"), "")
        stop = start + params.get("limit", _MOST_STREAMS)
        shown = [_described(stream, group) for stream in streams[start:stop]]
        answer: Answer = {"logStreams": shown}
        if stop < len(streams):
            answer["nextToken"] = str(stop)
        return answer

    def get_events(self, params: Params) -> Answer:
        stream = self._require_stream(params["logStreamName"], _find_group(params))
        limit = params.get("limit", _MOST_EVENTS)
        start, end = _window(stream, params)
        place, backward = _place(params, start, end)
        if backward:
            place = min(max(place, start), end)
            first = max(
                start, offset_before(stream, place, events=limit, bytes_at_most=_MOST_BYTES)
            )
            events = _page(_until(read_events(stream, first), place), limit)
        else:
            first = max(place, start)
            events = _page(_until(read_events(stream, first), end), limit)
        # With no events the token is the one that came: so clients see that they are at the end.
        last = events[-1].end if events else first
        return {
            "events": [_event(event) for event in events],
            "nextForwardToken": f"f/{last}",
            "nextBackwardToken": f"b/{first}",
        }

    def filter_events(self, params: Params) -> Answer:
        group = _find_group(params)
        matches = make_matcher(params.get("filterPattern", ""))
        places = _read_places(params.get("nextToken"))
        sources = []
        for stream in self._chosen(params, group):
            start, end = _window(stream, params)
            start = max(start, places.get(stream.name, 0))
            sources.append(_named(stream, _until(read_events(stream, start), end)))
        found: list[Answer] = []
        size, limit = 0, params.get("limit", _MOST_EVENTS)
        for name, event in heapq.merge(*sources, key=lambda item: item[1].time_ms):
            if len(found) >= limit or size >= _MOST_BYTES:
                return {"events": found, "nextToken": _write_places(places)}
            places[name] = event.end
            if matches(event.text):
                found.append(_filtered(name, event))
                size += len(event.text)
        return {"events": found, "searchedLogStreams": []}

    def _chosen(self, params: Params, group: str) -> list[Stream]:
        names = params.get("logStreamNames")
        if names is None:
            return self._with_prefix(params.get("logStreamNamePrefix", ""), group)
        if "logStreamNamePrefix" in params:
            raise faults.log_parameter(
                "logStreamNames and logStreamNamePrefix can't be used together."
            )
        return [self._require_stream(name, group) for name in names]

    def _with_prefix(self, prefix: str, group: str) -> list[Stream]:
        job, slash, _ = f"{_PREFIXES[group]}{prefix}".partition("/")
        every_job = [name for name in self._streams.jobs() if _is_in(name, group)]
        jobs = [job] if slash else [name for name in every_job if name.startswith(job)]
        every = chain.from_iterable(self._streams.streams(job) for job in jobs)
        return [stream for stream in every if stream.name.startswith(prefix)]

    def _require_stream(self, name: str, group: str) -> Stream:
        for stream in self._streams.streams(f"{_PREFIXES[group]}{name.partition('/')[0]}"):
            if stream.name == name:
                return stream
        raise faults.log_not_found("The specified log stream does not exist.")


def _find_group(params: Params) -> str:
    named = params.get("logGroupName") or params.get("logGroupIdentifier") or ""
    group: str = named.removeprefix(_GROUP_ARN)
    if group not in _PREFIXES:
        raise faults.log_not_found("The specified log group does not exist.")
    return group


def _is_in(job: str, group: str) -> bool:
    return job.startswith(PREFIX) == bool(_PREFIXES[group])


def _window(stream: Stream, params: Params) -> tuple[int, int]:
    """The offsets between which the asked times lie; the end is not included."""
    start = offset_at(stream, params["startTime"]) if params.get("startTime") else 0
    end = offset_at(stream, params["endTime"]) if "endTime" in params else size_of(stream)
    return start, end


def _place(params: Params, start: int, end: int) -> tuple[int, bool]:
    """Where to read, and whether backwards from there."""
    token = params.get("nextToken")
    if token is None:
        return (start, False) if params.get("startFromHead") else (end, True)
    if token.startswith("b/"):
        return _number(token, "b/"), True
    return _number(token, "f/"), False


def _until(events: Iterable[Event], end: int) -> Iterator[Event]:
    for event in events:
        if event.end > end:
            return
        yield event


def _page(events: Iterator[Event], limit: int) -> list[Event]:
    """As many events as one answer may hold, at least one."""
    page: list[Event] = []
    size = 0
    for event in islice(events, limit):
        size += len(event.text)
        if page and size > _MOST_BYTES:
            break
        page.append(event)
    return page


def _named(stream: Stream, events: Iterable[Event]) -> Iterator[tuple[str, Event]]:
    return ((stream.name, event) for event in events)


def _described(stream: Stream, group: str) -> Answer:
    described: Answer = {
        "logStreamName": stream.name,
        "creationTime": stream.created_ms,
        "arn": f"{_GROUP_ARN}{group}:log-stream:{stream.name}",
        "storedBytes": 0,
    }
    end = size_of(stream)
    if end:
        first = next(read_events(stream))
        last_at = offset_before(stream, end, events=1, bytes_at_most=_MOST_BYTES)
        last = next(read_events(stream, last_at))
        described["firstEventTimestamp"] = first.time_ms
        described["lastEventTimestamp"] = described["lastIngestionTime"] = last.time_ms
    return described


def _event(event: Event) -> Answer:
    return {"timestamp": event.time_ms, "message": event.text, "ingestionTime": event.time_ms}


def _filtered(stream: str, event: Event) -> Answer:
    # Unique and rising within a stream, as `aws logs tail` needs to tell events apart.
    return {**_event(event), "logStreamName": stream, "eventId": f"{stream}/{event.end}"}


def _number(token: str | None, prefix: str) -> int:
    if token is None:
        return 0
    if not re.fullmatch(rf"{prefix}\d{{1,18}}", token):
        raise faults.log_parameter("The specified nextToken is invalid.")
    return int(token.removeprefix(prefix))


def _write_places(places: Mapping[str, int]) -> str:
    return urlsafe_b64encode(json.dumps(places).encode()).decode()


def _read_places(token: str | None) -> dict[str, int]:
    if token is None:
        return {}
    try:
        places = json.loads(urlsafe_b64decode(token.encode()))
        return {str(name): int(place) for name, place in places.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise faults.log_parameter("The specified nextToken is invalid.") from error


_TERM = re.compile(r'\s*([-?]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))')

Matches = Callable[[str], bool]


def make_matcher(pattern: str) -> Matches:
    """A test for one event's text.

    Raises:
        ApiFault: a JSON or column pattern, or one that cannot be read.
    """
    text = pattern.strip()
    if text.startswith(("{", "[", "%")):
        raise faults.log_parameter(
            'The local platform filters by words and "phrases" only, not by JSON, columns or'
            f" regular expressions: {pattern}"
        )
    every, none, either = _terms(text)

    def matches(line: str) -> bool:
        return (
            all(term in line for term in every)
            and not any(term in line for term in none)
            and (not either or any(term in line for term in either))
        )

    return matches


def _terms(text: str) -> tuple[list[str], list[str], list[str]]:
    kinds: dict[str, list[str]] = {"": [], "-": [], "?": []}
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise faults.log_parameter(f"Invalid filter pattern: {text}")
        position = term.end()
        quoted = term[2]
        kinds[term[1]].append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else term[3])
    return kinds[""], kinds["-"], kinds["?"]
