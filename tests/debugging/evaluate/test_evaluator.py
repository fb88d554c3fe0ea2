"""The evaluator over real files, in this process: order, endings, and everything that breaks."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
import time
import weakref
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from stoker.bus.rule_status import read_rule_statuses
from stoker.bus.stop import read_stop_request
from stoker.contract.job import read_job
from stoker.debugging.evaluate import WatchedRule, evaluate_saved
from stoker.debugging.evaluate.evaluator import MANY_STEPS, Evaluator
from stoker.debugging.evaluate.signals import EvaluatorSignals
from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.specs import read_specs
from stoker.debugging.tensors import SavedStep, SavedTensors, write_collections, write_step
from stoker.errors import TensorMissing

LOSS = "CrossEntropyLoss_output_0"


class Seen(Rule):
    """Remembers what it was asked about, and does what a test wants meanwhile."""

    made: ClassVar[list[Rule]] = []
    acts: ClassVar[dict[int, Callable[[], object]]] = {}
    """Step → what happens while it is judged."""

    fires_at: int = parameter(-1, "the step at which it fires")

    def __init__(self, settings=None):
        super().__init__(settings)
        self.made.append(self)
        self.seen = []

    def needs(self):
        return [Need(collection="losses")]

    def check(self, step, tensors):
        self.seen.append(step)
        self.acts.get(step, lambda: None)()
        if step == self.fires_at:
            value = float(tensors.find(LOSS).value()[0])
            return Finding(message=f"loss is {value}", tensor=LOSS, values={"loss": value})
        return None


class Reading(Seen):
    """Looks at the values of each step."""

    def check(self, step, tensors):
        tensors.find(LOSS).value()
        return super().check(step, tensors)


class Careless(Seen):
    """Has a fault of its own."""

    def check(self, step, tensors):
        super().check(step, tensors)
        1 / (1 - step)


class Leaving(Seen):
    """Takes the process for its own."""

    def check(self, step, tensors):
        sys.exit(0)


class OwnExit(BaseException):
    """Not an Exception, and not even its text can be had."""

    def __str__(self):
        raise KeyboardInterrupt


class Raising(Seen):
    """Raises what is not caught."""

    raises: ClassVar[BaseException]

    def check(self, step, tensors):
        raise self.raises


class Hanging(Seen):
    """Waits for what never comes, and does not want to be disturbed."""

    def check(self, step, tensors):
        while super().check(step, tensors) is None:
            with suppress(Exception):
                time.sleep(60)


class Loose(Seen):
    """Is not strict about the types of a finding."""

    def check(self, step, tensors):
        return Finding(message="m", tensor=tensors.find(LOSS), hint=None)


class Strange(Seen):
    """Answers something else."""

    def check(self, step, tensors):
        return super().check(step, tensors) is None


class Absent(Seen):
    """Asks for what is not there at most steps."""

    def check(self, step, tensors):
        super().check(step, tensors)
        raise TensorMissing("not at this step")


class Gradients(Seen):
    """Needs what is not saved."""

    def needs(self):
        return [Need(collection="gradients"), Need(collection="relu", module_classes=("ReLU",))]


class Content(Seen):
    """Can use what is not saved."""

    def needs(self):
        return [Need(collection="gradients", is_optional=True), Need(collection="losses")]


class Patient(Seen):
    """Needs many steps."""

    def least_steps(self):
        return 7


class Lingering(Seen):
    """Does not come to an end at the end."""

    def lacks(self):
        time.sleep(60)


class Opening(Seen):
    """Reads a file of its own, which is not there."""

    def check(self, step, tensors):
        os.stat("/nowhere/thresholds.json")


class Hasty(Seen):
    """Has a fault that shows at the end."""

    def least_steps(self):
        raise ValueError("how many?")


class Impatient(Seen):
    """Is about time, and needs nothing."""

    stop_training_on_fire: bool = parameter(False, "whether to stop the job")

    def needs(self):
        return []

    def check_time(self, seconds_since_last_step):
        return Finding(message="too long") if seconds_since_last_step >= 0 else None


RULES = [
    Seen,
    Reading,
    Careless,
    Leaving,
    Raising,
    Hanging,
    Loose,
    Strange,
    Absent,
    Gradients,
    Content,
    Patient,
    Lingering,
    Opening,
    Hasty,
    Impatient,
]


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch):
    monkeypatch.setattr(
        "stoker.debugging.rules.CATALOGUE", {rule.__name__: rule for rule in RULES}
    )
    monkeypatch.setattr(Seen, "made", [])
    monkeypatch.setattr(Seen, "acts", {})


class Run:
    """A run on disk, and the evaluation of it."""

    def __init__(self, root):
        self.job = read_job(environ={"TRAINING_JOB_NAME": "Job-1"}, root=root)
        self.folder = root / "output/tensors"
        self.said: list[str] = []
        self.signals = EvaluatorSignals()

    def save(self, *steps, worker="worker_0", loss=1.0):
        for step in steps:
            saved = {LOSS: np.array([loss], np.float32)}
            write_step(
                str(self.folder),
                worker,
                SavedStep(step=step, mode="TRAIN", mode_step=step, tensors=saved),
            )

    def end(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "training_job_end.ts").touch()

    def events(self, step):
        return next(self.folder.glob(f"events/{step:012}/*"))

    def evaluate(self, text, longest_seconds=None):
        """Returns the statuses that are left on disk, by name."""
        specs = read_specs(text)
        rules = [WatchedRule(spec, longest_seconds=longest_seconds) for spec in specs]
        saved = SavedTensors(self.folder)
        Evaluator(self.job, rules, saved, signals=self.signals, say=self.said.append).run()
        return {rule.name: rule for rule in read_rule_statuses(self.job.paths)}

    def findings(self):
        file = self.folder.parent / "data/stoker/findings.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def run(opt_ml):
    return Run(opt_ml.root)


def test_each_step_is_evaluated_once_in_rising_order(run):
    run.save(20, 0, 10)
    run.end()
    status = run.evaluate("Seen")["Seen"]
    assert Seen.made[0].seen == [0, 10, 20]
    assert (status.status, status.evaluated_steps, status.details) == ("NoIssuesFound", 3, "")


def test_a_firing_ends_its_rule_in_the_services_words_and_no_other(run):
    run.save(0, 10, 20, loss=float("nan"))
    run.end()
    statuses = run.evaluate("Seen(fires_at=10, name=Mine), Seen")
    mine = statuses["Mine"]
    assert (mine.status, mine.step, mine.findings) == ("IssuesFound", 10, 1)
    assert mine.details == (
        "RuleEvaluationConditionMet: Evaluation of the rule Mine at step 10 resulted in the "
        "condition being met\n"
    )
    assert [rule.seen for rule in Seen.made] == [[0, 10], [0, 10, 20]]
    assert statuses["Seen"].status == "NoIssuesFound"
    (line,) = [line for line in run.said if "rule Mine" in line]
    assert line == "rule Mine at step 10: loss is nan"


def test_a_finding_is_told_before_the_next_rule_is_asked(run):
    run.save(0)
    run.end()
    file = run.folder.parent / "data/stoker/findings.jsonl"
    found: list[bool] = []
    Seen.acts[0] = lambda: found.append(file.exists())
    run.evaluate("Seen(fires_at=0), Seen(name=slow)")
    assert found == [False, True]


def test_a_finding_is_one_line_of_json(run):
    run.save(0, loss=float("inf"))
    run.end()
    run.evaluate("Seen(fires_at=0)")
    (finding,) = run.findings()
    time = finding.pop("time")
    assert time.endswith("Z")
    assert finding == {
        "rule": "Seen",
        "step": 0,
        "mode": "TRAIN",
        "mode_step": 0,
        "message": "loss is inf",
        "tensor": LOSS,
        "values": {"loss": "inf"},
        "hint": "",
    }


def test_steps_that_arrive_while_others_are_evaluated_are_evaluated_in_order(run):
    run.save(0)
    Seen.acts[0] = lambda: run.save(30, 10, 20)
    Seen.acts[30] = run.end
    run.evaluate("Seen")
    assert Seen.made[0].seen == [0, 10, 20, 30]


def test_steps_that_come_after_a_later_one_was_evaluated_are_counted_and_named(run):
    run.save(0, 50)
    Seen.acts[50] = lambda: (run.save(20, 30), run.end())
    status = run.evaluate("Seen")["Seen"]
    assert Seen.made[0].seen == [0, 50]
    why = "it came after step 50 was evaluated"
    assert [line for line in run.said if "late" in line or "came after" in line] == [
        f"warning: step 20 is not evaluated: {why}",
        f"warning: rule Seen {status.details}",
        "warning: 2 saved steps came too late to be evaluated: 20, 30",
    ]
    assert status.details == "did not see 2 of 4 steps, which cannot be read or came late"


def test_a_step_waits_until_every_worker_has_written_it(run):
    write_collections(str(run.folder), "worker_0", [], num_workers=2)
    run.save(0)
    run.save(0, worker="worker_1")
    run.save(10, 20)
    Seen.acts[0] = lambda: run.save(20, worker="worker_1")
    Seen.acts[20] = run.end
    run.evaluate("Seen")
    assert Seen.made[0].seen == [0, 10, 20]  # 10 will never be whole: a later one is


def test_a_damaged_step_is_left_out_and_said(run):
    run.save(0, 10, 20)
    run.end()
    file = run.events(10)
    file.write_bytes(file.read_bytes()[:40])
    status = run.evaluate("Reading")["Reading"]
    assert Seen.made[0].seen == [0, 20]
    assert status.status == "NoIssuesFound"
    assert status.details == "did not see 1 of 3 steps, which cannot be read or came late"
    assert sum("step 10 cannot be evaluated" in line for line in run.said) == 1


def test_a_rule_that_could_read_no_step_at_all_is_an_error(run):
    run.save(0, 10, 20)
    run.end()
    for file in run.folder.glob("events/*/*"):
        file.write_bytes(file.read_bytes()[:40])
    status = run.evaluate("Reading")["Reading"]
    assert status.status == "Error"
    assert status.details.startswith("none of 3 steps can be read: step 0 cannot be evaluated")


def test_a_step_that_has_vanished_is_left_out_and_said(run):
    run.save(0, 10, 20)
    run.end()
    run.events(10).unlink()
    next(run.folder.glob("index/*/000000000020_worker_0.json")).chmod(0o644)
    Seen.acts[0] = lambda: next(run.folder.glob("index/*/000000000020*")).unlink()
    run.evaluate("Reading")
    assert Seen.made[0].seen == [0]
    assert any("step 10 cannot be evaluated" in line for line in run.said)


def test_a_damaged_index_is_said_at_the_end(run):
    run.save(0)
    run.end()
    (run.folder / "index/000000000/000000000010_worker_0.json").write_text("{half")
    assert run.evaluate("Seen")["Seen"].evaluated_steps == 1
    assert any("1 index files cannot be read" in line for line in run.said)


@pytest.mark.parametrize(
    "file", ["collections/000000000/worker_0_collections.json", "stoker/worker_0_tensors.json"]
)
def test_damaged_notes_of_the_writer_end_no_rule(run, file):
    run.save(0, 1)

    def damage():
        (run.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (run.folder / file).write_bytes(b"\xff\xfe")

    Seen.acts |= {0: damage, 1: run.end}
    status = run.evaluate("Seen")["Seen"]
    assert (status.status, status.evaluated_steps) == ("NoIssuesFound", 2)


def test_a_rule_that_raises_is_an_error_with_its_line_and_the_others_continue(run):
    run.save(0, 1, 2)
    run.end()
    statuses = run.evaluate("Careless, Seen")
    assert statuses["Careless"].status == "Error"
    assert statuses["Careless"].details.startswith(
        "at step 1: the rule raised ZeroDivisionError: division by zero (test_evaluator.py, line"
    )
    assert statuses["Seen"].evaluated_steps == 3


def test_a_file_that_a_rule_itself_cannot_open_is_its_own_fault(run):
    run.save(0, 1)
    run.end()
    statuses = run.evaluate("Opening, Seen")
    assert statuses["Opening"].status == "Error"
    assert statuses["Opening"].details.startswith(
        "at step 0: the rule raised FileNotFoundError: [Errno 2] No such file or directory: "
        "'/nowhere/thresholds.json' (test_evaluator.py, line"
    )
    assert statuses["Seen"].evaluated_steps == 2


def test_too_little_memory_costs_a_step_and_not_the_evaluation(run, monkeypatch):
    run.save(0, 1, 2)
    real_at, real_refresh, calls = SavedTensors.at, SavedTensors.refresh, []

    def at(saved, step):
        if step == 1:
            raise MemoryError
        return real_at(saved, step)

    def refresh(saved):
        calls.append(saved)
        if len(calls) == 3:
            raise MemoryError
        return real_refresh(saved)

    monkeypatch.setattr(SavedTensors, "at", at)
    monkeypatch.setattr(SavedTensors, "refresh", refresh)
    Seen.acts[2] = run.end
    status = run.evaluate("Seen")["Seen"]
    assert (status.status, status.evaluated_steps) == ("NoIssuesFound", 2)
    assert "warning: step 1 cannot be evaluated: MemoryError" in run.said
    assert "warning: there was no memory to look for new steps" in run.said


def test_a_rule_that_is_over_gives_back_what_it_remembers(run):
    run.save(0, 1)
    run.end()
    alive = []

    def look():
        gc.collect()
        alive.append(reference() is not None)

    Seen.acts[1] = look
    specs = read_specs("Seen(fires_at=0, name=first), Seen")
    rules = [WatchedRule(spec) for spec in specs]
    reference = weakref.ref(Seen.made.pop(0))
    saved = SavedTensors(run.folder)
    Evaluator(run.job, rules, saved, signals=run.signals, say=run.said.append).run()
    assert alive == [False]


def test_that_a_rule_is_an_error_is_said_at_once_and_once(run):
    run.save(0, 1, 2)
    run.end()
    said: list[list[str]] = []
    Seen.acts[2] = lambda: said.append(list(run.said))
    run.evaluate("Nonsense, Careless, Seen")
    told = [line for line in run.said if "is no longer evaluated" in line]
    assert told == [line for line in said[-1] if "is no longer evaluated" in line]
    ended = "is no longer evaluated"
    assert told[0].startswith(f"warning: rule Nonsense {ended}: rule Nonsense: there is no")
    assert told[1].startswith(f"warning: rule Careless {ended}: at step 1: the rule raised")
    assert len(told) == 2


def test_a_rule_that_calls_exit_ends_itself_and_no_other(run):
    run.save(0, 1, 2)
    run.end()
    statuses = run.evaluate("Leaving, Seen")
    assert statuses["Leaving"].status == "Error"
    assert "the rule raised SystemExit: 0" in statuses["Leaving"].details
    assert statuses["Seen"].evaluated_steps == 3


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OwnExit(), "OwnExit, whose text cannot be made (KeyboardInterrupt)"),
        (GeneratorExit("over"), "GeneratorExit: over"),
        (CancelledError(), "CancelledError: "),
        (KeyboardInterrupt("mine"), "KeyboardInterrupt: mine"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_rule_raises_it_ends_itself_and_no_other(run, error, said, monkeypatch):
    # As in the evaluator's own process, which handles SIGINT.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        run.save(0, 1, 2)
        run.end()
        monkeypatch.setattr(Raising, "raises", error, raising=False)
        statuses = run.evaluate("Raising, Seen")
    finally:
        signal.signal(signal.SIGINT, before)
    assert statuses["Raising"].status == "Error"
    assert f"the rule raised {said}" in statuses["Raising"].details
    assert statuses["Seen"].evaluated_steps == 3


def test_an_interrupt_at_the_terminal_is_not_a_rules_fault(run, monkeypatch):
    run.save(0)
    run.end()
    monkeypatch.setattr(Raising, "raises", KeyboardInterrupt(), raising=False)
    with pytest.raises(KeyboardInterrupt):
        run.evaluate("Raising, Seen")


def test_a_rule_that_hangs_is_given_up_with_its_line_and_the_others_continue(run):
    run.save(0, 1, 2)
    run.end()
    statuses = run.evaluate("Hanging, Seen", longest_seconds=2)
    assert statuses["Hanging"].status == "Error"
    assert re.match(
        r"at step 0: the rule gave no answer within [\d.]+ s \(test_evaluator\.py, line",
        statuses["Hanging"].details,
    )
    assert "STOKER_RULES_CHECK_SECONDS allows more" in statuses["Hanging"].details
    assert statuses["Seen"].evaluated_steps == 3


def test_a_finding_with_a_tensor_instead_of_its_name_is_one_anyway(run):
    run.save(0)
    run.end()
    assert run.evaluate("Loose")["Loose"].status == "IssuesFound"
    assert [(found["tensor"], found["hint"]) for found in run.findings()] == [(LOSS, "")]


def test_an_answer_that_is_not_a_finding_is_an_error(run):
    run.save(0)
    run.end()
    status = run.evaluate("Strange")["Strange"]
    assert status.status == "Error"
    assert "it returned True, but a Finding or None is expected" in status.details


def test_a_rule_that_cannot_be_made_is_an_error_from_the_start(run):
    run.save(0)
    run.end()
    statuses = run.evaluate('[{"RuleConfigurationName": "V", "RuleParameters": {}}]')
    assert statuses["V"].status == "Error"
    assert "which rule it is" in statuses["V"].details


def test_a_rule_that_never_found_its_tensors_is_an_error_that_names_those_there_are(run):
    run.save(0, 1)
    run.end()
    status = run.evaluate("Gradients")["Gradients"]
    assert status.status == "Error"
    assert "never found tensors of the collection 'gradients'; outputs of ReLU" in status.details
    assert f"in 2 steps there were: {LOSS}" in status.details
    assert any(line.startswith("warning: rule Gradients") for line in run.said)


def test_where_nothing_was_saved_at_all_a_rule_is_an_error(run):
    run.end()
    status = run.evaluate("Seen")["Seen"]
    assert (status.status, status.evaluated_steps) == ("Error", 0)
    assert "no tensors were saved at all" in status.details
    assert "of TensorFlow nothing is saved" in status.details


def test_what_a_rule_can_do_without_is_not_an_error(run):
    run.save(0)
    run.end()
    assert run.evaluate("Content")["Content"].status == "NoIssuesFound"


def test_a_rule_that_found_nothing_to_look_at_in_any_step_is_an_error(run):
    run.save(0, 1)
    run.end()
    status = run.evaluate("Absent")["Absent"]
    assert (status.status, status.details) == ("Error", "not at this step")


def test_too_few_steps_to_ever_fire_are_said(run):
    run.save(0, 1)
    run.end()
    status = run.evaluate("Patient")["Patient"]
    assert status.status == "NoIssuesFound"
    assert "evaluated 2 steps, needs 7" in status.details
    assert any("evaluated 2 steps, needs 7" in line for line in run.said)


def test_a_quick_rule_is_not_told_to_be_quick(run):
    run.save(0, 1)
    run.end()
    statuses = run.evaluate("Patient, Patient(name=second, quick)")
    assert "quick" in statuses["Patient"].details
    assert "quick" not in statuses["second"].details
    assert "save_interval" in statuses["second"].details


def test_a_rule_that_raises_at_the_end_is_an_error(run):
    run.save(0)
    run.end()
    status = run.evaluate("Hasty")["Hasty"]
    assert (status.status, "ValueError: how many?" in status.details) == ("Error", True)


def test_when_the_job_was_stopped_from_outside_so_are_its_rules_but_an_issue_stays(run):
    run.save(0, 1)
    run.end()
    run.signals.is_job_stopped = True
    statuses = run.evaluate("Seen(fires_at=0, name=Found), Seen")
    assert statuses["Found"].status == "IssuesFound"
    assert (statuses["Seen"].status, statuses["Seen"].evaluated_steps) == ("Stopped", 2)


def test_when_the_time_is_over_the_unevaluated_steps_are_counted(run):
    run.save(0, 1, 2)
    run.end()
    Seen.acts[0] = run.signals.conclude
    status = run.evaluate("Seen")["Seen"]
    assert status.status == "Stopped"
    assert "2 of 3 saved steps were not evaluated" in status.details


def test_when_the_time_is_over_no_further_rule_is_asked_about_the_step(run):
    run.save(0)
    run.end()
    Seen.acts[0] = run.signals.conclude
    statuses = run.evaluate("Seen, Hanging(name=slow)", longest_seconds=5.0)
    assert [rule.seen for rule in Seen.made] == [[0], []]
    assert statuses["Seen"].status == "NoIssuesFound"
    assert statuses["slow"].status == "Stopped"
    assert "1 of 1 saved steps were not evaluated: the time was over" in statuses["slow"].details
    late = "1 of 1 saved steps were not evaluated by the rules"
    assert sum(late in line for line in run.said) == 1


def test_when_the_time_is_over_every_later_answer_has_to_be_a_short_one(run, monkeypatch):
    monkeypatch.setattr("stoker.debugging.evaluate.signals.LAST_ANSWER_SECONDS", 0.2)
    run.save(0)
    run.end()
    Seen.acts[0] = run.signals.conclude
    limit = partial(run.signals.answer_seconds, 300.0)
    statuses = run.evaluate("Lingering", longest_seconds=limit)
    assert statuses["Lingering"].status == "Error"
    assert "no answer within 0.5 s" in statuses["Lingering"].details
    assert run.signals.answer_seconds(0.1) == 0.1


def test_a_message_that_is_under_way_when_the_time_is_over_is_waited_for(run, monkeypatch):
    told = []

    def post(notice, url):
        time.sleep(0.3)
        told.append(url)
        return "200"

    monkeypatch.setattr("stoker.debugging.actions.runner.post", post)
    run.save(0, 1)
    run.end()
    Seen.acts[1] = run.signals.conclude
    run.evaluate("Seen(fires_at=0, webhook=http://localhost/), Seen(name=other)")
    assert told == ["http://localhost/"]
    assert not [line for line in run.said if "given up" in line]


def test_falling_behind_is_said_once_and_nothing_is_left_out(run):
    run.save(*range(MANY_STEPS + 5))
    Seen.acts[MANY_STEPS + 4] = run.end
    run.evaluate("Seen")
    assert Seen.made[0].seen == list(range(MANY_STEPS + 5))
    assert sum("saved steps behind" in line for line in run.said) == 1


def test_a_rule_about_time_is_asked_between_steps(run):
    run.save(4)
    status = run.evaluate("Impatient")["Impatient"]
    assert (status.status, status.step) == ("IssuesFound", 4)


def test_stop_training_on_fire_stops_the_job(run):
    run.save(4)
    run.evaluate("Impatient(stop_training_on_fire=True)")
    request = read_stop_request(run.job.paths)
    assert (request.by, request.step, request.reason) == ("rule Impatient", 4, "too long")


def test_a_firing_after_the_end_stops_nothing_and_says_so(run):
    run.save(0)
    run.end()
    run.evaluate("Seen(fires_at=0, stop)")
    assert read_stop_request(run.job.paths) is None
    assert "rule Seen would stop the job, but it has ended already" in run.said


def test_it_ends_when_every_rule_is_over(run):
    run.save(0)  # and no end in sight
    assert run.evaluate("Seen(fires_at=0)")["Seen"].status == "IssuesFound"


def test_a_full_disk_costs_the_file_and_not_the_evaluation(run, opt_ml):
    run.save(0)
    run.end()
    (opt_ml.root / "output/data").mkdir(parents=True)
    (opt_ml.root / "output/data/stoker").write_text("in the way")
    run.evaluate("Seen(fires_at=0)")
    assert "rule Seen at step 0: loss is 1.0" in run.said
    assert any("findings.jsonl cannot be written" in line for line in run.said)
    assert any("rules.json cannot be written" in line for line in run.said)


def test_an_evaluator_whose_launcher_is_gone_concludes(run, monkeypatch):
    run.save(0)
    Seen.acts[0] = lambda: monkeypatch.setattr(os, "getppid", lambda: 1)
    assert run.evaluate("Seen")["Seen"].evaluated_steps == 1


def test_a_run_that_is_over_is_evaluated_without_any_action(run):
    run.save(0, 10, 20)
    told = []
    rules = evaluate_saved(
        SavedTensors(run.folder),
        read_specs("Seen(fires_at=20, stop), Gradients"),
        steps=[0, 20],
        on_fire=told.append,
    )
    assert [rule.status.status for rule in rules] == ["IssuesFound", "Error"]
    assert [fired.step for fired in told] == [20]
    assert Seen.made[0].seen == [0, 20]
    assert read_stop_request(run.job.paths) is None


def test_the_texts_of_a_finding_are_bounded():
    finding = Finding(message="tensor([0.])" * 10_000, hint="try it", tensor="t")
    assert len(finding.message) == 2001
    assert finding.message.endswith("…")
    assert (finding.hint, finding.tensor) == ("try it", "t")
