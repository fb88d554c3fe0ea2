"""Helper process: waits until the names of all hosts resolve. `peers LIMIT_SECONDS HOST…`."""

from __future__ import annotations

import socket
import sys
import time

_FIRST_LINE_SECONDS = 2.0
_LINE_EVERY_SECONDS = 10.0
_RETRY_SECONDS = 0.5


def main(argv: list[str]) -> int:
    """Returns 0 when every host is known, 69 when the limit has passed."""
    limit_seconds, hosts = float(argv[0]), argv[1:]
    started = time.monotonic()
    next_line = started + _FIRST_LINE_SECONDS
    missing = hosts
    while missing := [host for host in missing if not _resolves(host)]:
        now = time.monotonic()
        waited = now - started
        if waited >= limit_seconds:
            print(
                f"{len(missing)} of {len(hosts)} hosts are unknown to DNS after "
                f"{waited:.0f} s: {', '.join(missing)}",
                file=sys.stderr,
            )
            return 69
        if now >= next_line:
            _say(f"waiting for {', '.join(missing)} ({waited:.0f} of {limit_seconds:.0f} s)")
            next_line = now + _LINE_EVERY_SECONDS
        time.sleep(_RETRY_SECONDS)
    return 0


def _say(text: str) -> None:
    print(f"[stoker] {text}", file=sys.stderr, flush=True)


def _resolves(host: str) -> bool:
    try:
        # IPv4 or IPv6: a cluster may have the latter only.
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False
