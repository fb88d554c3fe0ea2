"""The machines of one job."""

from __future__ import annotations

import pytest

from stoker.contract.cluster import read_cluster
from stoker.contract.paths import Paths
from stoker.errors import ConfigInvalid


def read(opt_ml, content):
    opt_ml.config("resourceconfig", content)
    return read_cluster(Paths(root=str(opt_ml.root)))


def group(name, *hosts, kind="ml.g5.xlarge"):
    return {"instance_group_name": name, "instance_type": kind, "hosts": list(hosts)}


def test_no_file_means_one_host(opt_ml):
    cluster = read_cluster(Paths(root=str(opt_ml.root)))
    assert cluster.hosts == ("algo-1",)
    assert cluster.current_host == "algo-1"
    assert cluster.instance_type == "local"


def test_the_minimal_form_of_local_mode_gets_the_documented_defaults(opt_ml):
    cluster = read(opt_ml, {"current_host": "algo-1-x", "hosts": ["algo-1-x"]})
    assert cluster.network_interface == "eth0"
    assert cluster.group_name == "homogeneousCluster"
    assert cluster.groups == ()
    assert cluster.group_hosts == ()
    assert cluster.hosts_of(("homogeneousCluster",)) == ("algo-1-x",)


def test_hosts_keep_the_order_of_the_file(opt_ml):
    hosts = ["algo-1", "algo-10", "algo-2"]
    assert read(opt_ml, {"current_host": "algo-2", "hosts": hosts}).hosts == tuple(hosts)


def test_groups_make_a_heterogeneous_cluster(opt_ml):
    cluster = read(
        opt_ml,
        {
            "current_host": "b",
            "hosts": ["a", "b", "c"],
            "current_group_name": "train",
            "current_instance_type": "ml.g5.xlarge",
            "instance_groups": [group("data", "a"), group("train", "b", "c")],
        },
    )
    assert cluster.is_heterogeneous
    assert cluster.group_hosts == ("b", "c")
    assert cluster.hosts_of(("train",)) == ("b", "c")
    assert cluster.hosts_of(("data", "train")) == ("a", "b", "c")
    assert cluster.hosts_of(("absent",)) == ()


def test_a_current_host_that_is_none_of_the_hosts_is_refused(opt_ml):
    with pytest.raises(ConfigInvalid, match=r"current_host is 'algo-9', but hosts are algo-1, a"):
        read(opt_ml, {"current_host": "algo-9", "hosts": ["algo-1", "algo-2"]})


@pytest.mark.parametrize("hosts", [None, [], "algo-1", {"a": 1}, [1], [""], ["a", None]])
def test_hosts_that_are_not_a_list_of_names_are_refused(opt_ml, hosts):
    with pytest.raises(ConfigInvalid, match="list of host names"):
        read(opt_ml, {"current_host": "algo-1", "hosts": hosts})


@pytest.mark.parametrize(
    "groups", ["x", {"a": 1}, [1], [{}], [{"instance_group_name": 1}], [group("g")]]
)
def test_groups_of_another_shape_are_refused(opt_ml, groups):
    with pytest.raises(ConfigInvalid) as caught:
        read(opt_ml, {"current_host": "a", "hosts": ["a"], "instance_groups": groups})
    assert caught.value.fix


@pytest.mark.parametrize(
    "key", ["current_host", "network_interface_name", "current_instance_type"]
)
def test_a_nul_in_a_text_that_becomes_a_variable_is_refused(opt_ml, key):
    raw = {"current_host": "a", "hosts": ["a"], key: "x\0y"}
    raw["hosts"] = [raw["current_host"]]
    with pytest.raises(ConfigInvalid):
        read(opt_ml, raw)


def test_topology_is_kept(opt_ml):
    topology = [{"hostName": "a", "capacityUnitId": "c"}]
    cluster = read(opt_ml, {"current_host": "a", "hosts": ["a"], "topology": topology})
    assert list(cluster.topology) == topology
