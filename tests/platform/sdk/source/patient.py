"""A user's script that never ends by itself, and saves when it is told to stop."""

import os
import signal
import sys
import time
from pathlib import Path


def save(_number, _frame):
    (Path(os.environ["SM_MODEL_DIR"]) / "saved.txt").write_text("in time")
    sys.exit(0)


signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(1)
