"""What is in the image's file system: one walk inside a container answers all questions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.conformance.check import Failed, NotApplicable
from stoker.conformance.lab import Lab

_PLACE = "/stoker-check"
_MOST_SHOWN = 5

# Prints "FOUND kind path". Packages carry keys and tokens of their own tests: not looked at.
_PYTHON = r"""
import os, re

SKIPPED = {"/proc", "/sys", "/dev", "/stoker-check"}
PACKAGES = re.compile(r"/(site|dist)-packages(/|$)")
SYSTEM = re.compile(r"^/(usr|lib\w*|s?bin|var/(lib|cache)|opt/conda)(/|$)|/lib/python3[^/]*(/|$)")
NAMES = [
    ("driver", re.compile(r"/(libcuda\.so\.\d|libnvidia-ml\.so\.\d|nvidia\.ko|nvidia-smi$)")),
    ("cuda", re.compile(r"/libcudart\.so[.\d]*$")),
    ("history", re.compile(r"/\.(bash|ash|sh|zsh|python|node_repl|psql|mysql)_history$")),
    ("cache", re.compile(r"/\.cache/(pip|uv)/.")),
    ("sbom", re.compile(r"(\.spdx|\.cdx)(\.json|\.xml)?$|/s?bom[^/]*\.(json|xml)$", re.I)),
    ("lock", re.compile(r"\.lock$|/(requirements|constraints)[^/]*\.txt$|/pylock[^/]*\.toml$")),
    ("baked", re.compile(r"^/opt/ml/")),
]
SECRET_NAMES = re.compile(
    r"/(\.aws/credentials|\.netrc|\.git-credentials|\.pypirc|id_(rsa|dsa|ecdsa|ed25519)"
    r"|ssh_host_\w+_key)$"
)
SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(AKIA|ASIA)(?!\w*EXAMPLE)[A-Z0-9]{16}\b"
    rb"|aws_secret_access_key\s*=\s*\S{20}|\bgh[pousr]_\w{36}|https?://[^\s/:@]+:[^\s/:@$]+@"
    rb'|"auth"\s*:\s*"\w{8}'
)

def holds_secret(path, status):
    if SYSTEM.search(path) or "snakeoil" in path or not 0 < status.st_size <= 65536:
        return False
    with open(path, "rb") as file:
        return bool(SECRETS.search(file.read()))

def kinds(path):
    status = os.lstat(path)
    if status.st_size == 0 or status.st_mode & 0o170000 != 0o100000:
        return
    packaged = bool(PACKAGES.search(path))
    for kind, name in NAMES:
        if name.search(path) and not (packaged and kind in ("sbom", "lock")):
            if kind != "driver" or not re.search("/(compat|stubs)/", path):
                yield kind
    if not packaged and (SECRET_NAMES.search(path) or holds_secret(path, status)):
        yield "secret"

count, shown = 0, {}
for folder, folders, files in os.walk("/"):
    if ".git" in folders and os.path.exists(folder + "/.git/HEAD"):
        print("FOUND git", folder + "/.git")
    folders[:] = [f for f in folders if os.path.join(folder, f) not in SKIPPED]
    for name in files:
        path, count = os.path.join(folder, name), count + 1
        try:
            for kind in kinds(path):
                shown[kind] = shown.get(kind, 0) + 1
                if shown[kind] <= 200:
                    print("FOUND", kind, path)
        except OSError:
            pass
print("FOUND walked %d files" % count)
"""

# For an image without Python: by name only.
_SHELL = r"""
find / -xdev -type f 2>/dev/null | while IFS= read -r f; do
  [ -n "${f##/stoker-check/*}" ] && case "$f" in
    */compat/* | */stubs/* | */site-packages/* | */dist-packages/*) ;;
    */libcuda.so.[0-9]* | */libnvidia-ml.so.[0-9]* | */nvidia.ko | */nvidia-smi)
      [ -s "$f" ] && echo "FOUND driver $f" ;;
    */libcudart.so*) echo "FOUND cuda $f" ;;
    */.bash_history | */.ash_history | */.python_history) [ -s "$f" ] && echo "FOUND history $f" ;;
    */.cache/pip/* | */.cache/uv/*) echo "FOUND cache $f" ;;
    */.git/HEAD) echo "FOUND git ${f%/HEAD}" ;;
    */.aws/credentials | */.netrc | */.git-credentials | */.pypirc | */id_rsa | */id_ed25519 \
      | */ssh_host_*_key) [ -s "$f" ] && echo "FOUND secret $f" ;;
    *.spdx.json | *.cdx.json | */sbom*.json | */bom.json) echo "FOUND sbom $f" ;;
    *.lock | */requirements*.txt | */constraints*.txt) echo "FOUND lock $f" ;;
    /opt/ml/*) echo "FOUND baked $f" ;;
  esac
done
echo "FOUND walked all files, by name only"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """Interesting files of an image."""

    files: dict[str, list[str]]
    """By kind: driver, cuda, secret, history, git, cache, sbom, lock, baked."""
    walked: str
    """What was looked at; in an image without Python only the names."""

    def of(self, kind: str) -> list[str]:
        """The files of one kind."""
        return self.files.get(kind, [])


def survey_image(lab: Lab) -> Survey:
    """Walks the image's own files; nothing but the probe is mounted.

    Raises:
        NotApplicable: the image has neither Python nor a shell to look around with.
    """
    probes = lab.folder / "survey"
    probes.mkdir(exist_ok=True)
    (probes / "walk.py").write_text(_PYTHON)
    (probes / "walk.sh").write_text(_SHELL)
    for program, script in (("python3", "walk.py"), ("/bin/sh", "walk.sh")):
        # As root: an image whose USER is another one would hide files from the walk.
        options = ("--entrypoint", program, "--user", "0", "--volume", f"{probes}:{_PLACE}:ro")
        try:
            ran = lab.run(None, *options, command=(f"{_PLACE}/{script}",))
        except Failed:
            continue
        found = re.findall(r"^FOUND (\w+) (.+)$", ran.stdout, re.MULTILINE)
        # The last line proves that the walk came to its end; a half one would miss secrets.
        if found and found[-1][0] == "walked":
            return _sorted(found)
    raise NotApplicable("the image has neither Python 3 nor a shell to look at its files with")


def shown(paths: list[str]) -> str:
    """The first few, for evidence."""
    rest = len(paths) - _MOST_SHOWN
    return ", ".join(paths[:_MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _sorted(found: list[tuple[str, str]]) -> Survey:
    files: dict[str, list[str]] = {}
    for kind, path in found[:-1]:
        files.setdefault(kind, []).append(path)
    return Survey(files=files, walked=found[-1][1])
