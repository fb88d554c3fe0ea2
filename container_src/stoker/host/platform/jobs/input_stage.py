"""What every host needs before it starts: channels, config files, checkpoints."""

from __future__ import annotations

import threading
from typing import Any

from stoker.host.platform.around.config_files import write_config_files
from stoker.host.platform.around.inputs import prepare_channels
from stoker.host.platform.jobs.end_markers import remove_end_markers
from stoker.host.platform.jobs.folders import list_kept_folders, make_mounts, make_sync
from stoker.host.platform.jobs.surroundings import Surroundings
from stoker.host.platform.request import TrainingRequest

_FOLDERS = ("input/config", "input/data", "model", "output/data", "code")


def prepare_hosts(
    around: Surroundings, request: TrainingRequest, cancelled: threading.Event
) -> dict[str, list[list[Any]]]:
    """Fill the folders of all hosts; done again, it gives the same.

    Returns:
        Host → [source, target, read_only] of every mount beside /opt/ml, as the store keeps them.

    Raises:
        DownloadFailed: something is not there, or the disk is full.
        TransferCancelled: the event was set.
    """
    network = around.engine.make_network(request.name, request.hosts, isolated=request.isolated)
    mounts = {}
    remove_end_markers(request, around.storage)
    for host in request.hosts:
        folder = around.root.host_dir(request.name, host)
        for part in _FOLDERS:
            (folder / part).mkdir(parents=True, exist_ok=True)
        found = prepare_channels(request, host, around.storage, folder, cancelled=cancelled)
        write_config_files(request, host, folder, addresses=network.addresses)
        for kept in list_kept_folders(request):
            if kept.checkpoints:
                sync = make_sync(around.root, request, host, kept, around.storage)
                sync.restore(cancelled=cancelled)
        mounts[host] = [
            [str(mount.source), mount.target, mount.read_only]
            for mount in (*found, *make_mounts(around.root, request, host))
        ]
    return mounts
