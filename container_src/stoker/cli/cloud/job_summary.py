"""One job of SageMaker in full: its end or phase, what it costs, where its files are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from stoker.cli.client.display import last_metrics, stop_reason, without_traceback
from stoker.cli.client.watch import is_final
from stoker.cloud.log_line import LogLine
from stoker.cloud.refusals import explain_failure_reason
from stoker.cloud.request import read_machines
from stoker.cost.bill import Bill, Machines, find_machines, show_usd
from stoker.machine.units import show_elapsed


def render_job(description: Mapping[str, Any], region: str, tail: list[LogLine]) -> list[str]:
    """The lines for the user."""
    primary, secondary = description["TrainingJobStatus"], description["SecondaryStatus"]
    status = primary if primary == secondary else f"{primary} ({secondary})"
    rows = [("job", description["TrainingJobName"]), ("status", status)]
    reason = description.get("FailureReason") or stop_reason(description)
    if reason:
        rows.append(("reason", without_traceback(reason)))
    if fix := explain_failure_reason(description.get("FailureReason", ""), region=region):
        rows.append(("fix", fix))
    phases = description.get("SecondaryStatusTransitions") or []
    if phases and not is_final(description):
        since = (datetime.now(UTC) - phases[-1]["StartTime"]).total_seconds()
        message = phases[-1].get("StatusMessage", "")
        rows.append(("phase", f"{phases[-1]['Status']} for {show_elapsed(since)}: {message}"))
    # AWS itself knows those with a regular expression only, not those of `job.log`.
    metrics = last_metrics(description, tail)
    metrics |= {m["MetricName"]: m["Value"] for m in description.get("FinalMetricDataList", ())}
    if metrics:
        rows.append(("metrics", ", ".join(f"{name} {value:g}" for name, value in metrics.items())))
    if interruptions := sum(phase["Status"] == "Interrupted" for phase in phases):
        rows.append(("spot", f"interrupted {interruptions} times"))
    rows += [("time", text) for text in _times(description)]
    rows += [("cost", text) for text in _describe_bill(description, region)]
    artifacts = description.get("ModelArtifacts", {}).get("S3ModelArtifacts")
    if artifacts and is_final(description):
        rows.append(("model", artifacts))
    lines = [line for line in tail if line.text.strip()]
    if lines and not is_final(description):
        rows.append(("log", "".join(c for c in lines[-1].text.strip()[:200] if c.isprintable())))
    return [f"  {name:<7} {text}".replace("\n", "\n" + " " * 10) for name, text in rows]


def _describe_bill(description: Mapping[str, Any], region: str) -> list[str]:
    """What a job has cost, or costs by now; empty if it has not begun."""
    machines = find_machines(read_machines(description), region)
    if machines.missing:
        missing = ", ".join(machines.missing)
        return [f"no price is known of {missing}: stoker prices update --region {region}"]
    pool = description.get("WarmPoolStatus", {}).get("ResourceRetainedBillableTimeInSeconds", 0)
    started = description.get("TrainingStartTime")
    billable = description.get("BillableTimeInSeconds")
    if billable is None:
        if started is None:
            return []
        seconds = (datetime.now(UTC) - started).total_seconds()
        return [f"{show_usd(machines.cost_of(seconds) or 0)} so far ({_rates(machines)})"]
    bill = Bill(
        machines=machines,
        training_seconds=description.get("TrainingTimeInSeconds", billable),
        billable_seconds=billable,
        warm_pool_seconds=pool,
    )
    lines = [f"{show_usd(bill.usd or 0)}: {billable} s billed ({_rates(machines)})"]
    if description.get("EnableManagedSpotTraining"):
        lines.append(f"spot saved {bill.spot_saving:.0%}")
    if pool:
        lines.append(f"{show_usd(bill.warm_pool_usd or 0)} for {pool} s of the warm pool")
    return lines


def _rates(machines: Machines) -> str:
    prices = machines.prices
    return " + ".join(
        f"{count} × {kind} at ${prices[kind].usd_per_hour:g}/h of {prices[kind].published}"
        for kind, count in machines.counts.items()
    )


def _times(description: Mapping[str, Any]) -> list[str]:
    created = description["CreationTime"]
    if not is_final(description):
        seconds = (datetime.now(UTC) - created).total_seconds()
        return [f"{show_elapsed(seconds)} since it was submitted"]
    training = description.get("TrainingTimeInSeconds")
    return [] if training is None else [f"{show_elapsed(training)} of training"]
