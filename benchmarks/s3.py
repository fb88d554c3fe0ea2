"""The platform's S3 server compared with moto's, and with a plain copy of the file.

Usage: python benchmarks/s3.py [--rounds 3] [--megabytes 200] [--json]

One client (boto3 with its defaults) asks both servers in turn. What must not depend on the size
of an object is measured at 1 GB, against a limit in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import boto3
from botocore.client import BaseClient
from botocore.config import Config

from figures import CannotMeasure, Figure, run, say
from stoker.machine.environment import read_environment
from venvs import make_moto_venv

BUCKET = "benchmark"
SMALL = 1000
SMALL_TURN = 50
"""Objects until it is the other server's turn."""
MANY = 100_000
LARGE_BYTES = 1 << 30
MOST_MILLISECONDS = 5.0
MOST_LIST_SECONDS = 2.0
_START_SECONDS = 60


def main() -> int:
    parser = argparse.ArgumentParser(description="S3: the platform's server and moto's.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=200)
    return run(measure, parser, peer="moto or limit")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Transfers and small objects against moto; what an index answers against a limit."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as ending:
        folder = Path(name)
        ours = ending.enter_context(_running_ours(folder / "s3"))
        moto = ending.enter_context(_running_moto())
        clients = {"ours": ours, "moto": moto}
        for client in clients.values():
            client.create_bucket(Bucket=BUCKET)
        return [
            *_compare_transfers(clients, folder, args),
            _compare_small(clients),
            *_measure_large(ours, folder, args.rounds),
            _measure_list(ours, folder),
        ]


def _compare_transfers(
    clients: Mapping[str, BaseClient], folder: Path, args: argparse.Namespace
) -> list[Figure]:
    file, down = folder / "file", folder / "down"
    file.write_bytes(os.urandom(1 << 20) * args.megabytes)
    ups: dict[str, list[float]] = {name: [] for name in (*clients, "cp")}
    downs: dict[str, list[float]] = {name: [] for name in clients}
    for number in range(args.rounds):
        say(f"{args.megabytes} MB up and down, round {number + 1} …")
        for name, client in clients.items():
            ups[name].append(_time(lambda c=client: c.upload_file(str(file), BUCKET, "file")))
            downs[name].append(_time(lambda c=client: c.download_file(BUCKET, "file", str(down))))
        ups["cp"].append(_time(lambda: shutil.copyfile(file, down)))
    for client in clients.values():
        client.delete_object(Bucket=BUCKET, Key="file")
    cp = {"cp": median(ups["cp"])}
    size = f"{args.megabytes} MB"
    return [
        _figure(f"download_file of {size}", downs, goal=0.5, others=cp),
        _figure(f"upload_file of {size}", ups, goal=1.0, others=cp),
    ]


def _compare_small(clients: Mapping[str, BaseClient]) -> Figure:
    times: dict[str, list[float]] = {name: [] for name in clients}
    say(f"{SMALL} small objects …")
    for first in range(0, SMALL, SMALL_TURN):
        numbers = range(first, first + SMALL_TURN)
        for name, client in clients.items():
            times[name].append(_time(lambda c=client, n=numbers: _put_and_get(c, n)))
    total = {name: [sum(each)] for name, each in times.items()}
    return _figure(f"{SMALL} small puts and gets", total, goal=0.6)


def _put_and_get(client: BaseClient, numbers: Sequence[int]) -> None:
    for number in numbers:
        client.put_object(Bucket=BUCKET, Key=f"small/{number}", Body=b"x" * 1000)
    for number in numbers:
        with client.get_object(Bucket=BUCKET, Key=f"small/{number}")["Body"] as body:
            body.read()


def _measure_large(client: BaseClient, folder: Path, rounds: int) -> Iterator[Figure]:
    say("an object of 1 GB …")
    with (folder / "s3" / BUCKET / "large").open("wb") as file:
        file.truncate(LARGE_BYTES)
    client.head_object(Bucket=BUCKET, Key="large")  # a file put there by hand is hashed once
    place = {"Bucket": BUCKET, "Key": "large"}

    def read_range() -> None:
        with client.get_object(**place, Range="bytes=500000000-500001023")["Body"] as body:
            body.read()

    calls: Mapping[str, Callable[[], object]] = {
        "HEAD of 1 GB": lambda: client.head_object(**place),
        "LIST with 1 GB in it": lambda: client.list_objects_v2(Bucket=BUCKET, Prefix="large"),
        "1 KB of 1 GB": read_range,
    }
    for name, call in calls.items():
        taken = median(_time(call) * 1000 for _ in range(10 * rounds))
        yield Figure(name=name, ours=taken, peer=MOST_MILLISECONDS, unit="ms", goal=1.0)


def _measure_list(client: BaseClient, folder: Path) -> Figure:
    say(f"{MANY} objects …")
    many = folder / "s3" / BUCKET / "many"
    many.mkdir()
    for number in range(MANY):
        (many / f"{number:06d}").touch()

    def list_by_boto3() -> None:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="many/")
        if (count := sum(len(page["Contents"]) for page in pages)) != MANY:
            raise CannotMeasure(f"{count} objects were listed, not {MANY}")

    _list_plainly(client)  # the index learns the files
    taken = median(_time(lambda: _list_plainly(client)) for _ in range(3))
    return Figure(
        name=f"list of {MANY} keys",
        ours=taken,
        peer=MOST_LIST_SECONDS,
        unit="s",
        goal=1.0,
        others={"boto3, which reads XML for most of it": _time(list_by_boto3)},
    )


def _list_plainly(client: BaseClient) -> None:
    """All pages by plain HTTP: what the server takes, without a client that reads XML."""
    count, place = 0, {"Bucket": BUCKET, "Prefix": "many/"}
    while True:
        address = client.generate_presigned_url("list_objects_v2", Params=place)
        with urllib.request.urlopen(address) as answer:
            page = answer.read()
        count += page.count(b"<Key>")
        more = re.search(b"<NextContinuationToken>(.+?)<", page)
        if more is None:
            break
        place["ContinuationToken"] = more[1].decode()
    if count != MANY:
        raise CannotMeasure(f"{count} objects were listed, not {MANY}")


def _figure(
    name: str,
    times: Mapping[str, list[float]],
    *,
    goal: float,
    others: Mapping[str, float] | None = None,
) -> Figure:
    return Figure(
        name=name,
        ours=median(times["ours"]),
        peer=median(times["moto"]),
        unit="s",
        goal=goal,
        others=others or {},
    )


def _time(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


@contextmanager
def _running_ours(folder: Path) -> Iterator[BaseClient]:
    folder.mkdir()
    argv = [sys.executable, "-m", "stoker.platform.s3", str(folder), "127.0.0.1:0"]
    variables = {**read_environment(), "STOKER_S3_KEYS": "key,secret"}
    with subprocess.Popen(argv, env=variables, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            address = re.search(r"http://[\d.:]+", server.stdout.readline())
            if address is None:
                raise CannotMeasure("the platform's S3 server did not start")
            yield _make_client(address[0])
        finally:
            server.terminate()


@contextmanager
def _running_moto() -> Iterator[BaseClient]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [str(make_moto_venv() / "bin/moto_server"), "-p", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not _listens(port):
                if time.monotonic() > deadline:
                    raise CannotMeasure("moto's server did not start")
                time.sleep(0.1)
            yield _make_client(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _make_client(address: str) -> BaseClient:
    return boto3.session.Session().client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(proxies={}),
    )


if __name__ == "__main__":
    raise SystemExit(main())
