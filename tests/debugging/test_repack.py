"""The published smdebug wheel is really fetched, really repacked and really used."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from stoker.debugging import repack
from stoker.debugging.smdebug_edits.needed import STRTOBOOL
from tests.smdebug_wheels import LOCK, fetch_published

ROOT = Path(__file__).resolve().parents[2]
PROTO_MODULES = (
    *("attr_value", "event", "graph", "node_def", "resource_handle"),
    *("summary", "tensor", "tensor_shape", "types", "versions"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return fetch_published(tmp_path_factory.mktemp("upstream"))


@pytest.fixture(scope="module", params=[1, 2])
def level(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def repacked(wheel, level, tmp_path_factory) -> Path:
    return repack.repack(wheel, tmp_path_factory.mktemp("repacked"), level=level)


@pytest.fixture(scope="module")
def info(level) -> str:
    return f"smdebug-1.0.34+stoker{level}.dist-info"


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_name_carries_a_local_version(repacked, level):
    assert repacked.name == f"smdebug-1.0.34+stoker{level}-py2.py3-none-any.whl"


def test_the_level_of_the_image_is_the_one_with_all_fixed(wheel, tmp_path):
    assert repack.repack(wheel, tmp_path).name.startswith(f"smdebug-{repack.VERSION}-")
    assert repack.VERSION == "1.0.34+stoker2"


def test_the_metadata_declares_what_smdebug_imports(repacked, level, info):
    metadata = Parser().parsestr(read(repacked)[f"{info}/METADATA"].decode())
    assert metadata["Version"] == f"1.0.34+stoker{level}"
    needs = metadata.get_all("Requires-Dist")
    assert {need.split()[0].split(">")[0] for need in needs} == {
        "boto3",
        "numpy",
        "packaging",
        "pandas",
        "protobuf",
        "psutil",
        "pyinstrument",
        "requests",
        "six",
    }
    assert not [need for need in needs if "<" in need or "==" in need]


def test_the_record_lists_every_file_with_its_hash(repacked, info):
    files = read(repacked)
    record = files.pop(f"{info}/RECORD").decode().splitlines()
    listed = {
        name: (digest, size) for name, digest, size in (row.rsplit(",", 2) for row in record)
    }
    assert listed.pop(f"{info}/RECORD") == ("", "")
    assert listed.keys() == files.keys()
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        assert listed[name] == (f"sha256={digest}", str(len(content)))


def test_each_changed_file_says_so_and_all_others_are_untouched(wheel, repacked, level, info):
    old, new = read(wheel), read(repacked)
    changes = new[f"{info}/STOKER-CHANGES"].decode()
    changed = {name for name in old if name.endswith(".py") and old[name] != new[name]}
    edited = {edit.path for edit in repack.EDITS[level]} | {"smdebug/_version.py"}
    protobuf = {f"smdebug/core/tfevent/proto/{name}_pb2.py" for name in PROTO_MODULES}
    assert changed == edited | protobuf
    for name in changed:
        assert b"Changed by Stoker from smdebug 1.0.34" in new[name].splitlines()[0], name
        assert name in changes
    assert old["smdebug-1.0.34.dist-info/LICENSE"] == new[f"{info}/LICENSE"]


def test_each_reason_is_at_the_head_of_the_file(repacked, level):
    files = read(repacked)
    for edit in repack.EDITS[level]:
        assert f": {edit.why}." in files[edit.path].decode(), edit.path


def test_every_module_compiles_without_a_warning(repacked):
    for name, content in read(repacked).items():
        if name.endswith(".py"):
            compile(content, name, "exec", dont_inherit=True)


def test_the_hash_in_the_program_is_that_of_the_lock():
    assert f"--hash=sha256:{repack.UPSTREAM_SHA256}" in LOCK.read_text()


def test_the_same_input_gives_the_same_bytes(wheel, repacked, level, tmp_path):
    assert repack.repack(wheel, tmp_path, level=level).read_bytes() == repacked.read_bytes()


def test_the_protobuf_modules_load_and_their_messages_survive_a_round_trip(repacked):
    # In a process of its own: the descriptor pool is one per process.
    code = f"""
import sys, types
sys.path.insert(0, {str(repacked)!r})
# The package's own __init__ imports NumPy and boto3: this test is about the messages only.
for name in ("smdebug", "smdebug.core", "smdebug.core.tfevent"):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [{str(repacked)!r} + "/" + name.replace(".", "/")]
import importlib
for name in {PROTO_MODULES}:
    importlib.import_module(f"smdebug.core.tfevent.proto.{{name}}_pb2")
from smdebug.core.tfevent.proto.event_pb2 import Event
from smdebug.core.tfevent.proto.types_pb2 import DT_FLOAT
event = Event(step=7)
event.summary.value.add(tag="loss").tensor.dtype = DT_FLOAT
again = Event.FromString(event.SerializeToString())
assert again == event and again.summary.value[0].tag == "loss"
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr


def test_strtobool_reads_the_same_words_as_distutils():
    namespace: dict = {}
    exec(STRTOBOOL, namespace)
    strtobool = namespace["strtobool"]
    assert [strtobool(word) for word in ("True", "y", "ON", "1")] == [1, 1, 1, 1]
    assert [strtobool(word) for word in ("false", "N", "off", "0")] == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="invalid truth value 'perhaps'"):
        strtobool("perhaps")


def test_another_wheel_is_refused_with_both_hashes(tmp_path):
    other = tmp_path / "smdebug-1.0.12-py2.py3-none-any.whl"
    other.write_bytes(b"not it")
    with pytest.raises(repack.RepackFailed, match=repack.UPSTREAM_SHA256):
        repack.repack(other, tmp_path)


def test_an_edit_that_does_not_fit_is_refused(wheel):
    files = read(wheel)
    files["smdebug/core/tfevent/util.py"] = b"x = 1\n"
    with pytest.raises(
        repack.RepackFailed, match=r"util\.py: expected .* exactly once, found it 0"
    ):
        repack.make_files(files)


def test_a_protobuf_module_of_another_shape_is_refused():
    with pytest.raises(repack.RepackFailed, match="serialized_pb"):
        repack.make_pb2("smdebug/core/tfevent/proto/x_pb2.py", "DESCRIPTOR = None\n")


def test_a_passage_may_be_named_by_its_ends(tmp_path):
    edit = repack.Edit("x.py", "why", old="b", until="d", new="-")
    assert edit.apply("abcde") == "a-de"
    with pytest.raises(repack.RepackFailed, match="'d' exactly once, found it 2"):
        edit.apply("abcded")
    with pytest.raises(repack.RepackFailed, match="'d' comes before 'b'"):
        edit.apply("dab")


@pytest.fixture
def build_stage(tmp_path) -> Path:
    """What docker/Dockerfile copies for the program: no more may be needed."""
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    copied = re.findall(r"^COPY container_src/(\S*debugging/\S*) /steps/(\S*)$", dockerfile, re.M)
    assert len(copied) == 2
    for source, target in copied:
        path = ROOT / "container_src" / source
        if path.is_dir():
            shutil.copytree(path, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (tmp_path / target).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / target)
    return tmp_path


def test_it_runs_in_the_build_before_stoker_is_installed(wheel, build_stage):
    program = [sys.executable, "-S", "-m", "stoker.debugging.repack"]
    done = subprocess.run(
        [*program, wheel, "out"],
        cwd=build_stage,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert list((build_stage / "out").glob("*+stoker2-*.whl"))


def test_a_missing_wheel_is_explained(capsys, tmp_path):
    assert repack.main([str(tmp_path / "nowhere.whl"), str(tmp_path / "out")]) == 3
    assert "fix: pip download --no-deps smdebug==1.0.34" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--level", "3", "x.whl", "out"]])
def test_mistakes_on_the_command_line_are_explained(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        repack.main(arguments)
    assert ended.value.code == 2
    assert "usage: repack" in capsys.readouterr().err
