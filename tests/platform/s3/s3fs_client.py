"""A user's script: s3fs, by which pandas and others read s3:// addresses."""

from __future__ import annotations

import json

import s3fs

LARGE = b"x" * (6 << 20)
fs = s3fs.S3FileSystem()
fs.mkdir("files")
with fs.open("files/a/large", "wb", block_size=5 << 20) as file:
    file.write(LARGE)
with fs.open("files/a/large", "ab") as file:
    file.write(b"yz")
fs.pipe({"files/a/b/one": b"1", "files/a/b/two": b"22"})
fs.cp("files/a/b", "files/copied/", recursive=True)
with fs.open("files/a/large", "rb") as file:
    file.seek(-3, 2)
    end = file.read()
found = {
    "end": end.decode(),
    "listed": sorted(fs.find("files")),
    "sizes": fs.du("files/a", total=False),
    "globbed": fs.glob("files/**/one"),
}
fs.rm("files", recursive=True)
print(json.dumps({**found, "is_gone": not fs.exists("files")}))
