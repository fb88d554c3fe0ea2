"""Which part of a channel's objects a host gets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from stoker.host.platform.request import ChannelSource, TrainingRequest

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
