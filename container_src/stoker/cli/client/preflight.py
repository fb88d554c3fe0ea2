"""What can be known to fail before anything is sent: the request, the image and the disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.errors import HostError
from stoker.machine.docker import find_client, image_present, make_image_fix, require_engine
from stoker.machine.failures import EngineMissing, UsageRefused
from stoker.machine.stock_images import find_stock_image
from stoker.machine.units import show_size
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.request_rules import require_rules
from stoker.platform.model.root import SPARE_BYTES


def require_accepted(request: Mapping[str, Any]) -> None:
    """
    Raises:
        UsageRefused: fields of the request do not go together.
    """
    try:
        require_rules(request)
    except ApiFault as fault:
        fix = "change the option that the message is about"
        raise UsageRefused(fault.message, fix=fix) from fault


def require_image(image: str, engine: str) -> None:
    """
    Args:
        image: as the user names it.
        engine: that of the platform; "auto" is Docker where it answers.

    Raises:
        UsageRefused: jobs will be containers, and the image is not there: nothing is pulled.
    """
    if engine == "process" or find_stock_image(image) is not None:
        return  # in place of an image of AWS the platform runs a Stoker image, or says why not
    try:
        client = find_client()
        require_engine(client)
    except EngineMissing:
        return  # `auto` falls back to processes; `docker` is refused when the platform starts
    if not image_present(client, image):
        raise UsageRefused(f"Docker has no image {image}", fix=make_image_fix(image))


def require_disk(folder: Path, size_bytes: int) -> None:
    """
    Args:
        folder: the platform's; it need not be there.
        size_bytes: of the code.

    Raises:
        HostError: its disk has no space for the code.
    """
    place = find_existing(folder)
    free_bytes = shutil.disk_usage(place).free
    if free_bytes <= size_bytes + SPARE_BYTES:
        raise HostError(
            f"the disk of {folder} is full: {show_size(free_bytes)} are free, the code has "
            f"{show_size(size_bytes)}",
            fix="free space on that disk (`stoker local prune --keep 3` removes older jobs), or "
            "use a folder on another one: --root DIR",
        )


def find_existing(folder: Path) -> Path:
    """The folder itself or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.exists())
