"""Documents and source are in plain technical English: phrases that we used to get wrong.

The list is short on purpose. It has only phrases that have a plainer form in every place; where
one is right, its exact words are in `ALLOWED`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
# Phrase → what to write instead.
PHRASES = {
    r"(no|some|any|every)body": "name the actor: the caller, the user, no process",
    r"whoever": "name the actor",
    r"anew": "again",
    r"mend(s|ed|ing)?": "fix",
    r"cures?": "fix",
    r"(go|goes|going|gone|went) on": "continue",
    r"besides?": "next to, compared with, during, in addition to",
    r"(?<!there )(is|are|was|were) no(?= (?!longer|more|less|fewer))": "is not a",
    r"lies|lie (in|on|at|there)|lying": "is in",
    r"stands(?! for)|stand (in|at|there)": "is in",
    r"of (ours|yours|theirs)": "our, your, their",
    r"judg(e|es|ed|ing|ement)": "evaluate",
    r"hears?|heard": "receive",
    r"wish(es|ed|ing)?": "request",
    r"(take|takes|taken|took) away": "interrupt, remove",
    r"lets? go( of)?": "release",
    r"for want of": "because there is no",
    r"(is|are|was|were|be|been|being) told": "receives, is notified",
    r"(die|dies|died) of": "is ended by",
    r"the very": "exactly the",
    r"sound": "valid, intact",
    r"farewell|lest|whence|hence|thus|upon|shall|in vain|all the same": "a plainer word",
}
ALLOWED: dict[str, set[str]] = {
    # The name that Python's own files give this argument.
    "container_src/stoker/platform/data/confined.py": {"whence: int = ", "start[whence]"},
}
"""File → excerpts, each with the phrase and enough around it to be found once."""

PLACES = (
    "*.md",
    "Makefile",
    "benchmarks/*",
    "container_src/**/*",
    "docker/**/*",
    "docs/**/*.md",
    "examples/**/*",
)
CHECKED = sorted(
    file
    for file in {file for place in PLACES for file in REPOSITORY.glob(place)}
    if file.is_file() and file.suffix not in (".lock", ".pt", ".pyc", ".typed")
)
_ANY = re.compile(rf"(?<![a-z])(?:{'|'.join(f'(?:{p})' for p in PHRASES)})(?![a-z])", re.I)


def find_phrases(text: str) -> list[str]:
    """Every phrase of the list in a text, with some words around it, also across line ends."""
    flat = re.sub(r"[\"']\s*\n\s*[frb]*[\"']|\s*\n[\s#]*", " ", text)
    flat = re.sub(r"  +", " ", flat)
    return [flat[max(0, m.start() - 30) : m.end() + 30] for m in _ANY.finditer(flat)]


def test_words_are_plain():
    found = {}
    for file in CHECKED:
        place = str(file.relative_to(REPOSITORY))
        allowed = ALLOWED.get(place, set())
        phrases = find_phrases(file.read_text())
        found[place] = [x for x in phrases if not any(a in x for a in allowed)]
    wrong = [f"{place}: {phrases}" for place, phrases in found.items() if phrases]
    assert not wrong, "see PHRASES for what to write instead:\n" + "\n".join(wrong)


def test_every_exception_is_needed():
    for place, excerpts in ALLOWED.items():
        found = find_phrases((REPOSITORY / place).read_text())
        assert not [x for x in excerpts if not any(x in words for words in found)], place


@pytest.mark.parametrize(
    "text",
    [
        "`x` is no channel name",
        "the file is\n    # no longer there and nobody_asked",
        'raise Failed("it goes "\n    f"on")',
        "def judge(run): ...",
        "Beside the worker",
    ],
)
def test_a_phrase_is_found_wherever_it_hides(text):
    assert len(find_phrases(text)) == 1


@pytest.mark.parametrize(
    "text", ["there is no file", "it is no longer there", "recommended", "`sm` stands for it"]
)
def test_plain_text_passes(text):
    assert find_phrases(text) == []
