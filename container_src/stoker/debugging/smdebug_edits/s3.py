"""S3: unfinished files stay out of it, and the last step of a script gets there."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_S3 = "smdebug/core/access_layer/s3.py"
_UNFINISHED = "unfinished files reached S3, where one of them makes every reader fail for good"
_WHY = "no thread pool starts while the interpreter ends: the last step and the end were lost"

EDITS = (
    Edit(
        path="smdebug/core/access_layer/file.py",
        why=_UNFINISHED,
        old='SMDEBUG_TEMP_PATH_SUFFIX = ".tmp"\n',
        # What the service's uploader leaves alone.
        new='SMDEBUG_TEMP_PATH_SUFFIX = ".sagemaker-ignore"\n',
    ),
    Edit(
        path="smdebug/core/s3_utils.py",
        why=_UNFINISHED,
        old="    objects = _list_s3_prefixes([req])\n",
        # Before the last of them becomes the token after which the next look begins: the
        # finished file comes before its unfinished one in the order of names.
        new="""\
    unfinished = (".tmp", ".sagemaker-ignore")
    objects = [key for key in _list_s3_prefixes([req]) if not key.endswith(unfinished)]
""",
    ),
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
