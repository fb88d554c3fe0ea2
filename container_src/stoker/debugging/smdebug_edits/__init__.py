"""What Stoker changes in smdebug, by topic; `stoker.debugging.repack` applies it.

Level 1 is what smdebug needs to run at all on today's stack. Level 2 fixes, on top of that, the
faults that a training script or a rule meets.
"""

from __future__ import annotations

from stoker.debugging.smdebug_edits import (
    callbacks,
    configuration,
    dtypes,
    hook,
    needed,
    notebooks,
    rules,
    s3,
    spot,
)
from stoker.debugging.smdebug_edits.edit import UPSTREAM, Edit, RepackFailed, unexpected

__all__ = ["ADDED", "EDITS", "METADATA_EDITS", "UPSTREAM", "Edit", "RepackFailed", "unexpected"]

EDITS: dict[int, tuple[Edit, ...]] = {
    1: needed.EDITS,
    2: (
        *(*needed.EDITS, *dtypes.EDITS, *configuration.EDITS, *hook.EDITS, *callbacks.EDITS),
        *(*spot.EDITS, *s3.EDITS, *rules.EDITS, *notebooks.EDITS),
    ),
}
METADATA_EDITS = needed.METADATA_EDITS
ADDED = needed.ADDED
