"""Group B, the data: channels of every input mode, and config files of other services."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from stoker.conformance.check import Failed, check, require
from stoker.conformance.lab import Lab
from stoker.conformance.opt_ml import OptMl
from stoker.conformance.probe import TELL, TELL_ENVIRONMENT, read_told
from stoker.conformance.script import Script

_DATA = "/opt/ml/input/data"
_START_SECONDS = 30.0
"""A launcher that has not started the script by then hangs; the slowest known takes 10 s."""


def _channel(mode: str) -> dict[str, str]:
    return {
        "TrainingInputMode": mode,
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }


_NAMES = ("train", "my-data", "val.v2", "UPPER_case")


@check(
    12,
    "Channels of any legal name, and no channels",
    group="input",
    contract="Channel names hold letters, digits, `.`, `-` and `_`; each has its folder below "
    "/opt/ml/input/data and its SM_CHANNEL_NAME. Without channels the file may be absent.",
    source="API; guide; toolkit",
    how=f"channels {', '.join(_NAMES)}; then a job without inputdataconfig.json",
    fix="upper-case the name for the variable and take any character; absent means no channels",
)
def channels_of_any_name(lab: Lab) -> str:
    job = lab.job(TELL_ENVIRONMENT, channels={name: _channel("File") for name in _NAMES})
    for name in _NAMES:
        job.write(f"input/data/{name}/part.csv", "1,2\n")
    bare = lab.job(TELL_ENVIRONMENT)
    (bare.root / "input/config/inputdataconfig.json").unlink()
    runs = [lab.start(job), lab.start(bare)]
    environ = read_told(runs[0], job)["environ"]
    for name in _NAMES:
        # The stock toolkit only upper-cases the name. A shell cannot read `SM_CHANNEL_MY-DATA`, so
        # a launcher may also write `_` there.
        literal = f"SM_CHANNEL_{name.upper()}"
        readable = literal.replace("-", "_").replace(".", "_")
        folder = environ.get(literal, environ.get(readable))
        require(folder == f"{_DATA}/{name}", f"{literal} is {folder!r}")
    read_told(runs[1], bare, "without inputdataconfig.json")
    return f"{len(_NAMES)} channels have their variables; no file means no channels"


_OTHERS: dict[str, object] = {
    "checkpointconfig": {"LocalPath": "/opt/ml/checkpoints/here", "S3Uri": "s3://probe/c"},
    "tensorboardoutputconfig": {"LocalPath": "/opt/ml/output/tensorboard/here"},
    "debughookconfig": {"LocalPath": "/opt/ml/output/tensors", "CollectionConfigurations": []},
    "profilerconfig": {"ProfilingIntervalInMilliseconds": 500, "ProfilingParameters": {}},
    "init-config": {"unknown": [1, None, {"deep": True}]},
    "metric-definition-regex": [{"Name": "loss", "Regex": "loss: ([0-9.]+)"}],
    "trainingjobconfig": {"unknown": "text"},
    "upstreamoutputdataconfig": {},
}


@check(
    15,
    "Other config files do not disturb",
    group="input",
    contract="The platform leaves more files in input/config, known and unknown. None may disturb "
    "a run; a folder for checkpoints or TensorBoard that the image names is the file's LocalPath.",
    source="guide (LocalPath); seen (the undocumented files)",
    how=f"all of them are added: {', '.join(_OTHERS)}",
    fix="read only the keys you know, take any others; SM_CHECKPOINT_DIR and SM_TENSORBOARD_DIR, "
    "where they are set, follow LocalPath",
)
def other_config_files_do_not_disturb(lab: Lab) -> str:
    job = lab.job(TELL_ENVIRONMENT)
    for name, content in _OTHERS.items():
        job.config(name, content)
    environ = read_told(lab.start(job), job)["environ"]
    followed = {
        "SM_CHECKPOINT_DIR": "/opt/ml/checkpoints/here",
        "SM_TENSORBOARD_DIR": "/opt/ml/output/tensorboard/here",
    }
    named = [name for name in followed if name in environ]
    for name in named:
        asked = followed[name]
        require(environ[name] == asked, f"{name} is {environ[name]}, but LocalPath is {asked}")
    if not named:
        return "the script ran; the image names no folders of its own for them"
    return f"the script ran; set to LocalPath: {', '.join(named)}"


_USE = Script(
    sh="use",
    python=TELL
    + """
folder = "/opt/ml/input/data/train"
text = open(folder + "/part.csv").read()
try:
    open(folder + "/written-by-the-script", "w").close()
    writable = True
except OSError:
    writable = False
tell(text=text, writable=writable, channels=os.environ.get("SM_CHANNELS"))
""",
)


@check(
    16,
    "File mode",
    group="input",
    contract="The channel is a folder of real files that the script may also write to; the "
    "platform may leave a file `<channel>-manifest` next to it, which is not a channel.",
    source="guide; seen (the manifest)",
    how="a channel with one file and a manifest next to it; the script reads, and writes",
    fix="take the channels from inputdataconfig.json, not from what is in input/data; leave the "
    "rights of the files alone",
)
def file_mode(lab: Lab) -> str:
    job = lab.job(_USE, channels={"train": _channel("File")})
    job.write("input/data/train/part.csv", "1,2\n")
    job.write("input/data/train-manifest", '[{"prefix": "s3://probe/train/"}]')
    found = read_told(lab.start(job), job)
    require(found["text"] == "1,2\n", f"the script read {found['text']!r}")
    require(found["writable"], "the script cannot write to its channel")
    # A launcher that sets no SM_CHANNELS fails check 24, not this one.
    channels = json.loads(found["channels"] or "null")
    require(channels in (None, ["train"]), f"SM_CHANNELS is {channels}, but there is only train")
    return "the script read and wrote its channel; the manifest is not a channel"


@check(
    17,
    "FastFile: a read-only channel",
    group="input",
    contract="In FastFile mode the channel is a read-only mount: nothing may need to write there.",
    source="guide",
    how="the channel is mounted read-only",
    fix="keep locks, caches and __pycache__ out of input/data",
)
def fast_file_mode(lab: Lab) -> str:
    job = lab.job(_USE, channels={"train": _channel("FastFile")})
    file = job.write("input/data/train/part.csv", "1,2\n")
    # Root ignores file modes, so only a mount can be read-only to it.
    mount = f"{file.parent}:{_DATA}/train:ro"
    found = read_told(lab.start(job, "--volume", mount), job)
    require(found["text"] == "1,2\n", f"the script read {found['text']!r}")
    require(not found["writable"], "the mount was writable: the engine cannot try this")
    return "the script read its channel from a read-only mount"


# The script is both ends of the pipe: it shows that no process has read from it.
_PIPE = Script(
    sh="pipe",
    python=TELL
    + """
import threading
print("PROBE runs", flush=True)
name = "/opt/ml/input/data/train_0"
def fill():
    with open(name, "w") as pipe:
        pipe.write("record")
threading.Thread(target=fill, daemon=True).start()
with open(name) as pipe:
    tell(text=pipe.read())
""",
)


@check(
    18,
    "Pipe mode: a FIFO per epoch",
    group="input",
    contract="In Pipe mode there is no folder but a FIFO `<channel>_0`; only the script opens it. "
    "Any other process that opens it hangs, or takes the first records.",
    source="guide",
    how="a FIFO that only the script writes to; the script must start and read it",
    fix="do not open, list or check channels in the launcher; do not make the channel's folder",
    limit_seconds=60,
)
def pipe_mode(lab: Lab) -> str:
    job = lab.job(_PIPE, channels={"train": _channel("Pipe")})
    # The service makes `<channel>_<epoch>`, and no folder `<channel>`.
    os.mkfifo(job.root / "input/data/train_0")
    found = _run_promptly(lab, job)
    require(found["text"] == "record", f"the script read {found['text']!r} from the FIFO")
    return "the launcher left the FIFO alone and the script read it"


def _run_promptly(lab: Lab, job: OptMl) -> dict[str, object]:
    container = lab.start(job)
    try:
        # A process that opens a FIFO without a peer blocks for good: the sign is that nothing is
        # printed.
        container.wait_for("PROBE runs", within_seconds=_START_SECONDS)
    except Failed as failure:
        raise Failed(
            f"the script did not start: something opened a FIFO in input/data? {failure}"
        ) from None
    return read_told(container, job)


_LIST = Script(
    sh="list",
    python=TELL
    + """
print("PROBE runs", flush=True)
tell(names=os.listdir("/opt/ml/input/data/control"))
""",
)
_LONG_AGO_SECONDS = 3 * 24 * 3600


@check(
    19,
    "A huge channel costs nothing",
    group="input",
    contract="A channel may hold millions of files, or be a remote file system: the launcher "
    "never walks, lists or opens it.",
    source="guide (file systems and FastFile as channels)",
    how="a channel with folders in it and a FIFO that hangs any process that opens it; "
    "afterwards the access times of the folders show whether they were listed",
    fix="no chown -R, du, listdir or glob on /opt/ml/input/data before the script starts",
    limit_seconds=60,
)
def huge_channel_costs_nothing(lab: Lab) -> str:
    job = lab.job(_LIST, channels={"train": _channel("File"), "control": _channel("File")})
    for name in ("train/a", "train/a/b", "control"):
        job.write(f"input/data/{name}/part.csv", "1,2\n")
    # In a subfolder: to find it, a process has to walk the channel, not only to list it.
    os.mkfifo(job.root / "input/data/train/a/fifo")
    data = job.root / "input/data"
    folders = [data / name for name in ("train", "train/a", "train/a/b")]
    for folder in (*folders, data / "control"):
        _age(folder)
    _run_promptly(lab, job)
    listed = [str(folder.relative_to(data)) for folder in folders if _was_listed(folder)]
    require(not listed, f"the launcher listed {', '.join(listed)}")
    # The script has listed this one. If that has left no trace (`noatime`), the others prove
    # nothing.
    if not _was_listed(data / "control"):
        return "the script started despite a FIFO; this file system keeps no access times"
    return "the channel's folders were not listed, and nothing in them was opened"


def _age(folder: Path) -> None:
    # Older than a day and than the last change: `relatime` then notes the next access.
    now = time.time()
    os.utime(folder, (now - _LONG_AGO_SECONDS, now - 60))


def _was_listed(folder: Path) -> bool:
    return time.time() - folder.stat().st_atime < _LONG_AGO_SECONDS / 2
