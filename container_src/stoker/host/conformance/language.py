"""Which language a probe can be written in: most images have Python, some only a shell."""

from __future__ import annotations

import threading

from stoker.host.conformance.lab import Lab
from stoker.host.conformance.script import Language

_IS_PYTHON_3 = "import sys; sys.exit(sys.version_info < (3,))"
# Python may be where only `train` looks for it. Nothing but the shell itself is needed here.
_LOOK = """
found=no
for file in /bin/python* /usr/bin/python* /usr/local/bin/python* /opt/bin/python* \
    /opt/*/bin/python* /opt/*/*/bin/python* /root/*/bin/python* /home/*/*/bin/python*; do
    [ -x "$file" ] && found=$file
done
train=$(command -v train) && read -r first < "$train" && case $first in
    '#!'*python*) found=$train ;;
esac
echo "PROBE python=$found"
"""
_NOT_FOUND = (125, 126, 127)
"""How `docker run` ends when the program is not there, or cannot be started."""


class Languages:
    """Asks each image once in a run."""

    def __init__(self) -> None:
        self._found: dict[str, Language] = {}
        self._lock = threading.Lock()

    def of(self, lab: Lab) -> Language:
        """The language for probes in the lab's image."""
        with self._lock:
            if lab.image not in self._found:
                self._found[lab.image] = find_language(lab)
            return self._found[lab.image]


def find_language(lab: Lab) -> Language:
    """Tries Python, then sh; in doubt it is Python."""
    for program in ("python3", "python"):
        if _ask(lab, program, _IS_PYTHON_3)[0] == 0:
            return "python"
    code, said = _ask(lab, "/bin/sh", _LOOK)
    if "PROBE python=no" in said:
        return "sh"
    return "none" if code in _NOT_FOUND else "python"


def _ask(lab: Lab, program: str, text: str) -> tuple[int, str]:
    options = ("--rm", "--label", lab.label, "--network", "none", "--entrypoint", program)
    answer = lab.docker("run", *options, lab.image, "-c", text, timeout_seconds=30)
    return answer.code, answer.stdout
