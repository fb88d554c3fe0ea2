"""S3: the last step of a script that does not close its hook."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_S3 = "smdebug/core/access_layer/s3.py"
_WHY = "no thread pool starts while the interpreter ends: the last step and the end were lost"

EDITS = (
    Edit(
        path=_S3,
        why=_WHY,
        old="        # Set the desired multipart threshold value (5GB)\n",
        until="        # Create bucket if does not exist\n",
        new="",
    ),
    Edit(
        path=_S3,
        why=_WHY,
        old="    def _init_data(self):\n",
        new='''\
    @property
    def transfer_config(self):
        """Asked for at every upload: atexit handlers run when the main thread is done, and from
        then on only this thread is left to upload."""
        is_running = threading.main_thread().is_alive()
        return TransferConfig(multipart_threshold=5 * 1024 ** 2, use_threads=is_running)

    def _init_data(self):
''',
    ),
    Edit(path=_S3, why=_WHY, old="import tempfile\n", new="import tempfile\nimport threading\n"),
)
