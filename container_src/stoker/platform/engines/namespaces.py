"""What a process may see, changed for itself and its children: names of hosts, the network.

Linux lets any process do so in a user namespace, unless the machine's owner forbids it. It ends
with the processes: nothing of the machine is changed. Standard library only, for the keeper.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

# Constants of the kernel that Python has no names for (os.unshare came with 3.12).
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MS_RDONLY, _MS_REMOUNT = 0x1, 0x20
_LOCKED = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_PR_SET_CHILD_SUBREAPER = 36
_HOSTS = "/etc/hosts"


def give_names(addresses: Mapping[str, str], file: Path) -> None:
    """Lets this process find hosts by name, whatever the machine's own names are.

    Args:
        addresses: host → address.
        file: where the names are written; it takes the place of /etc/hosts for this process.

    Raises:
        OSError: this machine does not allow it.
    """
    added = "".join(f"{address}\t{host}\n" for host, address in addresses.items())
    file.write_text(added + Path(_HOSTS).read_text())  # the first match counts
    _unshare(_CLONE_NEWNS)
    _mount("none", "/", _MS_REC | _MS_PRIVATE)  # else the machine would see the next one
    _mount(str(file), _HOSTS, _MS_BIND)


def mount_all(mounts: Iterable[Sequence[str]]) -> None:
    """Mounts folders for this process and its children alone.

    Args:
        mounts: [kind, source, target]: an `overlay` with its options, a `bind`, or a
            `read-only` one.

    Raises:
        OSError: this machine does not allow it.
    """
    _unshare(_CLONE_NEWNS)
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    for kind, source, target in mounts:
        if kind == "overlay":
            _mount_overlay(source, target)
            continue
        _mount(source, target, _MS_BIND | _MS_REC)
        if kind == "read-only":
            # In a user namespace, what the machine's own mount forbids must stay forbidden.
            kept = os.statvfs(source).f_flag & _LOCKED
            _mount(source, target, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def _mount_overlay(options: str, target: str) -> None:
    try:
        _mount("overlay", target, 0, kind="overlay", options=options)
    except PermissionError:  # in a user namespace only with attributes that a user may write
        _mount("overlay", target, 0, kind="overlay", options=f"{options},userxattr")


def cut_off_network() -> None:
    """Leaves this process a loopback device of its own and nothing else.

    Raises:
        OSError: this machine does not allow it.
    """
    _unshare(_CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(device, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(device, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant that loses its own."""
    _checked(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def _unshare(kind: int) -> None:
    if os.geteuid() == 0 and _libc().unshare(kind) == 0:
        return
    # Not root, or a root without the right to: only a user namespace can give it.
    user, group = os.geteuid(), os.getegid()
    _checked(_libc().unshare(kind | _CLONE_NEWUSER))
    # Before gid_map, which the kernel refuses as long as the process may change its groups.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _mount(
    source: str, target: str, flags: int, *, kind: str | None = None, options: str | None = None
) -> None:
    texts = (None if text is None else os.fsencode(text) for text in (source, target, kind))
    data = None if options is None else os.fsencode(options)
    place, where, file_system = texts
    _checked(_libc().mount(place, where, file_system, flags, data))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(answer: int) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(argv: list[str]) -> int:
    """Tries what this machine allows; the reason why not is printed.

    `namespaces FILE`: names of hosts. `namespaces FILE OPTIONS TARGET`: an overlay.
    """
    try:
        if argv[1:]:
            mount_all([("overlay", *argv[1:])])
        else:
            give_names({"algo-1": "127.0.0.1"}, Path(argv[0]))
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
