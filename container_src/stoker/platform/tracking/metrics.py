"""The operations of `sagemaker-metrics`: points of runs, put and read in batches."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from stoker.platform.tracking.tracked import Answer, Operation, Params, parse_arn, refusing
from stoker.tracking.records import Run
from stoker.tracking.series import Point
from stoker.tracking.store import RecordMissing, RunStore

_PERIODS_MS = {"OneMinute": 60_000, "FiveMinute": 300_000, "OneHour": 3_600_000}
_MOST_NAMES = 1000
_MOST_STEP = 2**31 - 1  # an Integer of the service's model
_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Min": min,
    "Max": max,
    "Avg": statistics.fmean,
    "Count": len,
    "StdDev": statistics.pstdev,
    "Last": lambda values: values[-1],
}


class RunMetricOperations:
    """Safe to call from several threads."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {"BatchPutMetrics": self._put, "BatchGetMetrics": self._get}

    def _put(self, params: Params) -> Answer:
        name = params["TrialComponentName"]
        points: list[tuple[str, Point]] = []
        errors = []
        with self._store.transaction():
            with refusing("Trial Component", name):
                self._store.read(Run, name)
            counts = {s.name: s.count for s in self._store.summaries_of(name)}
            for index, each in enumerate(params["MetricData"]):
                metric, value = each["MetricName"], each["Value"]
                number = counts.get(metric, 0)
                code = _find_error(value, each.get("Step", number), metric, counts)
                if code:
                    errors.append({"Code": code, "MetricIndex": index})
                    continue
                counts[metric] = number + 1
                # Without a step, the number of the value stands for it.
                milliseconds = round(each.get("Timestamp", time.time()) * 1000)
                points.append((metric, Point(each.get("Step", number), milliseconds, value)))
            self._store.log(name, points)
        return {"Errors": errors} if errors else {}

    def _get(self, params: Params) -> Answer:
        return {"MetricQueryResults": [self._answer(query) for query in params["MetricQueries"]]}

    def _answer(self, query: Params) -> Answer:
        run = self._find_run(query["ResourceArn"])
        if run is None:
            text = f"There is no run with the ARN '{query['ResourceArn']}'."
            return {
                **{"Status": "ValidationError", "Message": text},
                **{"XAxisValues": [], "MetricValues": []},
            }
        points = self._store.read_points(run, query["MetricName"])
        groups = _group(points, query)
        wanted = _STATISTICS[query["MetricStat"]]
        return {
            "Status": "Complete",
            "XAxisValues": list(groups),
            "MetricValues": [wanted(values) for values in groups.values()],
        }

    def _find_run(self, arn: str) -> str | None:
        found = parse_arn(arn)
        if found and found[0] is Run:
            try:
                return self._store.read(Run, found[1]).name
            except RecordMissing:
                return None
        # Or it is the ARN of the job that the run is of.
        own = [run.name for run in self._store.read_all(Run) if run.source == arn.lower()]
        return own[0] if own else None


def _find_error(value: float, step: int, metric: str, counts: Mapping[str, int]) -> str:
    if not math.isfinite(value) or step > _MOST_STEP:
        return "VALIDATION_ERROR"
    is_too_many = metric not in counts and len(counts) >= _MOST_NAMES
    return "METRIC_LIMIT_EXCEEDED" if is_too_many else ""


def _group(points: Sequence[Point], query: Params) -> dict[int, list[float]]:
    """Place on the x axis → the values there, in the order of the axis."""
    by_step = query["XAxisType"] == "IterationNumber"
    period_ms = _PERIODS_MS.get(query["Period"])
    low, high = query.get("Start"), query.get("End")
    groups: dict[int, list[float]] = {}
    for step, time_ms, value in points:
        if period_ms is None or by_step:
            place = step if by_step else time_ms // 1000
        else:
            place = time_ms // period_ms * period_ms // 1000
        if (low is None or place >= low) and (high is None or place <= high):
            groups.setdefault(place, []).append(value)
    return dict(sorted(groups.items()))
