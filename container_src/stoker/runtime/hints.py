"""One line of advice for the failures everybody meets."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OOM = "the host ran out of memory: use a larger instance, a smaller batch or fewer workers"

# (what the text holds, what to do). The first match wins, so the particular stands first.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"CUDA out of memory|torch\.OutOfMemoryError|CUDA error: out of memory|cuda.*alloc failed",
        "the GPU ran out of memory: use a smaller batch, gradient accumulation, mixed precision "
        "or a larger GPU",
    ),
    (
        r"bus error|insufficient shared memory|shared memory object|shared memory\(shm\)|"
        r"unable to (?:open|write to|mmap)[^\n]{0,60}/torch_|/dev/shm|torch_shm",
        "shared memory (/dev/shm) is too small for the DataLoader's workers: num_workers=0, "
        "torch.multiprocessing.set_sharing_strategy('file_system'), or a larger --shm-size "
        "(local mode has 64 MB)",
    ),
    (
        r"No space left on device|Errno 28|ENOSPC|Disk quota exceeded",
        "the disk is full: raise volume_size, delete old checkpoints, or write less",
    ),
    (
        r"ncclUnhandledCudaError|ncclSystemError|ncclRemoteError|NCCL (?:error|timeout)|"
        r"Watchdog caught collective operation timeout|ncclInternalError",
        "a collective operation failed: look for the first rank that ended; NCCL_DEBUG=INFO tells "
        "more; check security groups and NCCL_SOCKET_IFNAME",
    ),
    (
        r"Connect(?:ion)? (?:reset|closed|refused) by peer|Gloo connect|RendezvousTimeout|"
        r"DistStoreError|DistNetworkError|client socket has timed out",
        "another host ended or cannot be reached: look at its log first",
    ),
    (
        r"(?:MemoryError|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory|"
        r"std::bad_alloc)",
        _OOM,
    ),
)
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
# Modules whose package has another name.
_PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_MISSING_CHANNEL = re.compile(r"SM_CHANNEL_([A-Z0-9_.\-]+)")
_BAD_ARGUMENT = re.compile(
    r"error: (?:unrecognized arguments|argument |the following arguments are required|"
    r"ambiguous option)"
)


def find_hint(text: str, *, channels: Sequence[str], out_of_memory: bool) -> str:
    """Advice for a failure text, or nothing."""
    if module := _MISSING_MODULE.search(text):
        if "." in module[1]:
            return f"{module[1].split('.')[0]} has no such part in the version of this image"
        name = _PACKAGES.get(module[1], module[1])
        return f"add {name} to requirements.txt in your source directory, or bake it in"
    if "KeyError" in text and (channel := _MISSING_CHANNEL.search(text)):
        return (
            f"the job has no channel {channel[1].lower()!r}, but: "
            f"{', '.join(channels) or 'none'}; pass it to fit() or inputs="
        )
    if _BAD_ARGUMENT.search(text):
        return "the hyperparameters do not fit the script's arguments: mend one or the other"
    for pattern, advice in _HINTS:
        if re.search(pattern, text, re.IGNORECASE):
            return advice
    return _OOM if out_of_memory else ""
