"""What can be known to fail before anything is sent: the request and the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.machine.docker import find_client, image_present, make_image_fix, require_engine
from stoker.machine.failures import EngineMissing, UsageRefused
from stoker.machine.stock_images import find_stock_image
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.request_rules import require_rules


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
