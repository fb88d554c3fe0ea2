"""The job's inputs: one folder (or FIFO series) per channel."""

from __future__ import annotations

from stoker.contract.files import read_object
from stoker.contract.record import Record
from stoker.errors import ChannelMissing, ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from stoker.contract.paths import Paths

# The API's TrainingInputMode. Anything else in the file is a damaged file, not a newer service.
INPUT_MODES = ("File", "FastFile", "Pipe")
_LONGEST_NAME = 64  # the service's limit


class Channel(Record):
    """One named input. Nothing here touches the data: it may be huge, remote or a FIFO."""

    name: str
    path: str
    """The folder of the channel; in Pipe mode the common beginning of the FIFOs' names."""
    input_mode: str = "File"
    """`File`, `FastFile` (read-only) or `Pipe`."""
    content_type: str | None = None
    distribution: str = "FullyReplicated"
    """`FullyReplicated`, or `ShardedByS3Key` when each host sees its own part."""
    record_wrapper: str = "None"

    def pipe(self, epoch: int) -> str:
        """The FIFO of one epoch, in Pipe mode. It appears late: retry until it exists."""
        return f"{self.path}_{epoch}"


class Channels(Record):
    """All channels of the job, in the order of the file."""

    by_name: Mapping[str, Channel]
    raw: Mapping[str, Any]
    """inputdataconfig.json as it is, for `SM_INPUT_DATA_CONFIG`."""

    def __iter__(self) -> Iterator[Channel]:
        return iter(self.by_name.values())

    def get(self, name: str) -> Channel:
        """Raises `ChannelMissing`, naming the channels there are."""
        if name in self.by_name:
            return self.by_name[name]
        raise ChannelMissing(
            f"channel {name!r} was asked for, but this job has: "
            f"{', '.join(self.by_name) or 'none'}",
            fix=f"pass it when you start the job: fit({{{name!r}: 's3://…'}})",
        )


def read_channels(paths: Paths) -> Channels:
    """Reads inputdataconfig.json; no file means no channels."""
    file = paths.config_file("inputdataconfig.json")
    raw = read_object(file)
    channels = {name: _make_channel(name, settings, paths) for name, settings in raw.items()}
    return Channels(by_name=channels, raw=raw)


def _make_channel(name: str, settings: object, paths: Paths) -> Channel:
    file = paths.config_file("inputdataconfig.json")
    if not is_channel_name(name):
        raise ConfigInvalid(
            f"{file}: {name!r} is not a valid channel name",
            fix="use 1 to 64 letters, digits, '.', '-' or '_'",
        )
    if not isinstance(settings, dict):
        raise ConfigInvalid(
            f"{file}: channel {name!r} is {settings!r:.80}, but an object was expected",
            fix='write {"TrainingInputMode": "File"}',
        )
    mode = settings.get("TrainingInputMode", "File")
    if mode not in INPUT_MODES:
        raise ConfigInvalid(
            f"{file}: channel {name!r} has TrainingInputMode {mode!r:.80}",
            fix=f"use one of {', '.join(INPUT_MODES)}",
        )
    # Optional in the request, and then missing from the file.
    content_type = settings.get("ContentType")
    return Channel(
        name=name,
        path=f"{paths.data_dir}/{name}",
        input_mode=mode,
        content_type=None if content_type is None else str(content_type),
        distribution=str(settings.get("S3DistributionType", "FullyReplicated")),
        record_wrapper=str(settings.get("RecordWrapperType", "None")),
    )


def is_channel_name(name: str) -> bool:
    """Whether SageMaker takes this as the name of a channel."""
    # The API's pattern, [A-Za-z0-9.\-_]{1,64}, without `re`: the launcher does not import it.
    letters = name.replace(".", "").replace("-", "").replace("_", "")
    # `.` and `..` fit the published pattern too, but would name another folder.
    fits = name.isascii() and (letters.isalnum() or not letters) and bool(name.strip("."))
    return fits and len(name) <= _LONGEST_NAME
