"""`stoker init`: a small training project, as files of the user's own."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from stoker.machine.failures import UsageRefused

_PROJECT = Path(__file__).parents[1] / "project"
# A dot file would be left out of some archives of the package, and hidden from its readers.
_RENAMED = {"gitignore": ".gitignore"}


def run(args: argparse.Namespace) -> int:
    """Write the files, then say what to do with them."""
    folder: Path = args.folder
    files = make_plan(folder)
    taken = [str(target) for target in files.values() if target.exists()]
    if taken:
        raise UsageRefused(
            f"already there, and left as it is: {', '.join(taken)}",
            fix="name another folder, or move these files away",
        )
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise UsageRefused(f"{place} is not a folder", fix="name another one")
    for source, target in files.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        print(f"init: {target}")
    print(f"next:\n  cd {folder}\n  stoker train src/train.py      # here, in a container\n")
    print("Then put your own model and data into src/train.py; stoker.toml has the defaults.")
    return 0


def make_plan(folder: Path) -> dict[Path, Path]:
    """Each file of the template → where it goes."""
    files = sorted(path for path in _PROJECT.rglob("*") if path.is_file())
    places = [path.relative_to(_PROJECT) for path in files]
    return {
        path: folder / place.with_name(_RENAMED.get(place.name, place.name))
        for path, place in zip(files, places, strict=True)
        if "__pycache__" not in place.parts
    }
