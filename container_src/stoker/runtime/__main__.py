"""`train`, and the helpers it starts as children: `python -m stoker.runtime [VERB …]`."""

from __future__ import annotations

import gc
import os
import sys

if not __package__:  # run as a file by bin/train, isolated and without site-packages
    # Last in the path: nothing that is installed can shadow the standard library.
    sys.path.append(__file__.rsplit("/", 3)[0])

_HELPERS = ("drivers", "fetch", "install", "mlflow", "peers")


def main() -> int:
    """Runs one helper, or the launcher itself."""
    # Each branch imports its own: the launcher must not pay for what only a helper needs.
    if sys.argv[1:2] and sys.argv[1] in _HELPERS:
        from importlib import import_module

        helper = import_module(f"stoker.runtime.{sys.argv[1]}")
        return int(helper.main(sys.argv[2:]))
    gc.disable()  # a process of this size has nothing to collect; a tenth of the start is saved
    # Signals first: PID 1 has no default actions, so a stop during the imports would be lost.
    from stoker.runtime.signals import Signals

    signals = Signals()
    signals.install()
    from stoker.runtime.entry import train

    code = train(sys.argv[1:], signals)
    # Without taking the interpreter apart, object by object: it has no threads and no open file.
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
