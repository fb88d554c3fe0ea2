"""A job on SageMaker, watched on the terminal: log, phases, time and cost so far."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from stoker.cli.client.display import (
    render_line,
    render_status,
)
from stoker.cli.client.interrupts import Interrupts
from stoker.cli.client.patience import Patience
from stoker.cli.client.watch import CurrentStatus, Ended, Event, Transition, watch
from stoker.cli.cloud.job_summary import render_job
from stoker.cloud.job_memory import recall, remember
from stoker.cloud.jobs import CloudJobs
from stoker.cloud.log_line import LogLine
from stoker.cloud.refusals import NotThere
from stoker.cloud.request import read_machines
from stoker.cost.bill import Machines, find_machines, show_usd
from stoker.errors import HostError
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal

_SUMMED_UP = ("Completed", "Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded")
_INTERRUPTED = 130  # as a shell reports it: 128 + SIGINT


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
            # Asked once: the start does not change, and AWS limits how often a job is described.
            if started is None and event.status == "Training":
                started = jobs.describe(name).get("TrainingStartTime")
            if started is not None:
                seconds = (datetime.now(UTC) - started).total_seconds()
                cost = show_usd(machines.cost_of(seconds) or 0)
                event = replace(event, status=f"{event.status}, {cost} so far")
        yield event


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
    with Interrupts() as interrupts:
        question = _StopQuestion(jobs, name, terminal, interrupts)
        try:
            description = follow(
                jobs,
                name,
                terminal,
                is_interrupted=question.is_due,
                on_interrupt=question.ask,
            )
        except KeyboardInterrupt:  # a second Ctrl-C, quick or at the question
            description = None
        except HostError as error:
            terminal.status("")
            if not isinstance(error, NotThere):  # of a job that was deleted nothing continues
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
    if question.is_stopped:
        return _INTERRUPTED
    return 0 if description["TrainingJobStatus"] == "Completed" else 1


class _StopQuestion:
    """What Ctrl-C means while a job is watched: stop the job, leave it running, or continue."""

    def __init__(
        self, jobs: CloudJobs, name: str, terminal: Terminal, interrupts: Interrupts
    ) -> None:
        self._jobs = jobs
        self._name = name
        self._terminal = terminal
        self._interrupts = interrupts
        self.is_stopped = False
        """Whether the user has stopped the job here: then there is no further question."""

    def is_due(self) -> bool:
        """Whether the user has pressed Ctrl-C and was not asked yet."""
        return self._interrupts.count > 0 and not self.is_stopped

    def ask(self) -> bool:
        """Asks if it is due. Returns whether the job is to be left alone."""
        if not self.is_due():
            return False
        answer = _read_answer(self._terminal)  # another Ctrl-C there raises KeyboardInterrupt
        self._interrupts.count = 0
        if answer == "s":
            self.is_stopped = True
            with suppress(UsageRefused):  # it has just ended by itself
                self._jobs.stop(self._name)
            self._terminal.line("train: stopping; the script has 120 s to save")
        return answer == "d"


def say_how_to_continue(name: str, terminal: Terminal) -> None:
    """The verbs for a job that is left alone; they know that it is on SageMaker."""
    terminal.line(f"  watch   stoker attach {name}")
    terminal.line(f"  status  stoker status {name}")
    terminal.line(f"  stop    stoker stop {name}")


def _read_answer(terminal: Terminal) -> str:
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
