#!/opt/venv/bin/python3
"""A `train` with one deliberate fault: ours, with the piece that one check looks at broken.

The image names the fault by STOKER_FAULT; the file of its group patches the launcher accordingly.
"""

import importlib
import os
import sys

sys.path.insert(0, "/faults")

number = int(os.environ["STOKER_FAULT"])
group = importlib.import_module(f"faults_{os.environ['STOKER_FAULT_GROUP']}")
if number in group.FAULTS:
    group.FAULTS[number]()

from stoker.runtime.__main__ import main  # noqa: E402 - after the fault is in place

sys.exit(main())
