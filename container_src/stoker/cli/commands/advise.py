"""`stoker advise`: short experiments that prove, or refute, the advice of a job's report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.cli.client.platform_api import Api, open_api
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.server import require_server
from stoker.cli.client.training_spec import make_job_name
from stoker.cli.client.watch import Ended, watch
from stoker.machine.extras import tensors_extra
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal, make_table
from stoker.platform.model.root import Root

if TYPE_CHECKING:
    from stoker.cli.report.experiments import Measured


def run(args: argparse.Namespace) -> int:
    """Run the experiments one after the other, and print what they brought."""
    # Here, not above: NumPy would slow the start of every other command.
    with tensors_extra():
        from stoker.cli.report.experiments import choose_experiments, find_gain
        from stoker.cli.report.source import open_run
        from stoker.report.figures.bill import make_bill
        from stoker.report.insights import find_insights

    root = Root(root_folder(args))
    require_server(root)
    with open_run(args, args.job) as profiled:
        bill = make_bill(profiled)
        insights = find_insights(profiled, bill)
        experiments = choose_experiments(args.trials, profiled, insights, bill)
    lab = _Lab(args, open_api(root))
    first = lab.measure("", "as it is")
    if isinstance(first, str):
        raise UsageRefused(
            f"the job as it is cannot be measured in {args.steps} steps: {first}",
            fix="more steps: --steps 100",
        )
    results = [(one, lab.measure(one.setting, one.setting)) for one in experiments]
    # Measured before and after: what differs between the two is noise, not a gain.
    again = lab.measure("", "as it is, once more")
    baselines = [first, *([] if isinstance(again, str) else [again])]
    rows = []
    for one, result in results:
        row: dict[str, Any] = {"try": one.setting, "predicted": one.predicted}
        if isinstance(result, str):
            rows.append({**row, "failed": result})
            continue
        gain, noise = find_gain(baselines, result)
        saved = gain * bill.step_seconds if gain > noise else 0.0
        usd = bill.usd(saved)
        rows.append({**row, "measured": gain, "noise": noise, "saved_seconds": saved, "usd": usd})
    print(json.dumps(rows, indent=2) if args.json else _render(rows, first, args.steps))
    return 0


class _Lab:
    """Runs the job again, changed and shortened."""

    def __init__(self, args: argparse.Namespace, api: Api) -> None:
        self._args = args
        self._api = api
        self._before = api.read_request(args.job)
        self._terminal: Terminal = Terminal(sys.stderr)
        self._count = 0

    def measure(self, setting: str, words: str) -> Measured | str:
        """How long steps take with a setting, or why that is not known."""
        from stoker.cli.report import experiments
        from stoker.cli.report.source import open_run

        self._count += 1
        self._terminal.line(f"advise: {words}")
        name = make_job_name(None, f"{self._args.job[:36].rstrip('-')}-try{self._count}")
        steps = self._args.steps
        request = experiments.make_request(self._before, name=name, setting=setting, steps=steps)
        self._api.create(request)
        ended = self._wait(name)
        if ended["TrainingJobStatus"] != "Completed":
            reason = str(ended.get("FailureReason", ended["TrainingJobStatus"]))
            return " ".join(reason.split())[:200]
        try:
            with open_run(self._args, name) as opened:
                measured = experiments.measure(opened.profile)
        except UsageRefused as error:
            return error.message
        return measured or "too few steps were measured"

    def _wait(self, name: str) -> Mapping[str, Any]:
        for event in watch(self._api, name):
            if isinstance(event, Ended):
                return event.description
        return self._api.describe(name)


def _render(rows: Sequence[Mapping[str, Any]], first: Measured, steps: int) -> str:
    table = [("change", "predicted", "measured", "saved in the job", "")]
    for row in rows:
        predicted = "–" if row["predicted"] is None else f"{100 * row['predicted']:.0f} % faster"
        if "failed" in row:
            table.append((row["try"], predicted, "–", "–", f"failed: {row['failed']}"))
            continue
        gain, noise = row["measured"], row["noise"]
        word = "faster" if gain >= 0 else "slower"
        helps = (
            "helps" if gain > noise else "does not help" if gain > -noise else "makes it slower"
        )
        saved = f"{row['saved_seconds']:.1f} s"
        saved += f", ${row['usd']:.4f}" if row["usd"] is not None else ""
        measured = f"{100 * abs(gain):.0f} % {word}"
        table.append(
            (row["try"], predicted, measured, saved, f"{helps} (noise {100 * noise:.0f} %)")
        )
    head = f"{steps} steps each; as it is: {1000 * first.step_seconds:.1f} ms a step"
    return "\n".join([head, *make_table(table)])
