"""The published smdebug wheel is really fetched, really repacked and really used."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from stoker.debugging import repack

ROOT = Path(__file__).resolve().parents[2]
PROTO_MODULES = (
    *("attr_value", "event", "graph", "node_def", "resource_handle"),
    *("summary", "tensor", "tensor_shape", "types", "versions"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel that docker/smdebug.lock names, checked by pip against the lock's hash."""
    folder = tmp_path_factory.mktemp("upstream")
    lock = ROOT / "docker/smdebug.lock"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "--dest", folder, "-r", lock], check=True, timeout=120)
    return next(folder.glob("smdebug-*.whl"))


@pytest.fixture(scope="module")
def repacked(wheel, tmp_path_factory) -> Path:
    return repack.repack(wheel, tmp_path_factory.mktemp("repacked"))


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_name_carries_a_local_version(repacked):
    assert repacked.name == "smdebug-1.0.34+stoker1-py2.py3-none-any.whl"


def test_the_metadata_declares_what_smdebug_imports(repacked):
    info = f"smdebug-{repack.VERSION}.dist-info"
    metadata = Parser().parsestr(read(repacked)[f"{info}/METADATA"].decode())
    assert metadata["Version"] == "1.0.34+stoker1"
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


def test_the_record_lists_every_file_with_its_hash(repacked):
    files = read(repacked)
    record = files.pop(f"smdebug-{repack.VERSION}.dist-info/RECORD").decode().splitlines()
    listed = {
        name: (digest, size) for name, digest, size in (row.rsplit(",", 2) for row in record)
    }
    assert listed.pop(f"smdebug-{repack.VERSION}.dist-info/RECORD") == ("", "")
    assert listed.keys() == files.keys()
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        assert listed[name] == (f"sha256={digest}", str(len(content)))


def test_each_changed_file_says_so_and_all_others_are_untouched(wheel, repacked):
    old, new = read(wheel), read(repacked)
    changes = new[f"smdebug-{repack.VERSION}.dist-info/STOKER-CHANGES"].decode()
    changed = {name for name in old if name.endswith(".py") and old[name] != new[name]}
    assert len(changed) == len(repack.EDITS) + 10  # ten protobuf modules
    for name in changed:
        assert b"Changed by Stoker from smdebug 1.0.34" in new[name].splitlines()[0], name
        assert name in changes
    licence = "dist-info/LICENSE"
    assert old[f"smdebug-1.0.34.{licence}"] == new[f"smdebug-{repack.VERSION}.{licence}"]


def test_the_same_input_gives_the_same_bytes(wheel, repacked, tmp_path):
    assert repack.repack(wheel, tmp_path).read_bytes() == repacked.read_bytes()


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_strtobool_reads_the_same_words_as_distutils():
    namespace: dict = {}
    exec(repack._STRTOBOOL_MODULE, namespace)
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


def test_it_runs_as_a_plain_file_before_stoker_is_installed(wheel, tmp_path):
    program = [sys.executable, "-I", repack.__file__]
    done = subprocess.run(
        [*program, wheel, tmp_path / "out"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").glob("*+stoker1-*.whl"))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "usage:"),
        (["nowhere.whl", "out"], 3, "fix: pip download --no-deps smdebug==1.0.34"),
    ],
)
def test_mistakes_on_the_command_line_are_explained(arguments, code, says, capsys, tmp_path):
    assert repack.main([str(tmp_path / part) for part in arguments]) == code
    assert says in capsys.readouterr().err
