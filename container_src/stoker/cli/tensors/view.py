"""The 3-D view of a scene, as one page that opens offline."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from stoker import __version__
from stoker.cli.tensors.planes import Planes
from stoker.cli.tensors.scene import Actor, Scene
from stoker.pages.shell import make_page

_TEMPLATE = Path(__file__).with_suffix(".html")


def render_view_page(scene: Scene, *, place: str) -> str:
    """The whole page as HTML; all levels are one text in base64."""
    levels = b"".join(
        planes.levels.tobytes() for actor in scene.actors for planes in actor.frames if planes
    )
    facts = {
        "version": __version__,
        "place": place,
        "hasEnded": scene.has_ended,
        "steps": list(scene.steps),
        "mode": scene.mode,
        "sample": scene.sample,
        "notes": list(scene.notes),
        "actors": [_to_json(actor) for actor in scene.actors],
        "levels": base64.b64encode(levels).decode(),
    }
    return make_page(_TEMPLATE, title=f"Tensors of {place}", facts=facts)


def _to_json(actor: Actor) -> dict[str, Any]:
    first = next(planes for planes in actor.frames if planes)
    count, height, width = first.levels.shape
    return {
        "name": actor.name,
        "about": actor.about,
        "role": actor.role,
        "count": count,
        "height": height,
        "width": width,
        "planeCount": actor.plane_count,
        "size": list(actor.size),
        "ranges": [_range(planes) for planes in actor.frames],
        "texts": list(actor.texts),
    }


def _range(planes: Planes | None) -> list[float] | None:
    return None if planes is None else [float(f"{v:.6g}") for v in (planes.low, planes.high)]
