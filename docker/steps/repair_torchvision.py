"""Make torchvision import with the CPU build of torch.

Usage: python repair_torchvision.py WHEEL OUTDIR

The public index offers only a CUDA build of torchvision, whose compiled operators cannot be loaded
without torch's CUDA libraries. Such a wheel is written again as 0.28.0+stoker1: without the
operators, registering nothing for them, and with errors that name what is missing. A CPU build is
copied as it is. Runs while the image is built, next to the code that repacks smdebug.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stoker.debugging.repack import make_record, write_wheel
from stoker.debugging.smdebug_edits import Edit, RepackFailed

UPSTREAM = "0.28.0"
VERSION = f"{UPSTREAM}+stoker1"
_INFO, _NEW_INFO = f"torchvision-{UPSTREAM}.dist-info", f"torchvision-{VERSION}.dist-info"

_FIX = (
    "Use the CUDA image (stoker:cuda), which runs on a CPU too, or build stoker:cpu where pip "
    "knows PyTorch's CPU index: `pip config set global.extra-index-url URL` (docker/README.md)."
)
_NO_OPERATORS = (
    "torchvision's compiled operators (nms, roi_align, roi_pool, deform_conv2d, ...) "
    f"are not in this CPU image: the public index has them for CUDA only. {_FIX}"
)
_NO_DECODERS = (
    "torchvision.io's compiled image functions (read_image, decode_jpeg, write_png, ...) are not "
    "in this CPU image: the public index has them for CUDA only. Read the file with Pillow, "
    f"torchvision.transforms.functional.pil_to_tensor(PIL.Image.open(path)). {_FIX}"
)
# torchvision guards every registration for its operators but these two.
_FAKES = '@torch.library.register_fake("torchvision::{}")\n'
_GUARD = """
def register_fake(op_name):
    has_ops = torchvision.extension._has_ops()
    return torch.library.register_fake(op_name) if has_ops else lambda fn: fn


"""
EDITS = (
    Edit(
        "torchvision/extension.py",
        "says why there are no operators",
        "            \"Couldn't load custom C++ ops. This can happen",
        f"            {_NO_OPERATORS!r}\n",
        until="        )\n\n\ndef _check_cuda_version",
    ),
    Edit(
        "torchvision/io/image.py",
        "says why there are no image functions",
        "            \"Couldn't load the image extension. ",
        f"            {_NO_DECODERS!r}\n",
        until="        )\n\n\nclass ImageReadMode",
    ),
    Edit(
        "torchvision/_meta_registrations.py",
        "registers nothing for operators that are not there",
        '\n@register_meta("roi_align")\n',
        f'{_GUARD}@register_meta("roi_align")\n',
    ),
    *(
        Edit(
            "torchvision/_meta_registrations.py",
            "registers nothing for operators that are not there",
            _FAKES.format(name),
            f'@register_fake("torchvision::{name}")\n',
        )
        for name in ("nms", "qnms")
    ),
    Edit(
        "torchvision/ops/roi_align.py",
        "its substitute needs a compiler, which the image has not",
        "            not _has_ops()\n            or (torch.are",
        "            (torch.are",
    ),
    Edit("torchvision/version.py", "not the published build", f"{UPSTREAM}+cu130", VERSION),
    Edit(
        f"{_INFO}/METADATA",
        "not the published build",
        f"\nVersion: {UPSTREAM}\n",
        f"\nVersion: {VERSION}\n",
    ),
    Edit(
        f"{_INFO}/WHEEL",
        "nothing compiled is left",
        "Root-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_28_x86_64\n",
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    ),
)


def repair(wheel: Path, outdir: Path) -> Path:
    """Write the wheel that the cpu image gets into `outdir`, and return its path.

    Raises:
        RepackFailed: a passage to change is not where it was.
    """
    outdir.mkdir(parents=True, exist_ok=True)
    if "+cpu" in wheel.name:
        return Path(shutil.copy(wheel, outdir))
    with zipfile.ZipFile(wheel) as archive:
        files = make_files({name: archive.read(name) for name in archive.namelist()})
    target = outdir / f"torchvision-{VERSION}-py3-none-any.whl"
    write_wheel(target, files)
    return target


def make_files(upstream: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of the new wheel, RECORD last, from the files of the published one."""
    files = {
        name: content
        for name, content in upstream.items()
        if not name.startswith("torchvision.libs/") and not name.endswith((".so", "/RECORD"))
    }
    for edit in EDITS:
        if edit.path not in files:
            raise RepackFailed(f"{edit.path} is not in the wheel")
        files[edit.path] = edit.apply(files[edit.path].decode()).encode()
    renamed = {name.replace(_INFO, _NEW_INFO): content for name, content in files.items()}
    changed = "".join(f"{edit.path}: {edit.why}\n" for edit in EDITS)
    head = f"torchvision {UPSTREAM}, changed by Stoker: without its compiled operators.\n\n"
    renamed[f"{_NEW_INFO}/STOKER-CHANGES"] = (head + changed).encode()
    record = f"{_NEW_INFO}/RECORD"
    return {**renamed, record: make_record(renamed, record).encode()}


def main(argv: Sequence[str]) -> int:
    """Run as a program."""
    if len(argv) != 3:
        print("usage: repair_torchvision.py WHEEL OUTDIR", file=sys.stderr)
        return 2
    try:
        target = repair(Path(argv[1]), Path(argv[2]))
    except RepackFailed as error:
        print(f"torchvision: {error}", file=sys.stderr)
        return 3
    print(f"torchvision: {target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
