"""docs/guide/rules-reference.md, made from what the rules say of themselves.

python -m tests.debugging.rules.reference      writes it again
"""

from __future__ import annotations

import inspect
from pathlib import Path

from stoker.debugging.profiler_rules import PROFILER_CATALOGUE
from stoker.debugging.rule import Parameter, Rule
from stoker.debugging.rules import CATALOGUE

FILE = Path(__file__).parents[3] / "docs/guide/rules-reference.md"

_HEAD = """\
# The rules, one by one

Made from the rules themselves by `python -m tests.debugging.rules.reference`; a test holds it
against them. In a terminal, `stoker rules explain NAME` says the same.

Parameters travel as text: `"True"`, `"0.5"`, and lists with commas between. A rule fires at a
step; what happens then is up to its actions. Tensors that a rule never finds make it end as
`Error`, not as `NoIssuesFound`.

Default expressions such as `.*relu_output` are the contract's; they are names of MXNet. Left as
they are, tensors are found by the class of their module, and by the expression only where no class
is known, as in files that smdebug itself wrote. An expression of your own is what counts.

[Where rules differ from the service](../decisions/0030-where-rules-differ-from-the-service.md)
lists what is other on purpose, and why.
"""

_PROFILER_HEAD = """\
# The rules of the profiler

They look at the machines and the steps instead of tensors, and need a profile:
`STOKER_PROFILE=auto` or a `ProfilerConfig`. `patience` makes short jobs end without a verdict;
`preset="quick"` waits for 20 snapshots or steps only.
"""


def make_reference() -> str:
    """The whole page."""
    parts = [_HEAD]
    for head, catalogue in (("", CATALOGUE), (_PROFILER_HEAD, PROFILER_CATALOGUE)):
        names = " · ".join(f"[{name}](#{name.lower()})" for name in catalogue)
        parts += [*([head] if head else []), names, "", *map(make_section, catalogue.values())]
    return "\n".join(parts)


def make_section(rule: type[Rule]) -> str:
    """One rule: its own words, and its parameters with their defaults."""
    lines = [f"## {rule.__name__}", "", inspect.cleandoc(rule.__doc__ or ""), ""]
    if rule.parameters:
        lines += ["| parameter | default | |", "|---|---|---|"]
        lines += [_row(parameter) for parameter in rule.parameters.values()]
    else:
        lines += ["It has no parameters."]
    return "\n".join([*lines, ""])


def _row(parameter: Parameter) -> str:
    default = "not set" if parameter.default is None else f"`{_text(parameter.default)}`"
    meaning = parameter.help + _bounds(parameter)
    cells = [cell.replace("|", r"\|") for cell in (parameter.name, default, meaning)]
    return f"| {' | '.join(cells)} |"


def _text(value: object) -> str:
    return f"{value:g}" if type(value) is float and abs(value) < 1e-2 else str(value)


def _bounds(parameter: Parameter) -> str:
    low, high = parameter.minimum, parameter.maximum
    if parameter.choices:
        return f" ({', '.join(parameter.choices)})"
    if low is not None and high is not None:
        return f" ({low:g} to {high:g})"
    return f" ({low:g} or more)" if low is not None else ""


if __name__ == "__main__":
    FILE.write_text(make_reference())
