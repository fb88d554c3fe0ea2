"""The machines of one job, as resourceconfig.json lists them."""

from __future__ import annotations

from stoker.contract.files import read_object
from stoker.contract.record import Record
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from stoker.contract.paths import Paths

# What SageMaker calls the only group of a job that names none.
DEFAULT_GROUP = "homogeneousCluster"
DEFAULT_HOST = "algo-1"
# The stock launchers' --master_port.
MASTER_PORT = 7777


class InstanceGroup(Record):
    """Hosts of one instance type."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]


class Cluster(Record):
    """All hosts of the job; this one is `current_host`."""

    hosts: tuple[str, ...]
    """In the order of the file: sorted as text, so `algo-10` comes before `algo-2`."""
    current_host: str
    network_interface: str = "eth0"
    """As the platform says it; local mode names one that does not exist."""
    instance_type: str = "local"
    group_name: str = DEFAULT_GROUP
    groups: tuple[InstanceGroup, ...] = ()
    """Empty in the minimal form of local mode; more than one makes a heterogeneous cluster."""
    # Of UltraServers (GB200) only: a list of objects with hostName and capacityUnitId.
    topology: tuple[Any, ...] = ()
    raw: Mapping[str, Any] = {}
    """resourceconfig.json as it is, for `SM_RESOURCE_CONFIG`."""

    @property
    def is_heterogeneous(self) -> bool:
        return len(self.groups) > 1

    @property
    def group_hosts(self) -> tuple[str, ...]:
        """Hosts of this host's own group; empty when the platform named no groups."""
        return next((g.hosts for g in self.groups if g.name == self.group_name), ())

    def hosts_of(self, group_names: tuple[str, ...]) -> tuple[str, ...]:
        """Hosts of the named groups; all hosts where the platform named no groups."""
        # The minimal form of local mode and of older guides: the one group is all there is.
        if not self.groups:
            return self.hosts
        return tuple(host for g in self.groups if g.name in group_names for host in g.hosts)


def read_cluster(paths: Paths) -> Cluster:
    """Reads resourceconfig.json; no file means one host, as in a plain `docker run`.

    Raises:
        ConfigInvalid: the file contradicts itself, or lacks what every form of it has.
    """
    file = paths.config_file("resourceconfig.json")
    raw = read_object(file)
    # Not "no hosts": local mode, tests and a plain `docker run` all have at least this one.
    if not raw:
        return Cluster(hosts=(DEFAULT_HOST,), current_host=DEFAULT_HOST)
    hosts = _hosts(raw.get("hosts"), file)
    current = raw.get("current_host")
    if current not in hosts:
        raise ConfigInvalid(
            f"{file}: current_host is {current!r:.80}, but hosts are {', '.join(hosts)}",
            fix="current_host must be one of hosts",
        )
    topology = raw.get("topology")
    groups = tuple(_group(entry, file) for entry in _list(raw, "instance_groups", file))
    # For a file that lists groups and does not say which of them is this host's.
    own_group = next((group.name for group in groups if current in group.hosts), DEFAULT_GROUP)
    return Cluster(
        hosts=hosts,
        current_host=current,
        network_interface=_text(raw, "network_interface_name", "eth0"),
        instance_type=_text(raw, "current_instance_type", "local"),
        group_name=_text(raw, "current_group_name", own_group),
        groups=groups,
        topology=tuple(topology) if isinstance(topology, list) else (),
        raw=raw,
    )


def _group(entry: object, file: str) -> InstanceGroup:
    if not isinstance(entry, dict) or not isinstance(entry.get("instance_group_name"), str):
        raise ConfigInvalid(
            f"{file}: {entry!r:.80} is not an instance group",
            fix="each needs instance_group_name, instance_type and hosts",
        )
    return InstanceGroup(
        name=entry["instance_group_name"],
        instance_type=_text(entry, "instance_type", "local"),
        hosts=_hosts(entry.get("hosts"), file),
    )


def _hosts(value: object, file: str) -> tuple[str, ...]:
    if isinstance(value, list) and value and all(isinstance(h, str) and h for h in value):
        return tuple(_without_nul(host) for host in value)
    raise ConfigInvalid(
        f"{file}: hosts is {value!r:.80}, but a list of host names was expected",
        fix='write "hosts": ["algo-1"]',
    )


def _list(raw: dict[str, Any], key: str, file: str) -> list[object]:
    value = raw.get(key) or []
    if isinstance(value, list):
        return value
    raise ConfigInvalid(
        f"{file}: {key} is {value!r:.80}, but a list was expected", fix="write a list"
    )


def _text(raw: dict[str, Any], key: str, default: str) -> str:
    value = raw.get(key)
    return default if value is None else _without_nul(str(value))


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ConfigInvalid(
            f"resourceconfig.json: {text!r:.80} holds a NUL character",
            fix="remove it: no environment can carry one",
        )
    return text
