"""The operations of CloudWatch that read the metrics of training jobs, at full resolution.

The service averages over a period of at least a minute, and keeps one value of a short job. Here
every value is a data point of its own, whatever the period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.platform.api.cbor_protocol import CborProtocol
from stoker.platform.api.json_protocol import JsonProtocol
from stoker.platform.api.query_protocol import ModelledQueryProtocol
from stoker.platform.api.service import Service
from stoker.platform.jobs.series import MetricSeries, Point
from stoker.platform.model.faults import ApiFault

NAMESPACE = "/aws/sagemaker/TrainingJobs"
_DIMENSION = "TrainingJobName"
_NAME = "monitoring"
_MOST_LISTED = 500  # the service's page
# The service's own maximum for one answer of GetMetricData.
_MOST_DATA_POINTS = 100_800
_STATISTICS: Mapping[str, Callable[[Point], float]] = {
    **dict.fromkeys(("Average", "Sum", "Minimum", "Maximum"), lambda point: point.value),
    "SampleCount": lambda _point: 1.0,
}

Params = Mapping[str, Any]
Answer = dict[str, Any]


def make_cloudwatch(series: MetricSeries) -> Service:
    """The service over the series of all jobs."""
    operations = MetricOperations(series)
    return Service(
        name=_NAME,
        protocol=CborProtocol(service=_NAME),
        more_protocols={
            "json": JsonProtocol(
                target_prefix="GraniteServiceVersion20100801",
                content_type="application/x-amz-json-1.0",
            ),
            "query": ModelledQueryProtocol(
                namespace="http://monitoring.amazonaws.com/doc/2010-08-01/", service=_NAME
            ),
        },
        operations={
            "GetMetricData": operations.get_data,
            "GetMetricStatistics": operations.get_statistics,
            "ListMetrics": operations.list_metrics,
        },
    )


class MetricOperations:
    """Answers calls from the stored series."""

    def __init__(self, series: MetricSeries) -> None:
        self._series = series

    def get_statistics(self, params: Params) -> Answer:
        wanted = params.get("Statistics", ())
        if not wanted:
            raise _invalid("Statistics must name at least one of: " + ", ".join(_STATISTICS))
        points = self._find(params, params)
        return {
            "Label": params["MetricName"],
            "Datapoints": [
                {
                    "Timestamp": point.time_ms / 1000,
                    **{name: _STATISTICS[name](point) for name in wanted},
                    "Unit": "None",
                }
                for point in points
            ],
        }

    def get_data(self, params: Params) -> Answer:
        start = _read_token(params.get("NextToken"))
        most = params.get("MaxDatapoints", _MOST_DATA_POINTS)
        is_newest_first = params.get("ScanBy", "TimestampDescending") == "TimestampDescending"
        results, passed = [], 0
        for query in params["MetricDataQueries"]:
            points = self._find(_read_stat(query)["Metric"], params)
            statistic = _find_statistic(_read_stat(query)["Stat"])
            ordered = points[::-1] if is_newest_first else points
            # The pages count the data points of all queries together.
            low, high = max(0, start - passed), max(0, start + most - passed)
            passed += len(points)
            if query.get("ReturnData", True):
                results.append(_make_result(query, ordered[low:high], statistic))
        answer: Answer = {"MetricDataResults": results, "Messages": []}
        if passed > start + most:
            answer["NextToken"] = str(start + most)
        return answer

    def list_metrics(self, params: Params) -> Answer:
        start = _read_token(params.get("NextToken"))
        found = [
            {
                "Namespace": NAMESPACE,
                "MetricName": name,
                "Dimensions": [{"Name": _DIMENSION, "Value": job}],
            }
            for job, name in self._series.names()
            if _matches(params, job, name)
        ]
        answer: Answer = {"Metrics": found[start : start + _MOST_LISTED]}
        if len(found) > start + _MOST_LISTED:
            answer["NextToken"] = str(start + _MOST_LISTED)
        return answer

    def _find(self, metric: Params, window: Params) -> list[Point]:
        """The points of one metric within a time window: the start included, the end not."""
        jobs = [d["Value"] for d in metric.get("Dimensions", ()) if d["Name"] == _DIMENSION]
        if metric["Namespace"] != NAMESPACE or len(jobs) != 1:
            return []
        begin, end = window["StartTime"] * 1000, window["EndTime"] * 1000
        if begin >= end:
            raise _invalid("The parameter StartTime must be less than the parameter EndTime.")
        points = self._series.read(jobs[0], metric["MetricName"])
        return [point for point in points if begin <= point.time_ms < end]


def _make_result(
    query: Params, points: Iterable[Point], statistic: Callable[[Point], float]
) -> Answer:
    kept = list(points)
    return {
        "Id": query["Id"],
        "Label": query.get("Label") or query["MetricStat"]["Metric"]["MetricName"],
        "Timestamps": [point.time_ms / 1000 for point in kept],
        "Values": [statistic(point) for point in kept],
        "StatusCode": "Complete",
    }


def _read_stat(query: Params) -> Params:
    stat: Params | None = query.get("MetricStat")
    if stat is None or "MetricName" not in stat["Metric"] or "Namespace" not in stat["Metric"]:
        raise _invalid(
            f"The query '{query['Id']}' must have a MetricStat with Namespace and MetricName: "
            "expressions are not emulated by the local platform."
        )
    return stat


def _find_statistic(name: str) -> Callable[[Point], float]:
    # A percentile of one value is that value.
    return _STATISTICS.get(name, lambda point: point.value)


def _matches(params: Params, job: str, name: str) -> bool:
    dimensions = params.get("Dimensions", ())
    return (
        params.get("Namespace", NAMESPACE) == NAMESPACE
        and params.get("MetricName", name) == name
        and all(d["Name"] == _DIMENSION and d.get("Value", job) == job for d in dimensions)
    )


def _read_token(token: str | None) -> int:
    if token is None:
        return 0
    if not token.isdecimal():
        raise _invalid(f"NextToken '{token}' is not one that this platform gave.")
    return int(token)


def _invalid(text: str) -> ApiFault:
    return ApiFault("InvalidParameterValue", text)
