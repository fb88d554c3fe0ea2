"""Which of the saved tensors a need means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from stoker.debugging.description import Description, describe_by_name
from stoker.debugging.need import Need
from stoker.debugging.tensors.collection import Collection

Names = tuple[str, ...]
_MOST_CHOICES = 500


class Chooser:
    """Answers by descriptions and collections. Steps mostly save the same names: so it keeps its
    answers."""

    def __init__(self) -> None:
        self.described: Mapping[str, Description] = {}
        """By the hook; others are described by their names."""
        self.collections: Mapping[str, Collection] = {}
        self._by_name: dict[str, Description] = {}
        self._chosen: dict[tuple[Need, Names], Names] = {}

    def learn(
        self, described: Mapping[str, Description], collections: Mapping[str, Collection]
    ) -> None:
        """Takes what is known by now in place of what was."""
        self.described, self.collections = described, collections
        self._chosen.clear()

    def describe(self, name: str) -> Description:
        """What the hook said of a tensor, or what its name tells."""
        description = self.described.get(name) or self._by_name.get(name)
        if description is None:
            description = self._by_name[name] = describe_by_name(name)
        return description

    def choose(self, need: Need, names: Names) -> Names:
        """Of some tensors, those that are meant."""
        key = (need, names)
        if key not in self._chosen:
            if len(self._chosen) >= _MOST_CHOICES:
                self._chosen.clear()
            self._chosen[key] = self._choose(need, names)
        return self._chosen[key]

    def _choose(self, need: Need, names: Names) -> Names:
        chosen = {name for name in names if need.matches(self.describe(name))}
        if need.is_by_collection or not (chosen or need.regex):
            chosen |= self._listed(need.collection, names)
        if not chosen and need.fallback_regex:
            pattern = re.compile(need.fallback_regex)
            chosen = {name for name in names if pattern.search(name)}
        return tuple(name for name in names if name in chosen)

    def _listed(self, collection_name: str, names: Names) -> set[str]:
        """Those that the collections file has. Its patterns are guesses by name, so they are not
        asked about tensors that the hook has described."""
        collection = self.collections.get(collection_name)
        if collection is None:
            return set()
        listed = set(collection.tensor_names).intersection(names)
        patterns = _compile(collection.include_regex)
        guessed = (n for n in names if n not in self.described)
        return listed.union(n for n in guessed if any(p.search(n) for p in patterns))


def _compile(patterns: Iterable[str]) -> list[re.Pattern[str]]:
    """Those that are expressions: one of a damaged file matches nothing, and harms nobody."""
    compiled = []
    for pattern in patterns:
        with suppress(re.error, OverflowError, RecursionError):
            compiled.append(re.compile(pattern))
    return compiled
