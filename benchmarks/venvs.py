"""The environments that are measured, made on demand under .build/benchmarks."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

from figures import CannotMeasure, say

TOOLKIT = "sagemaker-training==5.1.4"
OPTUNA = ("optuna==5.0.0", "scipy", "torch==2.13.0")
TRACEML = ("traceml-ai==0.5.0", "numpy")
MOTO = "moto[s3,server]==5.2.5"
_REPOSITORY = Path(__file__).resolve().parents[1]
_BUILD = _REPOSITORY / ".build/benchmarks"
_PIP_LIMIT_SECONDS = 900


def make_stoker_venv() -> Path:
    """An environment with this checkout's wheel and nothing else; kept until the code changes."""
    return _make_venv(
        "stoker", [str(_REPOSITORY), "--no-deps"], stamp=f"{sys.version} {_fingerprint()}"
    )


def make_toolkit_venv() -> Path:
    """An environment with the stock toolkit and what it needs; without smdebug."""
    return _make_venv("toolkit", [TOOLKIT], stamp=f"{sys.version} {TOOLKIT}")


def make_optuna_venv() -> Path:
    """An environment with Optuna and what its two searches need, torch included."""
    return _make_venv("optuna", list(OPTUNA), stamp=f"{sys.version} {OPTUNA}")


def make_moto_venv() -> Path:
    """An environment with moto, which plays AWS in memory."""
    return _make_venv("moto", [MOTO], stamp=f"{sys.version} {MOTO}")


def make_traceml_venv() -> Path:
    """An environment with TraceML; torch comes from the one that measures."""
    return _make_venv("traceml", list(TRACEML), stamp=f"{sys.version} {TRACEML}")


def make_stock_smdebug() -> Path:
    """A folder with smdebug 1.0.34, fixed only as far as it takes to import and run it."""
    folder = _BUILD / "stock-smdebug"
    if not (folder / "smdebug").is_dir():
        say("fetching smdebug's published wheel, once …")
        lock = _REPOSITORY / "docker/smdebug.lock"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        _check([*pip, "--no-deps", "--require-hashes", "--dest", str(_BUILD), "-r", str(lock)])
        (published,) = _BUILD.glob("smdebug-1.0.34-*.whl")
        from stoker.debugging.repack import repack

        with zipfile.ZipFile(repack(published, _BUILD, level=1)) as archive:
            archive.extractall(folder)
    return folder


def _make_venv(name: str, requirements: list[str], *, stamp: str) -> Path:
    venv = _BUILD / name
    stamp_file = venv / "stamp"
    if stamp_file.is_file() and stamp_file.read_text() == stamp:
        return venv
    say(f"making the environment of {name}, once (up to a minute) …")
    _check([sys.executable, "-m", "venv", "--clear", str(venv)])
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
    _check([*pip, "install", "--quiet", *requirements])
    stamp_file.write_text(stamp)  # last: half an environment is made again
    return venv


def _fingerprint() -> str:
    digest = hashlib.sha256()
    sources = (file for file in (_REPOSITORY / "container_src").rglob("*") if file.is_file())
    for file in sorted([_REPOSITORY / "pyproject.toml", *sources]):
        if file.suffix != ".pyc":
            digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()


def _check(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PIP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CannotMeasure(f"{' '.join(argv[:4])} … took too long") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise CannotMeasure(f"{' '.join(argv[:4])} … failed: {' '.join(said)}")
