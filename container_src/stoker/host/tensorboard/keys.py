"""Temporary AWS keys, in a form that the profiler plug-in does not spoil."""

from __future__ import annotations

import os
from collections.abc import Mapping

_KEYS = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
}
_FILE = "AWS_SHARED_CREDENTIALS_FILE"


def hand_over_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with temporary keys moved from variables to a file in memory.

    torch-tb-profiler 0.4.3 takes key and secret from the environment and forgets the session's
    token, for all of TensorBoard: S3 refuses it, and the page stays empty without a word.

    Returns:
        A changed copy; the file lives as long as this process, or what it becomes by exec.
    """
    if not all(environ.get(name) for name in _KEYS):
        return dict(environ)
    lines = [f"{ours} = {environ[name]}" for name, ours in _KEYS.items()]
    profile = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    descriptor = os.memfd_create("aws-credentials", 0)  # 0: it survives exec
    os.write(descriptor, "\n".join([f"[{profile}]", *lines, ""]).encode())
    kept = {name: text for name, text in environ.items() if name not in _KEYS}
    # By our number, not /proc/self: the plug-in reads S3 in processes of its own, too.
    return {**kept, _FILE: f"/proc/{os.getpid()}/fd/{descriptor}"}
