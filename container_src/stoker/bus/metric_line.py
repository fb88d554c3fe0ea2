"""The line on stdout by which `job.log` tells metrics, and SageMaker's definitions that read it.

[metric] step=12 train/loss=0.25 val/accuracy=nan
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Group 1 is the value: so SageMaker reads the Regex of a MetricDefinition.
NUMBER = r"([-+]?inf|nan|[-+0-9.eE]+)"  # in this order: the last would take the sign of `-inf`
# The API's limits for MetricDefinitions.
LONGEST_REGEX = 500
MOST_DEFINITIONS = 40  # the service's limit of MetricDefinitions
MARK = "[metric] step="
_PREFIX = "[metric]"
_LONGEST_STEP = 19  # what 64 bits hold
# What would end a name early, or start another one. Percent signs, so that it can be undone.
_SPELLED = re.compile(r"(?:%[0-9A-F]{2})+")
_UNFIT = re.compile(r"[\s=%\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def make_line(step: int, metrics: Mapping[str, float]) -> str:
    """One line for all metrics of a step, with the end of the line.

    Example:
        >>> make_line(12, {"train/loss": 0.25, "val acc": float("nan")})
        '[metric] step=12 train/loss=0.25 val%20acc=nan\\n'
    """
    parts = [f"{_spelled(name)}={value!r}" for name, value in metrics.items()]
    return " ".join((_PREFIX, f"step={step}", *parts)) + "\n"


def read_line(text: str) -> dict[str, float]:
    """The metrics of a line of the log, wherever in it they begin; none if it has none.

    Example:
        >>> read_line("[metric] step=12 train/loss=0.25 val%20acc=nan")
        {'train/loss': 0.25, 'val acc': nan}
    """
    metrics: dict[str, float] = {}
    _, _, rest = text.partition(MARK)
    for word in rest.split()[1:]:
        name, is_pair, value = word.partition("=")
        try:
            metrics[_SPELLED.sub(_unpercent, name)] = float(value)
        except ValueError:  # another program's text in the same line
            if not is_pair:
                break
    return metrics


def read_step(text: str) -> int | None:
    """The step of such a line.

    Example:
        >>> read_step("[metric] step=12 train/loss=0.25")
        12
    """
    _, _, rest = text.partition(MARK)
    word = rest.partition(" ")[0]
    is_number = word.removeprefix("-").isdecimal() and word.isascii() and len(word) < _LONGEST_STEP
    return int(word) if is_number else None


def make_definitions(names: Iterable[str]) -> list[dict[str, str]]:
    """What an estimator's or tuner's `metric_definitions` needs to find these metrics.

    Example:
        >>> make_definitions(["loss"])[0]["Regex"]
        '\\\\[metric\\\\] step=.* loss=([-+]?inf|nan|[-+0-9.eE]+)'
    """
    # The blank keeps `loss` from being found in `val/loss`.
    start = re.escape(_PREFIX).replace(r"\ ", " ") + " step=.* "
    return [
        {"Name": name, "Regex": f"{start}{_escaped(_spelled(name))}={NUMBER}"} for name in names
    ]


def _spelled(name: str) -> str:
    return _UNFIT.sub(_percent, name)


def _percent(match: re.Match[str]) -> str:
    # surrogatepass: a name with half of a surrogate pair must not end the training.
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _unpercent(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")


def _escaped(name: str) -> str:
    # Only what has a meaning: re.escape's `\/` and `\-` are not understood everywhere.
    return re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", name)
