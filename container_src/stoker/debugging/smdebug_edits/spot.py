"""Spot: a checkpoint that is overwritten with one of the same size is a new checkpoint."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_STORE = "smdebug/core/state_store.py"
_WHY = "a checkpoint is known by its name, size and time: state written for an older one is stale"

EDITS = (
    Edit(
        path=_STORE,
        why=_WHY,
        old="        self._last_seen_checkpoint_files = []\n",
        until="    def _retrieve_path_to_checkpoint(self):\n",
        new='''\
        self._last_seen_checkpoints = []
        if self._checkpoint_dir is not None:
            self._states_file = os.path.join(self._checkpoint_dir, METADATA_FILENAME)
            self._read_states_file()
            self._last_seen_checkpoints = self._look_at_checkpoints()

    def _look_at_checkpoints(self):
        """Name, size and time of every checkpoint file; one that is just being replaced is left
        out."""
        seen = []
        for file in self._get_checkpoint_files_in_dir(self._checkpoint_dir):
            try:
                status = os.stat(file)
            except FileNotFoundError:
                continue
            seen.append((file, status.st_size, status.st_mtime_ns))
        return seen

''',
    ),
    Edit(
        path=_STORE,
        why=_WHY,
        old="        if self._checkpoint_dir is not None:\n"
        "            checkpoint_files = self._get_checkpoint_files_in_dir(self._checkpoint_dir)\n",
        until="    def get_last_saved_state(self):\n",
        new="""\
        if self._checkpoint_dir is None:
            return False
        checkpoints = self._look_at_checkpoints()
        is_updated = bool(checkpoints) and checkpoints != self._last_seen_checkpoints
        self._last_seen_checkpoints = checkpoints
        return is_updated

""",
    ),
)
