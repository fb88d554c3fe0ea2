"""What the loop does in addition to training: inside its steps, and between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from stoker.debugging.profiler_rules.profile import Event, Profile
from stoker.report.figures.bill import Bill, find_pauses
from stoker.report.figures.run import Run
from stoker.report.insights.insight import Insight, is_small, show_seconds, show_share

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER_SECONDS = 0.002
"""Of a step: less is what Python itself takes."""

_LEAST_TRAINING_SHARE = 0.1
_LEAST_IDLE_SHARE = 0.1
_LEAST_IDLE_SECONDS = 1.0
_MOST_EVENTS = 20_000
"""That are looked at to see where in a step the time passes."""

_STEP = "Step:ModeKeys.TRAIN"
_AFTER = {
    "DataLoaderIter": "after its batch has come",
    "DataTransfer": "after its batch was copied to the device",
    "Forward-node": "after the forward pass",
    "Backward(post-forward)-node": "after the backward pass",
    "Optimizer": "after the optimizer step",
    "Checkpoint": "after a checkpoint",
    "Logging": "after logging",
}
"""Phase of the timeline → the words for what follows it."""


def find_other_work(run: Run, bill: Bill) -> Insight | None:
    """Time in each step that is neither training nor waiting for data."""
    share, lost = bill.share("other"), bill.seconds["other"]
    steps = max((one.steps for one in run.profile.steps_of("TRAIN")), default=0)
    each = lost / steps if steps else 0.0
    if is_small(bill, lost) or lost < _LEAST_TRAINING_SHARE * bill.training_seconds:
        return None
    if each < OTHER_SECONDS:
        return None
    place, part = find_place(run.profile)
    has_loader = any(facts.loaders for facts in run.profile.facts)
    where = f", most of it {place}" if place else ""
    loader = (
        "if the loop makes or reads its batches itself, a torch DataLoader with num_workers does "
        "that while the model computes; "
    )
    return Insight(
        key="other",
        title=f"Each step spends {show_seconds(each)} on work that is not training{where}: "
        f"{show_share(share)} of the job",
        change=("" if has_loader else loader)
        + f"look at what the loop does {place or 'there'}: metrics, plots, prints and conversions "
        "can be done every tenth step",
        lost_seconds=lost,
        share=share,
        saving_seconds=0.9 * lost,
        evidence=(
            f"{show_seconds(lost)} in {steps:,} steps are in no call of a loader, the model, its "
            "optimizer, a checkpoint or a logger",
            *((f"{show_share(part)} of that {place}",) if place else ()),
            *(() if has_loader else ("no torch DataLoader was seen",)),
        ),
    )


def find_idle(run: Run, bill: Bill) -> Insight | None:
    """Time of the script that is in no step."""
    share, lost = bill.share("idle"), bill.seconds["idle"]
    if share < _LEAST_IDLE_SHARE or lost < _LEAST_IDLE_SECONDS:
        return None
    pauses = max(
        (find_pauses(one) for one in run.profile.steps_of("TRAIN")),
        key=lambda found: float(found.sum()),
        default=None,
    )
    found = pauses[pauses > 0].tolist() if pauses is not None else []
    return Insight(
        key="idle",
        title=f"{show_share(share)} of the job passes between and after the steps",
        change="look at what the script does between epochs and after the last one: data that is "
        "prepared again, plots, checkpoints, metrics over the whole data set",
        lost_seconds=lost,
        share=share,
        evidence=(
            f"{show_seconds(lost)} between the first step and the end of the script",
            *(
                (f"{len(found)} pauses between steps, the longest of {show_seconds(max(found))}",)
                if found
                else ()
            ),
        ),
    )


def find_place(profile: Profile) -> tuple[str, float]:
    """Where in a step most of its other work is, and which share of it; empty if unknown."""
    gaps: dict[str, float] = {}
    for pid in {event.pid for event in profile.events}:
        own = (event for event in profile.events if event.pid == pid)
        for phase, seconds in _walk(list(islice(own, _MOST_EVENTS))):
            gaps[phase] = gaps.get(phase, 0.0) + seconds
    if not gaps:
        return "", 0.0
    phase = max(gaps, key=lambda name: gaps[name])
    return _AFTER.get(phase, ""), gaps[phase] / (sum(gaps.values()) or 1.0)


def _walk(events: Sequence[Event]) -> Iterator[tuple[str, float]]:
    """The gaps within training steps: the phase before each, and its seconds."""
    # Of those that begin at the same time, the step comes before its parts.
    ordered = sorted(events, key=lambda event: (event.start, -event.seconds))
    before, now, end = "", 0.0, 0.0
    usual = sorted(event.seconds for event in ordered if event.phase == _STEP)
    longest = 10 * usual[len(usual) // 2] if usual else 0.0
    for event in ordered:
        if event.phase == _STEP:
            if 0 < end - now < longest:  # longer ones are pauses between steps
                yield before, end - now
            before, now, end = "", event.start, event.start + event.seconds
        elif event.phase in _AFTER and event.start < end:
            if 0 < event.start - now < longest:
                yield before, event.start - now
            before, now = event.phase, max(now, event.start + event.seconds)
    if 0 < end - now < longest:
        yield before, end - now
