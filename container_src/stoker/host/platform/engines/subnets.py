"""Addresses for the hosts of a job: each job has a block of its own, each host a fixed address.

Fixed, because Docker's name server forgets a container that has ended, while its peers may still
look for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network

POOL = IPv4Network("198.18.0.0/15")
"""Set aside for benchmarks of network devices (RFC 2544): no real network uses it."""

_BLOCK_PREFIX = 24
_RESERVED = 2  # the network's own address and the gateway's, in front of the hosts
_BROADCAST = 1


def free_subnets(host_count: int, *, taken: Iterable[IPv4Network]) -> Iterator[IPv4Network]:
    """Blocks of the pool with room for the hosts that overlap with none of those taken."""
    used = tuple(taken)
    needed = host_count + _RESERVED + _BROADCAST
    prefix = min(_BLOCK_PREFIX, 32 - (needed - 1).bit_length())
    if prefix < POOL.prefixlen:
        return
    for block in POOL.subnets(new_prefix=prefix):
        if not any(block.overlaps(other) for other in used):
            yield block


def assign_addresses(hosts: Sequence[str], subnet: IPv4Network) -> Mapping[str, str]:
    """The same host gets the same address, in the order of the hosts."""
    return {host: str(subnet[_RESERVED + i]) for i, host in enumerate(hosts)}
