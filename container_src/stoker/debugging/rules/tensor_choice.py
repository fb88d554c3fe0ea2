"""Which tensors a rule looks at: those its settings name, or what the rule is about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.debugging.need import ALL, Need
from stoker.debugging.step_tensors import SavedTensor, StepTensors
from stoker.errors import RuleInvalid

COLLECTIONS_HELP = "collections to look at, separated by commas: weights, gradients, losses, …"
REGEX_HELP = "tensors to look at, by name: regular expressions, separated by commas"


def chosen_needs(
    collection_names: str | None, tensor_regex: str | None, *, reductions: Sequence[str] = ()
) -> list[Need]:
    """One need for each collection and each expression that the settings name.

    Args:
        collection_names: separated by commas; None or empty for none.
        tensor_regex: separated by commas; None or empty for none.
        reductions: what is enough to know of each tensor.

    Raises:
        RuleInvalid: an expression that cannot be understood.
    """
    names = [name.strip() for name in (collection_names or "").split(",")]
    patterns = [piece.strip() for piece in split_regexes(tensor_regex or "")]
    enough = tuple(reductions)
    by_name = [Need(collection=name, reductions=enough) for name in names if name]
    by_regex = [
        Need(collection=f"tensors matching {_checked(p)}", regex=p, reductions=enough)
        for p in patterns
        if p
    ]
    return [*by_name, *by_regex]


def chosen_or_all_needs(
    collection_names: str | None, tensor_regex: str | None, *, reductions: Sequence[str] = ()
) -> list[Need]:
    """The same, where naming nothing means every tensor."""
    needs = chosen_needs(collection_names, tensor_regex, reductions=reductions)
    return needs or [Need(collection=ALL, reductions=tuple(reductions))]


def require_choice(rule: str, collection_names: str | None, tensor_regex: str | None) -> None:
    """Refuses settings that name no tensor, for rules that cannot know which are meant.

    Raises:
        RuleInvalid: they name none, or in a way that cannot be understood.
    """
    if not chosen_needs(collection_names, tensor_regex):
        raise RuleInvalid(
            f"rule {rule} needs a setting for which tensors to look at: "
            "neither collection_names nor tensor_regex is set",
            fix=f'for example {rule}(collection_names="weights,biases")',
        )


def role_needs(need: Need, tensor_regex: str) -> list[Need]:
    """What a rule is about, found by module class, unless the user says it by name.

    Args:
        need: with the contract's default expression as its `fallback_regex`. Such defaults are
            names of MXNet, which PyTorch's tensors never have.
        tensor_regex: the setting; the user's own if it is not that default.
    """
    if tensor_regex == need.fallback_regex:
        return [need]
    return chosen_needs(None, tensor_regex, reductions=need.reductions)


def union(tensors: StepTensors, needs: Sequence[Need]) -> list[SavedTensor]:
    """The tensors of all the needs, each once."""
    # A tensor may be in several collections, and belongs to one worker.
    found = {(t.name, t.worker): t for need in needs for t in tensors.needed(need)}
    return list(found.values())


def split_regexes(text: str) -> list[str]:
    r"""Several expressions, separated by commas; one inside brackets belongs to its expression.

    Example:
        >>> split_regexes(r"conv\d{1,2}.weight,fc")
        ['conv\\d{1,2}.weight', 'fc']
    """
    pieces = [""]
    depth = 0
    for part in re.findall(r"\\.|.", text, re.DOTALL):
        depth += (part in "([{") - (part in ")]}")
        if part == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += part
    return pieces


def _checked(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise RuleInvalid(
            f"tensor_regex has {pattern!r:.80}, which is not a valid regular expression: {error}",
            fix="several are separated by commas; a plain part of a name is one, too: fc.weight",
        ) from None
    return pattern
