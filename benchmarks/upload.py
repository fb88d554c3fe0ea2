"""A folder to S3: `stoker train --on sagemaker`'s upload, compared with `aws s3 sync`.

Usage: python benchmarks/upload.py [--rounds 3] [--files 2000] [--megabytes 2000] [--json]

Both send the same files to the S3 of a local platform, in processes of their own, and take turns;
the figures are medians. "Nothing to do": everything is there already. The small files are as many
of 20 kB: what a file costs, whatever is in it. Each round has a bucket and a memory of its own:
ours also reads and hashes every file.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figures import CannotMeasure, Figure, run, say

GOAL_SEND, GOAL_NOTHING = 0.8, 0.2
_SMALL_BYTES = 20_000
_OURS = """
import sys
from pathlib import Path
from stoker.cloud.account import Account
from stoker.cloud.upload.bucket import Bucket
from stoker.cloud.upload.channel import send_folder
from stoker.cloud.upload.folder import read_folder
data, bucket, memory = sys.argv[1:]
folder = read_folder(Path(data), memory=Path(memory))
print(send_folder(folder, Bucket(Account(), bucket), memory=Path(memory)).sent_files)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="How long an upload takes.")
    parser.add_argument("--rounds", type=int, default=3, help="turns that each one takes")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--megabytes", type=int, default=2000, help="of all files")
    return run(measure, parser, peer="aws s3 sync")


def measure(args: argparse.Namespace) -> list[Figure]:
    """A first upload, and one with nothing to do."""
    if shutil.which("aws") is None:
        raise CannotMeasure("the AWS CLI is not installed: pip install awscli")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        sizes = {"large": args.megabytes * 10**6 // args.files, "small": _SMALL_BYTES}
        times = {}
        for kind, size_bytes in sizes.items():
            _make_files(work / kind, args.files, size_bytes)
            times[kind] = _measure_folder(work, kind, args.rounds)
            shutil.rmtree(work / kind)
    total = f"{args.megabytes / 1000:g} GB in {args.files} files"
    small = f"{args.files * _SMALL_BYTES / 10**6:g} MB in {args.files} files"
    return [
        _figure(total, times["large"], "", GOAL_SEND),
        _figure(small, times["small"], "", GOAL_SEND),
        _figure("nothing to do", times["large"], " again", GOAL_NOTHING),
    ]


def _figure(name: str, times: dict[str, list[float]], suffix: str, goal: float) -> Figure:
    ours, peer = (statistics.median(times[who + suffix]) for who in ("ours", "peer"))
    return Figure(name=name, ours=ours, peer=peer, unit="s", goal=goal)


def _measure_folder(work: Path, kind: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of each command; those with " again" had nothing to send."""
    data = str(work / kind)
    times: dict[str, list[float]] = {"ours": [], "peer": [], "ours again": [], "peer again": []}
    for number in range(rounds):
        s3 = work / f"s3-{number}"
        for bucket in ("ours", "peer"):
            (s3 / bucket).mkdir(parents=True)
        with _running_s3(s3) as environ:
            memory = str(work / f"memory-{kind}-{number}")
            ours = [sys.executable, "-c", _OURS, data, "ours", memory]
            sync = ["aws", "s3", "sync", data, "s3://peer/", "--only-show-errors"]
            for suffix in ("", " again"):
                for who, command in _in_turn({"ours": ours, "peer": sync}, number):
                    times[who + suffix].append(_time(command, environ))
                    say(f"{kind} files, {who}{suffix}: {times[who + suffix][-1]:.2f} s")
        shutil.rmtree(s3)
    return times


def _in_turn(commands: dict[str, list[str]], number: int) -> list[tuple[str, list[str]]]:
    return list(commands.items())[:: 1 if number % 2 == 0 else -1]


def _make_files(folder: Path, count: int, size_bytes: int) -> None:
    for number in range(count):
        file = folder / f"{number % 20:02}" / f"{number:05}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(size_bytes))
        # As data usually is: not written a moment ago.
        os.utime(file, (time.time() - 3600,) * 2)


def _time(command: list[str], environ: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


@contextmanager
def _running_s3(folder: Path) -> Iterator[dict[str, str]]:
    """The platform's own S3, and the variables that lead there."""
    argv = [sys.executable, "-m", "stoker.platform.s3", str(folder), "127.0.0.1:0"]
    inherited = dict(os.environ)  # noqa: TID251 - a benchmark is not a job
    keys = {"STOKER_S3_KEYS": "key,secret"}
    with subprocess.Popen(
        argv, env={**inherited, **keys}, stdout=subprocess.PIPE, text=True
    ) as server:
        if server.stdout is None:
            raise CannotMeasure("the S3 server has no output")
        address = re.search(r"http://[\d.:]+", server.stdout.readline())
        if address is None:
            raise CannotMeasure("the S3 server ended")
        try:
            yield {
                **inherited,
                "AWS_ENDPOINT_URL_S3": address[0],
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_REGION": "us-east-1",
            }
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
