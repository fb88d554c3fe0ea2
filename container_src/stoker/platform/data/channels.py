"""The channels of one host: shown through an overlay, copied, or mounted from a folder."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from stoker.bus.progress import SHOWN_SECONDS, Progress, show_nothing
from stoker.contract.paths import OPT_ML
from stoker.machine.units import show_size
from stoker.platform.data.confined import (
    Parts,
    make_folder,
    make_fresh_folder,
    parse_parts,
    write_file,
)
from stoker.platform.data.failures import DownloadFailed, TransferCancelled, storing
from stoker.platform.data.folders import (
    FolderContent,
    copy_file,
    copy_folder,
    explain_changes,
    make_patch,
    name_changes,
    read_folder,
)
from stoker.platform.data.objects import ChannelObject, list_objects, run_all
from stoker.platform.data.storage import Storage
from stoker.platform.data.sync import read_journal, write_journal
from stoker.platform.model.mount import Mount
from stoker.platform.model.processing_request import ProcessingRequest
from stoker.platform.model.request import ChannelSource, FileSystem, TrainingRequest

DATA: Parts = ("input", "data")
_TARGET = f"{OPT_ML}/input/data"
_FILE_SYSTEMS = "file-systems"
SMALL_BYTES = 8 << 20
_SMALL_FILES = 100
"""Up to both limits a copy takes less time than another mount of the container."""
# overlayfs separates its options and folders by them, or gives them a meaning.
_SEPARATORS = frozenset(',:\\"')


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where one channel of one host goes."""

    channel: ChannelSource
    host_dir: Path
    """What becomes the host's /opt/ml."""

    refused: str
    """Why the engine cannot show layers; empty if it can."""

    say: Callable[[str], None]
    """Receives lines for the job's log."""

    show: Callable[[str], object]
    """Receives a line from time to time that says how far the copy has come."""

    cancelled: threading.Event

    @property
    def target(self) -> str:
        return self.channel.local_path or f"{_TARGET}/{self.channel.name}"

    @property
    def parts(self) -> Parts:
        """Its copy, below the host's folder."""
        return tuple(self.target.removeprefix(f"{OPT_ML}/").split("/"))

    @property
    def layer_parts(self) -> Parts:
        """Its layers, below the job's folder, where the host itself does not see them."""
        return (_layers_name(self.host_dir), self.channel.name)

    @property
    def job_dir(self) -> Path:
        return self.host_dir.parent

    def is_copied(self, sizes: Sequence[int]) -> bool:
        """Whether the files are copied; if only because layers are refused, a line says so."""
        if sum(sizes) <= SMALL_BYTES and len(sizes) <= _SMALL_FILES:
            return True
        if self.refused:
            size = show_size(sum(sizes))
            self.say(f"channel {self.channel.name!r} ({size}) is copied: {self.refused}")
        return bool(self.refused)

    def watch(self, size_bytes: int) -> Progress:
        """Counts what is copied."""
        what = f"{self.channel.name} of {self.host_dir.name}"
        return Progress(what, size_bytes, show=self.show, every_seconds=SHOWN_SECONDS)

    def mount_copy(self) -> Mount | None:
        """A copy is in the host's folder already; only FastFile needs a mount."""
        if self.channel.mode != "FastFile":
            return None
        copy = self.host_dir.joinpath(*self.parts)
        return Mount(source=copy, target=self.target, read_only=True)

    def mount_layers(self, *layers: Path) -> Mount:
        """What the job sees; what it changes stays in a folder of its own."""
        if self.channel.mode == "FastFile":
            # Without a folder for changes an overlay is read-only, as FastFile is.
            return Mount(source=layers[0], layers=layers[1:], target=self.target, read_only=True)
        changes = (*self.layer_parts, "changes")
        mount = Mount(source=self.job_dir.joinpath(*changes), layers=layers, target=self.target)
        make_folder(self.job_dir, changes)
        # overlayfs wants an empty folder here, on the file system of the one that takes the
        # changes.
        mount.work_dir.mkdir()
        return mount

    def require_continuing(self) -> None:
        if self.cancelled.is_set():
            raise TransferCancelled(f"the download of channel {self.channel.name!r} was cancelled")


def prepare_channels(
    request: TrainingRequest,
    host: str,
    storage: Storage,
    host_dir: Path,
    *,
    cancelled: threading.Event,
    show: Callable[[str], object] = show_nothing,
    file_systems: Path | None = None,
    layers_refused: str = "",
    say: Callable[[str], None] = show_nothing,
) -> tuple[Mount, ...]:
    """Bring the channels of one host; done again, it starts over and gives the same.

    Args:
        request: the job.
        host: which of its hosts.
        storage: where the objects are.
        host_dir: what becomes the host's /opt/ml; small channels are copied into it.
        cancelled: ends it early.
        show: gets a line from time to time that says how far a channel has come.
        file_systems: the folder with one folder per FileSystemId (default: that of the root, with
            `host_dir` being `<root>/jobs/<job>/<host>`).
        layers_refused: why the engine cannot mount layers: then everything is copied.
        say: receives lines for the job's log.

    Returns:
        The mounts in addition to /opt/ml itself.

    Raises:
        DownloadFailed: an object is not there or cannot be stored; the disk is full.
        TransferCancelled: the event was set.
    """
    systems = file_systems or host_dir.parents[2] / _FILE_SYSTEMS
    with storing("the channels", host_dir):
        make_fresh_folder(host_dir.parent, (_layers_name(host_dir),))
    mounts: list[Mount | None] = []
    for channel in request.channels:
        if host not in list_hosts(request, channel) or channel.mode == "Pipe":
            continue
        place = _Place(
            channel=channel,
            host_dir=host_dir,
            refused=layers_refused
            or _find_separators(host_dir)
            or _find_inner_folder(request, channel),
            say=say,
            show=show,
            cancelled=cancelled,
        )
        with storing(f"channel {channel.name!r}", host_dir):
            make_fresh_folder(host_dir, place.parts)
            if channel.file_system:
                mounts.append(_mount(channel.file_system, systems, place.target))
            elif folder := channel.folder:
                mounts.append(_bring_folder(folder, place, request, host))
            else:
                mounts.append(_bring_objects(place, request, host, storage))
    return tuple(mount for mount in mounts if mount)


def _bring_folder(
    folder: Path, place: _Place, request: TrainingRequest, host: str
) -> Mount | None:
    content = read_folder(folder)
    files = take_share(content.files, request, place.channel, host)
    share = {file.parts for file in files}
    for text in content.explain():
        place.say(f"channel {place.channel.name!r}: {text}")
    if place.is_copied([file.size_bytes for file in files]):
        _copy_folder(content, share, place)
        mount = place.mount_copy()
    else:
        mount = _layer_folder(content, share, place)
    _write_manifest(place, [*(file.parts for file in files), *content.links])
    return mount


def _layer_folder(content: FolderContent, share: set[Parts], place: _Place) -> Mount:
    patch = (*place.layer_parts, "patch")
    layers = [_name_plainly(content.folder.resolve(), place)]
    if make_patch(content, share, place.job_dir, patch):
        layers.insert(0, place.job_dir.joinpath(*patch))
    place.require_continuing()
    # For find_changed_channels() once the job is over.
    write_journal(_journal(place.host_dir, place.channel), content.prints)
    return place.mount_layers(*layers)


def _find_separators(path: Path) -> str:
    """Why a path cannot be one of overlayfs's options; empty if it can."""
    found = sorted(_SEPARATORS & set(str(path)))
    return f"its path on this machine has {' '.join(found)}" if found else ""


def _find_inner_folder(request: TrainingRequest, channel: ChannelSource) -> str:
    """Why an input cannot be a mount: it would hide what is copied or written into it."""
    has_one = isinstance(request, ProcessingRequest) and request.has_inside(channel)
    return "another folder of the job is in it" if has_one else ""


def _name_plainly(folder: Path, place: _Place) -> Path:
    """A path to the folder that can be one of overlayfs's options."""
    if not _find_separators(folder):
        return folder
    make_folder(place.job_dir, place.layer_parts)
    link = place.job_dir.joinpath(*place.layer_parts, "folder")
    link.symlink_to(folder)
    return link


def _copy_folder(content: FolderContent, share: set[Parts], place: _Place) -> None:
    try:
        progress = place.watch(content.size_bytes)
        copy_folder(content, share, place.host_dir, place.parts, on_bytes=progress.add)
    except FileNotFoundError as error:
        raise DownloadFailed(
            f"channel {place.channel.name!r}: {error.filename} vanished while it was read",
            fix=f"wait until nothing changes {content.folder}, then submit the job again",
        ) from error
    place.require_continuing()
    if changed := content.find_changes():
        place.say(explain_changes(place.channel.name, content.folder, changed))


def find_changed_channels(request: TrainingRequest, host_dir: Path) -> Iterator[str]:
    """One line for each channel whose folder changed since the host started."""
    for channel in request.channels:
        before = read_journal(_journal(host_dir, channel))
        if before and (folder := channel.folder):
            try:
                changed = name_changes(before, read_folder(folder).prints)
            except DownloadFailed:
                changed = ["all"]
            if changed:
                yield explain_changes(channel.name, folder, changed)


def _journal(host_dir: Path, channel: ChannelSource) -> Path:
    return host_dir.parent / _layers_name(host_dir) / f"{channel.name}.journal"


def _layers_name(host_dir: Path) -> str:
    return f"{host_dir.name}-layers"


def _bring_objects(
    place: _Place, request: TrainingRequest, host: str, storage: Storage
) -> Mount | None:
    channel = place.channel
    share = take_share(list_objects(channel, storage), request, channel, host)
    files = {found.uri: storage.find_file(found.uri) for found in share}
    is_copied = place.is_copied([found.size_bytes for found in share])
    progress = place.watch(sum(found.size_bytes for found in share))
    base, above = (
        (place.host_dir, place.parts)
        if is_copied
        else (place.job_dir, (*place.layer_parts, "objects"))
    )
    make_folder(base, above)

    def bring(found: ChannelObject) -> None:
        place.require_continuing()
        file, parts = files[found.uri], above + found.parts
        with storing(found.uri, base):
            if file and not is_copied and _link(file, base, parts):
                return
            if file:
                copy_file(file, base, parts, on_bytes=progress.add)
                return
            with write_file(base, parts) as target:
                storage.download(
                    found.uri, target, cancelled=place.cancelled, on_bytes=progress.add
                )

    run_all(share, bring)
    _write_manifest(place, [found.parts for found in share])
    return place.mount_copy() if is_copied else place.mount_layers(base.joinpath(*above))


def _link(file: Path, base: Path, parts: Parts) -> bool:
    """A second name for an object's file: it stays as it is, whatever happens in S3 meanwhile."""
    make_folder(base, parts[:-1])
    try:
        os.link(file, base.joinpath(*parts))
    except OSError:  # another file system, or the object is just being replaced
        return False
    return True


def _write_manifest(place: _Place, names: Sequence[Parts]) -> None:
    if place.channel.mode != "File" or place.channel.local_path:
        return
    # Seen on the service; its form is published nowhere: the paths that were downloaded.
    lines = b"".join(os.fsencode("/".join(parts)) + b"\n" for parts in names)
    with write_file(place.host_dir, (*DATA, f"{place.channel.name}-manifest")) as file:
        file.write(lines)


def _mount(system: FileSystem, systems: Path, target: str) -> Mount:
    parts = parse_parts("/".join([system.id, *filter(None, system.directory.split("/"))]))
    source = systems.joinpath(*parts) if parts else None
    if source is None or not source.is_dir():
        raise DownloadFailed(
            f"the file system {system.id!r} with its folder {system.directory!r} is not on this"
            f" machine: {source or systems} is not a folder",
            fix=f"make a folder or a link in its place: ln -s YOUR_DATA {systems / system.id}",
        )
    return Mount(source=source.resolve(), target=target, read_only=system.access == "ro")


Item = TypeVar("Item")


def list_hosts(request: TrainingRequest, channel: ChannelSource) -> tuple[str, ...]:
    """The hosts that get this channel at all: those of its instance groups."""
    if not channel.instance_groups:
        return request.hosts
    return tuple(
        host for host in request.hosts if request.group_of(host).name in channel.instance_groups
    )


def take_share(
    items: Sequence[Item],
    request: TrainingRequest,
    channel: ChannelSource,
    host: str,
    *,
    epoch: int = 0,
) -> list[Item]:
    """What one host gets of all objects (over all pages) of a channel, in its order.

    With a seed the order changes from epoch to epoch, the same way on every host; so shards do,
    too: what went to one host goes to another in the next epoch.
    """
    ordered = list(items)
    if channel.shuffle_seed is not None:
        # Not for secrets: every host must come to the same order.
        random.Random(f"{channel.shuffle_seed}/{epoch}").shuffle(ordered)  # noqa: S311
    if channel.distribution == "FullyReplicated":
        return ordered
    hosts = list_hosts(request, channel)
    # Every n-th: the shards differ by one object at most.
    return ordered[hosts.index(host) :: len(hosts)]
