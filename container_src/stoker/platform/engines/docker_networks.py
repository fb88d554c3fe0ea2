"""Networks of the Docker engine: one per job of several hosts, each host a fixed address."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, ip_network
from itertools import islice
from typing import Any

from stoker.machine.docker_client import DockerCli
from stoker.platform.engines.container import JOB_LABEL, ROOT_LABEL
from stoker.platform.engines.engine import EngineFailed, Network

_MOST_TRIES = 20  # a subnet that looks free may be another program's
_EMPTY_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
_NO_MORE = ("not found", "no such network")  # as clients of several ages say it
_IPAM = "{{json .IPAM.Config}}"


class DockerNetworks:
    """Makes, finds and removes the networks of one root."""

    def __init__(self, cli: DockerCli, root_id: str) -> None:
        self._cli = cli
        self._id = root_id
        self._lock = threading.Lock()

    def make(self, job: str, hosts: Sequence[str], *, internal: bool) -> Network:
        """The network of a job; found if it was made before.

        Raises:
            EngineFailed: no block of addresses is free, or the engine refused otherwise.
        """
        with self._lock:  # Docker itself would make two networks of one name
            found = self._subnets_of(self._name(job))
            subnet = found[0] if found else self._create(job, len(hosts), internal=internal)
        return Network(name=self._name(job), addresses=assign_addresses(hosts, subnet))

    def remove(self, job: str) -> None:
        """Removes the network of a job once its containers have left; none is not an error."""
        name, deadline = self._name(job), time.monotonic() + _EMPTY_SECONDS
        while True:
            answer = self._cli.call("DELETE", f"/networks/{name}")
            if answer.code == 0 or any(words in answer.tail.lower() for words in _NO_MORE):
                return
            if time.monotonic() > deadline:
                raise EngineFailed(
                    f"{name} cannot be removed: {answer.tail}", fix=f"docker network rm {name}"
                )
            time.sleep(_PAUSE_SECONDS)

    def jobs(self) -> list[str]:
        """The jobs that have a network."""
        answer = self._cli.ask(
            *("network", "ls", "--filter", f"label={ROOT_LABEL}={self._id}"),
            *("--format", f'{{{{.Label "{JOB_LABEL}"}}}}'),
        )
        return answer.tail.split() if answer.code == 0 else []

    def gateway(self) -> str:
        """This machine's address on Docker's own bridge.

        Raises:
            EngineFailed: there is no such bridge, or it is not on this machine.
        """
        configs = self._configs("bridge")
        # Engine 20.10 names no gateway; it then is the first address of the bridge.
        addresses = [c.get("Gateway") or str(IPv4Network(c["Subnet"])[1]) for c in configs]
        for address in addresses:
            if _is_ours(address):
                return address
        raise EngineFailed(
            f"containers cannot reach this machine: Docker's bridge is {addresses or 'missing'}",
            fix="use an engine on this machine, with its default bridge; or --engine process",
        )

    def _create(self, job: str, host_count: int, *, internal: bool) -> IPv4Network:
        refused = "all of them are taken"
        free = free_subnets(host_count, taken=self._taken())
        for subnet in islice(free, _MOST_TRIES):
            answer = self._cli.ask(
                *("network", "create", "--driver", "bridge", "--subnet", str(subnet)),
                *("--label", f"{ROOT_LABEL}={self._id}", "--label", f"{JOB_LABEL}={job}"),
                *(("--internal",) if internal else ()),
                self._name(job),
            )
            if answer.code == 0:
                return subnet
            refused = answer.tail
            if "overlap" not in refused.lower():  # else another process has it, or the machine's
                break  # own network uses it: the next block may do
        raise EngineFailed(
            f"no network for the {host_count} hosts of {job} out of {POOL}: {refused}",
            fix="docker network prune removes unused networks",
        )

    def _name(self, job: str) -> str:
        return f"stoker-{job}-{self._id}"

    def _taken(self) -> list[IPv4Network]:
        ids = self._cli.ask("network", "ls", "--quiet").tail.split()
        return self._subnets_of(*ids)

    def _subnets_of(self, *networks: str) -> list[IPv4Network]:
        subnets = [ip_network(c["Subnet"], strict=False) for c in self._configs(*networks)]
        return [subnet for subnet in subnets if isinstance(subnet, IPv4Network)]

    def _configs(self, *networks: str) -> list[dict[str, Any]]:
        if not networks:
            return []
        answer = self._cli.ask("network", "inspect", "--format", _IPAM, *networks)
        if answer.code != 0:  # one of them was removed meanwhile
            return [c for n in networks if len(networks) > 1 for c in self._configs(n)]
        lists = [json.loads(line) or [] for line in answer.tail.splitlines()]
        return [config for configs in lists for config in configs if config.get("Subnet")]


def _is_ours(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


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
