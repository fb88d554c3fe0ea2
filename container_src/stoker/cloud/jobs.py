"""The jobs of an account: the same calls that Stoker's commands make of the local platform."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stoker.cloud.account import Account
from stoker.cloud.log_line import LOG_GROUP, LogLine, make_log_line
from stoker.cloud.refusals import ConnectionLost, NotThere
from stoker.errors import HostError
from stoker.machine.failures import UsageRefused

_TAIL_EVENTS = 1000
_ARN = re.compile(r"arn:aws[\w-]*:sagemaker:(?P<region>[\w-]+):\d{12}:[\w-]+/(?P<name>.+)")
_FINAL = ("Completed", "Failed", "Stopped")


class CloudJobs:
    """Training jobs of an account, one call each."""

    def __init__(
        self, account: Account, *, on_lost: Callable[[ConnectionLost], object] | None = None
    ) -> None:
        """
        Args:
            account: whose jobs.
            on_lost: called when AWS cannot be reached while a job is watched; it waits, and the
                call is repeated, or it raises.
        """
        self.account = account
        self.on_lost = on_lost

    def create(self, request: Mapping[str, Any]) -> bool:
        """CreateTrainingJob; a repetition that reaches AWS twice creates one job.

        Returns:
            Whether the same job was there already, and runs.

        Raises:
            HostError: the service does not accept it; translated.
        """
        return self._create_once("CreateTrainingJob", request, request["TrainingJobName"])

    def create_search(self, request: Mapping[str, Any]) -> bool:
        """CreateHyperParameterTuningJob; otherwise as `create`."""
        name = request["HyperParameterTuningJobName"]
        return self._create_once("CreateHyperParameterTuningJob", request, name)

    def _create_once(self, operation: str, request: Mapping[str, Any], name: str) -> bool:
        is_there = self._is_running if "TrainingJobName" in request else self._is_searching
        try:
            self.call("sagemaker", operation, **request)
        except (UsageRefused, ConnectionLost) as error:
            # The first answer may have been lost, but not the request.
            if is_there(name, request):
                return True
            if isinstance(error, ConnectionLost):
                again = f"the same command with --name {name}, which creates no second job"
                raise ConnectionLost(
                    f"{error.message} (whether {name} was created is not known)",
                    fix=f"{error.fix}; then {again}",
                ) from error
            raise
        return False

    def _is_searching(self, name: str, request: Mapping[str, Any]) -> bool:
        """Whether a search of this name runs that is what the request asked for."""
        try:
            search = self.call(
                "sagemaker",
                "DescribeHyperParameterTuningJob",
                HyperParameterTuningJobName=name,
            )
        except HostError:
            return False
        one, other = search["TrainingJobDefinition"], request["TrainingJobDefinition"]
        keys = ("InputDataConfig", "RoleArn", "Environment")
        config, asked = (each["HyperParameterTuningJobConfig"] for each in (search, request))
        return (
            search["HyperParameterTuningJobStatus"] not in _FINAL
            and all(_plain(one.get(key)) == _plain(other.get(key)) for key in keys)
            and _plain(config["ParameterRanges"]) == _plain(asked["ParameterRanges"])
        )

    def _is_running(self, name: str, request: Mapping[str, Any]) -> bool:
        """Whether a job of this name runs that is what the request asked for."""
        try:
            job = self.describe(name)
        except HostError:
            return False
        # The service fills in many other members; these decide what the job does.
        keys = ("HyperParameters", "InputDataConfig", "RoleArn", "Environment")
        if any(_plain(job.get(key)) != _plain(request.get(key)) for key in keys):
            return False
        if job["TrainingJobStatus"] in _FINAL:
            return False
        image = job["AlgorithmSpecification"].get("TrainingImage")
        return bool(image == request["AlgorithmSpecification"].get("TrainingImage"))

    def describe(self, job: str) -> dict[str, Any]:
        """DescribeTrainingJob.

        Raises:
            UsageRefused: there is no such job, or it was deleted meanwhile.
        """
        answer = self.call("sagemaker", "DescribeTrainingJob", TrainingJobName=job)
        answer.pop("ResponseMetadata", None)
        return answer

    def stop(self, job: str) -> None:
        """StopTrainingJob.

        Raises:
            UsageRefused: there is no such job, or it has ended.
        """
        status = self.describe(job)["TrainingJobStatus"]
        if status in _FINAL:
            raise UsageRefused(
                f"{job} cannot be stopped: it is {status}", fix="nothing: it has ended"
            )
        self.call("sagemaker", "StopTrainingJob", TrainingJobName=job)

    def list_jobs(self) -> Iterator[dict[str, Any]]:
        """All jobs of the region, the newest first."""
        order = {"SortBy": "CreationTime", "SortOrder": "Descending"}
        for page in self.pages("sagemaker", "ListTrainingJobs", **order):
            yield from page["TrainingJobSummaries"]

    def read_log(self, job: str, tokens: dict[str, str]) -> Iterator[LogLine]:
        """What the hosts have said since the last call; it continues where it was cut."""
        streams = [self._read_stream(stream, tokens) for stream in self._stream_names(job)]
        return heapq.merge(*streams, key=lambda line: line.time_ms)

    def read_tail(self, job: str) -> list[LogLine]:
        """The last lines of all hosts."""
        lines: list[LogLine] = []
        for stream in self._stream_names(job):
            place = {"logGroupName": LOG_GROUP, "logStreamName": stream, "limit": _TAIL_EVENTS}
            page = self.call("logs", "GetLogEvents", **place)
            lines += [make_log_line(stream, event) for event in page["events"]]
        return sorted(lines, key=lambda line: line.time_ms)

    def read_curve(self, job: str, metric: str) -> list[float]:
        """Every minute's value of a metric that a job has reported."""
        answer = self.call(
            "monitoring",
            "GetMetricStatistics",
            Namespace=LOG_GROUP,
            MetricName=metric,
            Dimensions=[{"Name": "TrainingJobName", "Value": job}],
            StartTime=self.describe(job)["CreationTime"],
            # No point is later, whatever the clocks of the hosts say.
            EndTime=2**32,
            Period=60,
            Statistics=["Average"],
        )
        points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
        return [point["Average"] for point in points]

    def find_full_disk(self) -> str:
        """Of this machine's platform only: nothing of a job there is on a disk of the user's."""
        return ""

    def call(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        """One operation of a service."""
        while True:
            try:
                return self.account.call(service, operation, **parameters)
            except ConnectionLost as error:
                if self.on_lost is None:
                    raise
                self.on_lost(error)

    def pages(self, service: str, operation: str, **parameters: object) -> Iterator[Any]:
        """All pages of a list."""
        return self.account.pages(service, operation, **parameters)

    def _stream_names(self, job: str) -> Iterable[str]:
        """Asked until the hosts have all begun; a job without a log yet has no group, either."""
        try:
            # One page has 50 hosts.
            place = {"logGroupName": LOG_GROUP, "logStreamNamePrefix": f"{job}/"}
            page = self.call("logs", "DescribeLogStreams", **place)
            names = [stream["logStreamName"] for stream in page["logStreams"]]
            while token := page.get("nextToken"):
                page = self.call("logs", "DescribeLogStreams", nextToken=token, **place)
                names += [stream["logStreamName"] for stream in page["logStreams"]]
        except NotThere:
            return []
        return names

    def _read_stream(self, stream: str, tokens: dict[str, str]) -> Iterator[LogLine]:
        place = {"logGroupName": LOG_GROUP, "logStreamName": stream, "startFromHead": True}
        while True:
            token = {"nextToken": tokens[stream]} if stream in tokens else {}
            page = self.call("logs", "GetLogEvents", **place, **token)
            for event in page["events"]:
                yield make_log_line(stream, event)
            # Only now: what was cut in the middle of a page is read again, not lost.
            is_end = tokens.get(stream) == page["nextForwardToken"]
            tokens[stream] = page["nextForwardToken"]
            if is_end or not page["events"]:
                return


def parse_job(text: str) -> tuple[str, str | None]:
    """The name of a job and its region, from a name or an ARN; None: the text does not say it."""
    found = _ARN.fullmatch(text)
    return (found["name"], found["region"]) if found else (text, None)


def _plain(value: object) -> object:
    """Without what the service fills in."""
    if isinstance(value, dict):
        return {
            key: _plain(part)
            for key, part in value.items()
            if part not in (None, "None", False, {}, [])
        }
    return [_plain(part) for part in value] if isinstance(value, list) else value
