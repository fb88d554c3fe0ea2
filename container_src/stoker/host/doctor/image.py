"""Is the image there?"""

from __future__ import annotations

from stoker.host.docker import find_client, image_present, image_size_bytes, require_engine
from stoker.host.doctor.finding import Finding, Machine
from stoker.host.failures import EngineMissing


def check(machine: Machine) -> Finding:
    """A job names an image that the engine must hold: nothing is pulled."""
    try:
        client = find_client()
        require_engine(client)
    except EngineMissing:
        return Finding(check="image", level="ok", text="not needed: no engine, no containers")
    if not image_present(client, machine.image):
        return Finding(
            check="image",
            level="problem",
            text=f"Docker has no image {machine.image}",
            fix="stoker build makes stoker:cpu; --image names another",
        )
    size_bytes = image_size_bytes(client, machine.image) or 0
    return Finding(check="image", level="ok", text=f"{machine.image}, {size_bytes / 1e9:.2f} GB")
