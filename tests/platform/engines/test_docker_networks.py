"""Blocks of addresses for the networks of jobs."""

from __future__ import annotations

from ipaddress import IPv4Network

from stoker.platform.engines.docker_networks import POOL, assign_addresses, free_subnets


def test_a_block_that_is_taken_even_in_part_is_left_out():
    taken = [IPv4Network("198.18.0.0/25"), IPv4Network("198.18.2.0/23")]
    free = free_subnets(2, taken=taken)
    assert [str(next(free)) for _ in range(2)] == ["198.18.1.0/24", "198.18.4.0/24"]


def test_the_pool_ends_when_all_is_taken():
    assert not list(free_subnets(2, taken=[POOL]))


def test_many_hosts_get_a_larger_block_and_all_of_them_an_address():
    hosts = [f"algo-{n}" for n in range(1, 1001)]
    subnet = next(free_subnets(len(hosts), taken=[]))
    addresses = assign_addresses(hosts, subnet)
    assert len(set(addresses.values())) == len(hosts)
    unusable = {str(subnet[0]), str(subnet[1]), str(subnet[-1])}
    assert not unusable & set(addresses.values())


def test_more_hosts_than_addresses_get_no_block():
    assert not list(free_subnets(POOL.num_addresses, taken=[]))
