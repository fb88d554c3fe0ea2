"""Make a wheel `tensorflow` that consists of its requirement of tensorflow-cpu alone.

Usage: python name_tensorflow.py LOCK FOLDER

The package tensorflow-cpu has the module under another name: a requirements.txt with `tensorflow`,
or tf-keras, would install it a second time. Standard library only; runs while the image is built.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)


def main(argv: Sequence[str]) -> int:
    """Write the wheel, the same bytes each time."""
    lock, folder = Path(argv[1]), Path(argv[2])
    [version] = re.findall(r"^tensorflow-cpu==(\S+)", lock.read_text(), flags=re.MULTILINE)
    info = f"tensorflow-{version}.dist-info"
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: tensorflow\nVersion: {version}\n"
        f"Summary: The name only; the package is tensorflow-cpu\n"
        f"Requires-Dist: tensorflow-cpu=={version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: stoker\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    files["RECORD"] = "".join(f"{info}/{name},,\n" for name in (*files, "RECORD"))
    with zipfile.ZipFile(folder / f"tensorflow-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(f"{info}/{name}", _EPOCH), text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
