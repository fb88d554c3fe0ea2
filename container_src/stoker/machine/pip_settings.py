"""Where pip on this machine finds packages, handed on to a build.

Inside `docker build` the host's folders are not visible. So local wheel folders are served over
loopback HTTP while the build runs, and the rest of pip's settings goes in as a BuildKit secret:
a private index with its token never becomes part of a layer.
"""

from __future__ import annotations

import ast
import re
import shutil
import ssl
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.machine.docker import ask

# Not target, user, cache-dir and the like: they name places of this machine.
_PASSED_ON = ("index-url", "no-index", "pre", "prefer-binary", "proxy", "retries", "timeout")
# pip reads [global], then the section of the command, then PIP_* variables; the last one wins.
_SECTIONS = ("global", "install", ":env:")
_SYSTEM_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PipSettings:
    """Where pip on this machine gets packages from, as it is configured."""

    options: Mapping[str, str]
    """Settings that mean the same inside a build."""

    indexes: tuple[str, ...] = ()
    """Further indexes, reached over the network."""

    links: tuple[str, ...] = ()
    """Pages of wheels, reached over the network."""

    folders: tuple[Path, ...] = ()
    """Folders of wheels on this machine, to be served while a build runs."""

    trusted_hosts: tuple[str, ...] = ()
    """Hosts that pip may reach without TLS."""

    left_out: tuple[str, ...] = ()
    """Sources a build cannot see: indexes in the file system."""

    ca_bundle: Path | None = None
    """Certificates to trust, for machines behind a proxy that reopens TLS."""


def read_pip_settings() -> PipSettings:
    """Ask this machine's pip for its configuration; none is an ordinary answer."""
    for command in _pip_commands():
        answer = ask([*command, "config", "list"])
        if answer.code == 0:
            return make_settings(parse_config(answer.tail), system_bundle=_system_bundle())
    return make_settings({}, system_bundle=_system_bundle())


def parse_config(listing: str) -> dict[str, str]:
    """Merge the lines of `pip config list` in pip's own order of precedence."""
    merged: dict[str, str] = {}
    lines = re.findall(r"^(\S+?)\.([\w-]+)=(.+)$", listing, flags=re.MULTILINE)
    for wanted in _SECTIONS:
        for section, key, value in lines:
            if section == wanted:
                name = key.removeprefix("default-") if key == "default-timeout" else key
                # pip prints values as Python's repr.
                merged[name] = str(ast.literal_eval(value))
    return merged


def make_settings(config: Mapping[str, str], *, system_bundle: Path | None) -> PipSettings:
    """Sort pip's settings by what a build can do with them."""
    indexes = config.get("extra-index-url", "").split()
    links = config.get("find-links", "").split()
    folders = [path for path in map(_local_path, links) if path is not None and path.is_dir()]
    cert = Path(config["cert"]) if config.get("cert") else system_bundle
    return PipSettings(
        options={key: config[key] for key in _PASSED_ON if config.get(key)},
        indexes=tuple(url for url in indexes if _local_path(url) is None),
        links=tuple(url for url in links if _local_path(url) is None),
        folders=tuple(dict.fromkeys(folders)),
        trusted_hosts=tuple(config.get("trusted-host", "").split()),
        left_out=tuple(url for url in indexes if _local_path(url) is not None),
        ca_bundle=cert if cert and cert.is_file() else None,
    )


def make_pip_conf(settings: PipSettings, *, served: Sequence[str]) -> str:
    """The pip.conf for a build, with the addresses at which local folders are served."""
    values = {
        **settings.options,
        "extra-index-url": " ".join(settings.indexes),
        "find-links": " ".join([*settings.links, *served]),
        "trusted-host": " ".join([*settings.trusted_hosts, *(["127.0.0.1"] if served else [])]),
        "disable-pip-version-check": "true",
    }
    lines = [f"{key} = {value}" for key, value in values.items() if value]
    return "\n".join(["[global]", *lines, ""])


@contextmanager
def serve_folders(folders: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Serve each folder on a free port of 127.0.0.1 until the block ends; yields the addresses."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_serve(folder)) for folder in folders)


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    handler = partial(_QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """The build's own output says what pip fetches."""


def _pip_commands() -> list[list[str]]:
    on_path = [found for found in map(shutil.which, ("pip3", "pip")) if found]
    return [[sys.executable, "-m", "pip"], *([found] for found in on_path)]


def _local_path(source: str) -> Path | None:
    parts = urlsplit(source)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(source).expanduser() if not parts.scheme else None


def _system_bundle() -> Path | None:
    # OpenSSL's answer honours SSL_CERT_FILE and is None for a file that is not there.
    openssl = ssl.get_default_verify_paths().cafile
    candidates = [*([Path(openssl)] if openssl else []), *_SYSTEM_BUNDLES]
    return next((path for path in candidates if path.is_file()), None)
