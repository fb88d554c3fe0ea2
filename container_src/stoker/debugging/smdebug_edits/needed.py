"""Level 1: what keeps smdebug from being imported or from saving its first tensor."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_NO_DISTUTILS = "Python 3.12 removed distutils"
_OLD_STRTOBOOL = "from distutils.util import strtobool"
_NEW_STRTOBOOL = "from smdebug.core.strtobool import strtobool"
_RAW = "Python 3.12 warns of backslashes in strings that are not raw"

EDITS = (
    Edit(
        path="smdebug/core/tfevent/util.py",
        why="NumPy 2.3 has no tostring",
        old=".tostring()",
        new=".tobytes()",
    ),
    Edit(
        path="smdebug/core/tfevent/summary.py",
        why="NumPy 2.4 converts only 0-dimensional arrays to float",
        old="scalar = float(scalar)\n",
        new="scalar = float(scalar.reshape(-1)[0])\n",
    ),
    Edit("smdebug/core/config_validator.py", _NO_DISTUTILS, _OLD_STRTOBOOL, _NEW_STRTOBOOL),
    Edit("smdebug/profiler/utils.py", _NO_DISTUTILS, _OLD_STRTOBOOL, _NEW_STRTOBOOL),
    Edit("smdebug/profiler/utils.py", _RAW, 're.compile(".+/system/', 're.compile(r".+/system/'),
    Edit(
        path="smdebug/profiler/analysis/notebook_utils/step_histogram.py",
        why=_RAW,
        old='"Backward\\(post-forward\\)-node"',
        new='r"Backward\\(post-forward\\)-node"',
    ),
)

METADATA_EDITS = (
    Edit(
        path="METADATA",
        why="the rebuilt protobuf modules need `internal.builder`, which came with 3.20",
        old="Requires-Dist: protobuf (<=3.20.3,>=3.20.0)\n",
        new="Requires-Dist: protobuf>=3.20.0\n",
    ),
    Edit(
        path="METADATA",
        why="3.4.2 needs a C compiler and 5.x has wheels; the others are imported, not declared",
        old="Requires-Dist: pyinstrument (==3.4.2)\n",
        new="Requires-Dist: pyinstrument>=3.4.2\n"
        + "".join(f"Requires-Dist: {name}\n" for name in ("pandas", "psutil", "requests", "six")),
    ),
)

STRTOBOOL = '''\
# Added by Stoker: takes the place of distutils.util.strtobool, which Python 3.12 removed.
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "n", "no", "off"})


def strtobool(val):
    """1 for a word that means yes, 0 for one that means no; ValueError for any other."""
    word = val.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"invalid truth value {word!r}")
    return int(word in _TRUE)
'''
ADDED = {"smdebug/core/strtobool.py": STRTOBOOL}
