"""Print the software bill of materials of the image: CycloneDX 1.5, JSON.

Usage: python sbom.py HASHES... > sbom.cdx.json

Lists the Python distributions of the running interpreter and the Debian packages, with the SHA-256
of the wheel or .deb each was installed from: lines `HASH NAME==VERSION` (Python) or
`HASH NAME=VERSION` (Debian) in the files. Two builds of the same image give the same bytes: there
is no date and no random identifier. Standard library only; runs inside the image while it is
built.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import quote

Component = dict[str, object]


def main(argv: Sequence[str]) -> int:
    """Print the document."""
    rows = [row.split() for path in argv[1:] for row in Path(path).read_text().splitlines()]
    sha256 = {_key(package): digest for digest, package in rows}
    components = [*map(_python_component, distributions()), *_debian_components()]
    for component in components:
        separator = "==" if str(component["purl"]).startswith("pkg:pypi/") else "="
        key = f"{component['name']}{separator}{component['version']}"
        if key in sha256:
            component["hashes"] = [{"alg": "SHA-256", "content": sha256[key]}]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": sorted(components, key=lambda component: str(component["purl"])),
    }
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


def _key(package: str) -> str:
    name, separator, version = package.partition("==")
    return f"{_normalized(name)}=={version}" if separator else package


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _python_component(dist: Distribution) -> Component:
    name = _normalized(dist.metadata["Name"])
    component: Component = {
        "type": "library",
        "name": name,
        "version": dist.version,
        "purl": f"pkg:pypi/{name}@{quote(dist.version)}",
    }
    if license_text := _license(dist):
        component["licenses"] = [{"license": {"name": license_text}}]
    return component


def _license(dist: Distribution) -> str:
    fields = [key for key in ("License-Expression", "License") if key in dist.metadata]
    # Some packages put the whole text of the licence into the field: its first line names it.
    return dist.metadata[fields[0]].strip().partition("\n")[0][:100] if fields else ""


def _debian_components() -> list[Component]:
    listing = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    return [
        {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:deb/debian/{name}@{quote(version)}?arch={architecture}",
        }
        for name, version, architecture in map(str.split, listing.splitlines())
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv))
