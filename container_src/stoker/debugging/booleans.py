"""True and False as settings have them: all values of a request are texts."""

from __future__ import annotations

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def parse_boolean(text: str) -> bool:
    """In any case of letters.

    Raises:
        ValueError: it is none of these words.
    """
    if text.lower() not in _WORDS:
        raise ValueError(f"{text!r:.80} is neither True nor False")
    return _WORDS[text.lower()]
