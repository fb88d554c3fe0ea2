"""The channels of one host: copied from S3, or mounted from a folder that replaces one."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from stoker.platform.data.confined import Parts, make_fresh_folder, parse_parts, write_file
from stoker.platform.data.failures import DownloadFailed, TransferCancelled, storing
from stoker.platform.data.objects import ChannelObject, list_objects, run_all
from stoker.platform.data.storage import Storage
from stoker.platform.model.mount import Mount
from stoker.platform.model.request import ChannelSource, FileSystem, TrainingRequest

DATA: Parts = ("input", "data")
_TARGET = "/opt/ml/input/data"
_FILE_SYSTEMS = "file-systems"


def prepare_channels(
    request: TrainingRequest,
    host: str,
    storage: Storage,
    host_dir: Path,
    *,
    cancelled: threading.Event,
    file_systems: Path | None = None,
) -> tuple[Mount, ...]:
    """Bring the channels of one host; done again, it begins anew and gives the same.

    Args:
        request: the job.
        host: which of its hosts.
        storage: where the objects are.
        host_dir: what becomes the host's /opt/ml; File and FastFile are copied into it.
        cancelled: ends it early.
        file_systems: the folder with one folder per FileSystemId (default: that of the root, with
            `host_dir` being `<root>/jobs/<job>/<host>`).

    Returns:
        The mounts beside /opt/ml itself: FastFile (read-only) and file systems.

    Raises:
        DownloadFailed: an object is not there or cannot be stored; the disk is full.
        TransferCancelled: the event was set.
    """
    systems = file_systems or host_dir.parents[2] / _FILE_SYSTEMS
    mounts = []
    for channel in request.channels:
        if host not in list_hosts(request, channel) or channel.mode == "Pipe":
            continue
        target = f"{_TARGET}/{channel.name}"
        with storing(f"channel {channel.name!r}", host_dir):
            make_fresh_folder(host_dir, (*DATA, channel.name))
        if channel.file_system:
            mounts.append(_mount(channel.file_system, systems, target))
            continue
        _download(request, channel, host, storage, host_dir, cancelled)
        if channel.mode == "FastFile":
            copy = host_dir.joinpath(*DATA, channel.name)
            mounts.append(Mount(source=copy, target=target, read_only=True))
    return tuple(mounts)


def _download(
    request: TrainingRequest,
    channel: ChannelSource,
    host: str,
    storage: Storage,
    host_dir: Path,
    cancelled: threading.Event,
) -> None:
    share = take_share(list_objects(channel, storage), request, channel, host)

    def copy(found: ChannelObject) -> None:
        if cancelled.is_set():
            raise TransferCancelled(f"the download of channel {channel.name!r} was cancelled")
        place = (*DATA, channel.name, *found.parts)
        with storing(found.uri, host_dir), write_file(host_dir, place) as file:
            storage.download(found.uri, file, cancelled=cancelled)

    run_all(share, copy)
    if channel.mode == "File":
        # Seen on the service; its form is published nowhere: the paths that were downloaded.
        names = "".join(f"{'/'.join(found.parts)}\n" for found in share)
        with (
            storing(f"the list of channel {channel.name!r}", host_dir),
            write_file(host_dir, (*DATA, f"{channel.name}-manifest")) as file,
        ):
            file.write(names.encode())


def _mount(system: FileSystem, systems: Path, target: str) -> Mount:
    parts = parse_parts("/".join([system.id, *filter(None, system.directory.split("/"))]))
    source = systems.joinpath(*parts) if parts else None
    if source is None or not source.is_dir():
        raise DownloadFailed(
            f"the file system {system.id!r} with its folder {system.directory!r} is not on this"
            f" machine: {source or systems} is not a folder",
            fix=f"make a folder or a link that stands in for it: ln -s YOUR_DATA"
            f" {systems / system.id}",
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
    return ordered[hosts.index(host) :: len(hosts)]
