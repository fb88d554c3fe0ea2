"""A job on SageMaker, watched on the terminal: log, phases, metrics, time and cost so far."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from stoker.cli.client.display import (
    last_metrics,
    render_line,
    render_status,
    stop_reason,
    without_traceback,
)
from stoker.cli.client.interrupts import Interrupts
from stoker.cli.client.watch import CurrentStatus, Ended, Event, Transition, is_final, watch
from stoker.cloud.job_memory import recall, remember
from stoker.cloud.jobs import CloudJobs
from stoker.cloud.log_line import LogLine
from stoker.cloud.refusals import ConnectionLost, explain_failure_reason
from stoker.cloud.request import read_machines
from stoker.cost.bill import Bill, Machines, find_machines, show_usd
from stoker.errors import HostError
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal
from stoker.machine.units import show_elapsed

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 2.0, 5.0
_LOCAL_PAUSE_SECONDS = 0.3
_SLICE_SECONDS = 0.1
_LOST_SECONDS = 900.0
_LONGEST_LOST_PAUSE_SECONDS = 30.0
_SUMMED_UP = ("Completed", "Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded")
_INTERRUPTED = 130


class Patience:
    """How long to wait between two looks, and while AWS cannot be reached."""

    def __init__(
        self,
        terminal: Terminal,
        *,
        is_local: bool,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._terminal = terminal
        self._is_interrupted = is_interrupted
        self._is_local = is_local
        self._pause_seconds = _SHORTEST_PAUSE_SECONDS
        self._lost_since: float | None = None
        self._lost_pause_seconds = 1.0

    def wait(self, _seconds: float) -> None:
        """Between two looks; longer and longer while nothing is said."""
        self._lost_since, self._lost_pause_seconds = None, 1.0
        if self._is_local:  # a local platform is not billed by the call
            time.sleep(_LOCAL_PAUSE_SECONDS)
            return
        until = time.monotonic() + self._pause_seconds
        while time.monotonic() < until and not self._is_interrupted():
            time.sleep(_SLICE_SECONDS)
        self._pause_seconds = min(_LONGEST_PAUSE_SECONDS, self._pause_seconds * 1.25)

    def see_activity(self) -> None:
        """The job said something: look again soon."""
        self._pause_seconds = _SHORTEST_PAUSE_SECONDS

    def on_lost(self, error: ConnectionLost) -> None:
        """Wait and let the call be repeated; after a quarter of an hour the error is raised."""
        now = time.monotonic()
        self._lost_since = self._lost_since or now
        if now - self._lost_since > _LOST_SECONDS:
            raise error
        self._terminal.status(f"» {error.message}; trying again (the job continues)")
        time.sleep(self._lost_pause_seconds)
        self._lost_pause_seconds = min(_LONGEST_LOST_PAUSE_SECONDS, 2 * self._lost_pause_seconds)


def follow(
    jobs: CloudJobs,
    name: str,
    terminal: Terminal,
    *,
    is_log_shown: bool = True,
    is_interrupted: Callable[[], bool] = lambda: False,
    on_interrupt: Callable[[], bool] | None = None,
) -> Mapping[str, Any] | None:
    """Show a job until it has ended.

    Args:
        jobs: of the account.
        name: the job's.
        terminal: where it is shown.
        is_log_shown: else only phases and status.
        is_interrupted: ends a pause between two looks.
        on_interrupt: called at each event; True: stop watching.

    Returns:
        The description of the job at its end; None if it is no longer watched.
    """
    patience = Patience(terminal, is_local=jobs.account.is_local, is_interrupted=is_interrupted)
    jobs.on_lost = patience.on_lost
    description = jobs.describe(name)
    machines = find_machines(read_machines(description), jobs.account.region)
    hosts = sum(machines.counts.values())
    for event in _with_cost(watch(jobs, name, wait=patience.wait), machines, jobs, name):
        if on_interrupt is not None and on_interrupt():
            return None
        match event:
            case LogLine():
                patience.see_activity()
                if is_log_shown:
                    terminal.line(render_line(event, hosts=hosts))
            case Transition() if event.status not in _SUMMED_UP:
                terminal.line(f"» {event.status}: {event.message}".rstrip(": "))
            case CurrentStatus():
                terminal.status(render_status(event))
            case Ended():
                terminal.status("")
                _remember_end(name, event.description)
                return event.description
    raise RuntimeError("a watch ended without its last event")


def _with_cost(
    events: Iterator[Event], machines: Machines, jobs: CloudJobs, name: str
) -> Iterator[Event]:
    """The status line gets what the job has cost so far."""
    started: datetime | None = None
    for event in events:
        if isinstance(event, CurrentStatus) and machines.usd_per_hour is not None:
            if started is None and event.status == "Training":
                started = jobs.describe(name).get("TrainingStartTime")
            if started is not None:
                seconds = (datetime.now(UTC) - started).total_seconds()
                cost = show_usd(machines.cost_of(seconds) or 0)
                event = replace(event, status=f"{event.status}, {cost} so far")
        yield event


def render_job(description: Mapping[str, Any], region: str, tail: list[LogLine]) -> list[str]:
    """One job in full: how it ended or where it is, what it costs, where its things are."""
    primary, secondary = description["TrainingJobStatus"], description["SecondaryStatus"]
    status = primary if primary == secondary else f"{primary} ({secondary})"
    rows = [("job", description["TrainingJobName"]), ("status", status)]
    reason = description.get("FailureReason") or stop_reason(description)
    if reason:
        rows.append(("reason", without_traceback(reason)))
    if fix := explain_failure_reason(description.get("FailureReason", ""), region=region):
        rows.append(("fix", fix))
    if not is_final(description) and (phases := description.get("SecondaryStatusTransitions")):
        since = (datetime.now(UTC) - phases[-1]["StartTime"]).total_seconds()
        message = phases[-1].get("StatusMessage", "")
        rows.append(("phase", f"{phases[-1]['Status']} for {show_elapsed(since)}: {message}"))
    # AWS itself knows those with a regular expression only, not those of `job.log`.
    metrics = last_metrics(description, tail)
    metrics |= {m["MetricName"]: m["Value"] for m in description.get("FinalMetricDataList", ())}
    if metrics:
        rows.append(("metrics", ", ".join(f"{name} {value:g}" for name, value in metrics.items())))
    interrupted = [
        t
        for t in description.get("SecondaryStatusTransitions", ())
        if t["Status"] == "Interrupted"
    ]
    if interrupted:
        rows.append(("spot", f"interrupted {len(interrupted)} times"))
    rows += [("time", text) for text in _times(description)]
    rows += [("cost", text) for text in describe_bill(description, region)]
    artifacts = description.get("ModelArtifacts", {}).get("S3ModelArtifacts")
    if artifacts and is_final(description):
        rows.append(("model", artifacts))
    lines = [line for line in tail if line.text.strip()]
    if lines and not is_final(description):
        rows.append(("log", "".join(c for c in lines[-1].text.strip()[:200] if c.isprintable())))
    return [f"  {name:<7} {text}".replace("\n", "\n" + " " * 10) for name, text in rows]


def describe_bill(description: Mapping[str, Any], region: str) -> list[str]:
    """What a job has cost, or costs by now; empty if it has not begun."""
    machines = find_machines(read_machines(description), region)
    if machines.missing:
        missing = ", ".join(machines.missing)
        return [f"no price is known of {missing}: stoker prices update --region {region}"]
    pool = description.get("WarmPoolStatus", {}).get("ResourceRetainedBillableTimeInSeconds", 0)
    started, billable = (
        description.get("TrainingStartTime"),
        description.get("BillableTimeInSeconds"),
    )
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


def _remember_end(name: str, description: Mapping[str, Any]) -> None:
    if (job := recall(name)) and (seconds := description.get("BillableTimeInSeconds")):
        remember(replace(job, billable_seconds=float(seconds)))


def watch_to_the_end(
    jobs: CloudJobs, name: str, terminal: Terminal, args: argparse.Namespace
) -> int:
    """Watch a job, asking at Ctrl-C whether to stop it.

    Returns:
        The exit code of the command.
    """
    is_told = False

    def on_interrupt() -> bool:
        nonlocal is_told
        if not interrupts.count or is_told:
            return False
        answer = _ask(terminal)  # another Ctrl-C there raises KeyboardInterrupt
        interrupts.count = 0
        if answer == "s":
            is_told = True
            with suppress(UsageRefused):  # it has just ended by itself
                jobs.stop(name)
            terminal.line("train: stopping; the script has 120 s to save")
        return answer == "d"

    with Interrupts() as interrupts:
        try:
            description = follow(
                jobs,
                name,
                terminal,
                is_interrupted=lambda: interrupts.count > 0 and not is_told,
                on_interrupt=on_interrupt,
            )
        except KeyboardInterrupt:  # a second Ctrl-C, quick or at the question
            description = None
        except HostError:
            terminal.status("")
            terminal.line(f"train: {name} is no longer watched, but it continues")
            say_how_to_continue(name, terminal)
            raise
    if description is None:
        terminal.status("")
        terminal.line(f"train: {name} continues on SageMaker, and is billed")
        say_how_to_continue(name, terminal)
        return _INTERRUPTED
    if args.json:
        print(json.dumps(description, indent=1, default=str))
    terminal.line()
    terminal.line(f"train: {description['TrainingJobStatus'].lower()}")
    for line in render_job(description, jobs.account.region, jobs.read_tail(name)):
        terminal.line(line)
    if is_told:
        return _INTERRUPTED
    return 0 if description["TrainingJobStatus"] == "Completed" else 1


def say_how_to_continue(name: str, terminal: Terminal) -> None:
    """The verbs for a job that is left alone; they know that it is on SageMaker."""
    terminal.line(f"  watch   stoker attach {name}")
    terminal.line(f"  status  stoker status {name}")
    terminal.line(f"  stop    stoker stop {name}")


def _ask(terminal: Terminal) -> str:
    """s: stop the job, d: detach from it, c: continue to watch.

    Without a terminal there is no answer: the job continues, since a build server that gives up
    waiting must not destroy hours of training.
    """
    if not (terminal.is_live and sys.stdin.isatty()):
        return "d"
    terminal.status("")
    while True:
        print("Ctrl-C: [s]top the job, [d]etach and leave it running, [c]ontinue? ", end="")
        sys.stdout.flush()
        answer = sys.stdin.readline().strip().lower()[:1]
        if answer in ("s", "d", "c"):
            return answer
        if not answer:
            return "d"
