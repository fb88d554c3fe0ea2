"""A rule: one question about a step, its parameters and the tensors it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, get_type_hints

from stoker.debugging.booleans import parse_boolean
from stoker.debugging.need import Need
from stoker.debugging.step_tensors import StepTensors
from stoker.errors import RuleInvalid

_LONGEST_TEXT = 2000  # it goes into the job's log and into mails


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What a rule saw: in words for people, and the numbers behind them."""

    message: str
    """With the measured value, the limit and where, in one line."""
    tensor: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    """Names → numbers, such as {"abs_mean": 3e-9, "threshold": 1e-7}."""
    hint: str = ""
    """What usually helps."""

    def __post_init__(self) -> None:
        # Of a rule of the user's own: a whole tensor as text must not fill logs and reports.
        for name in ("message", "hint", "tensor"):
            text = str(getattr(self, name))
            if len(text) > _LONGEST_TEXT:
                object.__setattr__(self, name, f"{text[:_LONGEST_TEXT]}…")

    def to_json(self) -> dict[str, Any]:
        """For files and messages. NaN and infinity, which JSON has not, become texts."""
        values = {n: v if math.isfinite(v) else str(v) for n, v in self.values.items()}
        return {
            "message": self.message,
            "tensor": self.tensor,
            "values": values,
            "hint": self.hint,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One setting of a rule."""

    name: str
    kind: type
    """int, float, bool or str."""
    default: Any
    """None means: not set."""
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:  # noqa: ANN401 - of its own kind
        """The value of a text, as a request carries it: everything is text there.

        Raises:
            RuleInvalid: it is not such a value, or out of bounds.
        """
        try:
            value = _PARSERS[self.kind](text.strip())
        except ValueError:
            raise self._refusal(text, f"expected {_KIND_NAMES[self.kind]}") from None
        if self.minimum is not None and not value >= self.minimum:
            raise self._refusal(text, f"the smallest value is {self.minimum:g}")
        if self.maximum is not None and not value <= self.maximum:
            raise self._refusal(text, f"the largest value is {self.maximum:g}")
        if self.choices and value not in self.choices:
            raise self._refusal(text, f"expected one of {', '.join(self.choices)}")
        return value

    def _refusal(self, text: str, expected: str) -> RuleInvalid:
        return RuleInvalid(f"parameter {self.name} is {text!r:.80}: {expected}", fix=self.help)


def parameter(
    default: Any,  # noqa: ANN401 - of the annotated type
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
) -> Any:  # noqa: ANN401 - stands for the value: `threshold: float = parameter(1e-7, …)`
    """Declares a setting of a rule, next to its type.

    Args:
        default: used when it is not set; None for "not set" (annotate `float | None`).
        help: one line, shown by `stoker rules explain`.
        minimum: the smallest value that makes sense.
        maximum: the largest.
        choices: the texts that are allowed.
    """
    return Parameter(
        name="",
        kind=str,
        default=default,
        help=help,
        minimum=minimum,
        maximum=maximum,
        choices=tuple(choices),
    )


class Rule:
    """Evaluates one step at a time. Subclass it, declare parameters, and write `check`.

    One object lives as long as the run, so a rule may remember what it saw. Steps come in rising
    order, each once, of every mode.

    Example:
        >>> class LargeGradient(Rule):
        ...     '''A gradient is too large.'''
        ...
        ...     threshold: float = parameter(10.0, "largest mean of |gradient|", minimum=0)
        ...
        ...     def needs(self) -> Sequence[Need]:
        ...         return [Need(collection="gradients", reductions=("abs_mean",))]
        ...
        ...     def check(self, step: int, tensors: StepTensors) -> Finding | None:
        ...         for tensor in tensors.needed("gradients"):
        ...             mean = tensor.reduction("abs_mean")
        ...             if mean > self.threshold:
        ...                 return Finding(message=f"mean of |{tensor.name}| is {mean:.3g}")
        ...         return None
    """

    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """By name; collected from the annotated class attributes."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared = {n: v for n, v in vars(cls).items() if isinstance(v, Parameter)}
        hints = get_type_hints(cls) if declared else {}
        own = {n: replace(p, name=n, kind=_kind_of(hints[n])) for n, p in declared.items()}
        cls.parameters = {**cls.parameters, **own}

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Takes the parameters as texts, the way a request carries them.

        Raises:
            RuleInvalid: an unknown name, a value that cannot be, or settings that exclude each
                other.
        """
        for name, declared in self.parameters.items():
            setattr(self, name, declared.default)
        for name, text in (settings or {}).items():
            if name not in self.parameters:
                raise _unknown(type(self).__name__, name, self.parameters)
            setattr(self, name, self.parameters[name].parse(text))
        self.validate()

    def validate(self) -> None:
        """Refuses settings that make no sense together; override it where there are such.

        Raises:
            RuleInvalid: they do not.
        """

    def needs(self) -> Sequence[Need]:
        """The tensors it looks at, given its parameters. The hook collects exactly these."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it needs")

    def least_steps(self) -> int:
        """How many saved steps it has to see before it can ever fire."""
        return 1

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        """Looks at one step; a Finding means that it fires.

        Args:
            step: the global one, as `tensors.step`.
            tensors: of this step; earlier ones by `tensors.at(…)`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def check_time(self, seconds_since_last_step: float) -> Finding | None:
        """Asked between steps, for rules about time."""
        return None

    def lacks(self) -> str:
        """Asked when a run has ended without a finding: why the rule could not evaluate any of it.

        Needs that were never met are reported without it. This is for what only the rule knows,
        such as that there was no validation to compare with. Empty: it could.
        """
        return ""


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError
    return value


_PARSERS: dict[type, Callable[[str], Any]] = {
    bool: parse_boolean,
    int: int,
    float: _parse_float,
    str: str,
}
_KIND_NAMES = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}


def _kind_of(hint: Any) -> type:  # noqa: ANN401 - whatever a class body annotates
    """`float` of `float | None`."""
    options = [option for option in getattr(hint, "__args__", (hint,)) if option is not type(None)]
    if len(options) != 1 or options[0] not in _PARSERS:
        raise TypeError(
            f"a parameter is an int, float, bool or str, or one of them | None: {hint}"
        )
    kind: type = options[0]
    return kind


def _unknown(rule: str, name: str, known: Mapping[str, Parameter]) -> RuleInvalid:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    fix = f"did you mean {near[0]}?" if near else f"it takes: {', '.join(known) or 'none'}"
    return RuleInvalid(f"rule {rule} has no parameter {name!r:.80}", fix=fix)
