from __future__ import annotations

import os

from stoker.bus.run_file import hash_folder, hash_inputs


def test_inputs_are_hashed_as_long_as_little_is_read(tmp_path):
    sizes = {"small": 10, "large": 65 << 20, "next": 20}
    for name, size in sizes.items():
        (tmp_path / name).mkdir()
        with (tmp_path / name / "data.bin").open("wb") as file:
            file.truncate(size)
    (tmp_path / "many").mkdir()
    for number in range(1001):
        (tmp_path / f"many/{number}").touch()
    os.mkfifo(tmp_path / "small/pipe")  # is not read
    folders = {name: str(tmp_path / name) for name in ("large", "small", "many", "next", "none")}
    found = hash_inputs(folders)
    assert list(found) == ["small", "next", "none"]
    assert found["small"] == hash_folder(folders["small"])
    assert (found["small"]["objects"], found["none"]["objects"]) == (1, 0)
    assert found["small"]["hash"] != found["next"]["hash"]
