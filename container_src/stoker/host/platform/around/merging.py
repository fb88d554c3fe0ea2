"""The same folder of every host, seen as one: names must not clash, as on the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.host.platform.around.confined import Entry, Parts, walk


@dataclass(slots=True)
class Merged:
    """The folder of all hosts; what could not be taken is named."""

    hosts_dirs: Mapping[str, Path]
    """Host → what was its /opt/ml; the first one's files win."""

    parts: Parts
    """The folder, below each of them."""

    skipped: list[str] = field(default_factory=list)
    """Names with the reason; complete once all was read."""

    def __iter__(self) -> Iterator[tuple[Path, Entry]]:
        """Everything of all hosts, each name once, with the host's folder it is in."""
        is_folder: dict[Parts, bool] = {}
        for host, host_dir in self.hosts_dirs.items():
            for entry in walk(host_dir, self.parts):
                above = (entry.parts[:length] for length in range(1, len(entry.parts)))
                if not all(is_folder[parts] for parts in above):
                    continue  # in a folder that was skipped for another host's file
                if entry.parts not in is_folder:
                    is_folder[entry.parts] = entry.is_folder
                    yield host_dir, entry
                elif not (entry.is_folder and is_folder[entry.parts]):
                    self.skip(entry, f"{host} has written it, but a host before it, too")

    def skip(self, entry: Entry, reason: str) -> None:
        """Name what is left out."""
        self.skipped.append(f"{'/'.join((*self.parts, *entry.parts))}: {reason}")

    def is_empty(self) -> bool:
        """Whether no host has left anything but folders."""
        return all(
            entry.is_folder
            for host_dir in self.hosts_dirs.values()
            for entry in walk(host_dir, self.parts)
        )
