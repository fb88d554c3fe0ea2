"""A user's script that survives spot: saves each step, goes on where it was."""

import os
import time
from pathlib import Path

STEPS = 200  # of 0.1 s: three interruptions, each 4 s after a start, come well before the end

state = Path("/opt/ml/checkpoints/step.txt")
first = int(state.read_text()) if state.exists() else 0
print(f"begin at step {first}", flush=True)
began, step = time.monotonic(), first
for step in range(first + 1, STEPS + 1):
    time.sleep(0.1)
    part = state.with_suffix(".tmp")
    part.write_text(str(step))
    part.replace(state)
# An attempt that is to be taken away after 4 s never ends before that, however late it began.
time.sleep(max(0.0, 10 - (time.monotonic() - began)))
(Path(os.environ["SM_MODEL_DIR"]) / "steps.txt").write_text(str(step))
