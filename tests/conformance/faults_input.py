"""Faults of the group `input`: one for each check (see faults.py).

`FAULTS` patches the launcher inside the container; `IMAGES` adds lines to the Dockerfile; `ALSO`
declares, with the reason, which other checks a fault fails (`make cross` tries it).
"""

from __future__ import annotations

import importlib
import os
import time


def _module(name):
    return importlib.import_module(f"stoker.{name}")


def quotes_are_kept():
    """10: texts keep quotes around them on the command line."""
    plan = _module("runtime.plan")
    original = plan.make_arguments
    plan.make_arguments = lambda values: [
        argument if argument[:1] == "-" else repr(argument) for argument in original(values)
    ]


def everything_is_copied():
    """11: JSON copies are passed on whatever their length."""
    _module("runtime.plan").drop_oversized = lambda variables, other_strings: (variables, [])


def channel_names_are_words():
    """12: takes only channel names that are letters and digits."""
    _module("contract.channels").is_channel_name = str.isalnum


def groups_are_required():
    """13: does not know the minimal form, which has no instance groups."""
    _module("contract.cluster")._list = lambda raw, key, file: raw[key]


def peers_are_awaited_silently():
    """14: waits for the other hosts without saying so."""
    plan = _module("runtime.plan")
    original = plan._peer_steps

    def silent(job, distribution):
        return tuple(
            plan.Step(
                name=step.name,
                argv=("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh", *step.argv),
                environ=step.environ,
                folder=step.folder,
            )
            for step in original(job, distribution)
        )

    plan._peer_steps = silent


def local_paths_are_ignored():
    """15: names the default folders whatever LocalPath says."""
    _module("contract.services")._local_path = lambda config, default: default


def channels_are_what_lies_there():
    """16: takes everything in input/data for a channel."""
    job = _module("contract.job")
    channels = _module("contract.channels")
    original = job.read_channels

    def listed(paths):
        found = original(paths)
        by_name = {
            name: channels.Channel(name=name, path=f"{paths.data_dir}/{name}")
            for name in os.listdir(paths.data_dir)
        }
        return channels.Channels(by_name=by_name, raw=found.raw)

    job.read_channels = listed


def channels_are_locked():
    """17: leaves a lock file in each channel that is a folder."""

    def lock(channel):
        if os.path.isdir(channel.path):
            open(f"{channel.path}/.lock", "w").close()

    _before_the_script(lock)


def pipes_are_tried():
    """18: looks into the first FIFO of a channel."""

    def look(channel):
        if os.path.exists(channel.pipe(0)):
            open(channel.pipe(0)).close()

    _before_the_script(look)


def channels_are_measured():
    """19: adds up the files of each channel."""
    _before_the_script(lambda channel: list(os.walk(channel.path)))


def mounted_code_wins():
    """20: anything in /opt/ml/code wins, and nothing is said about it, as in the toolkit."""
    code, entry = _module("contract.code"), _module("runtime.entry")
    original = entry.find_code

    def find(paths, **settings):
        found = original(paths, **settings)
        mounted = code._mounted(paths)
        return code.Code(entry_point=found.entry_point, source=(mounted or [found.source])[0])

    entry.find_code = find


def lines_are_joined():
    """21: line breaks in values become spaces."""
    for name, text in os.environ.items():
        os.environ[name] = text.replace("\n", " ")


def aws_is_asked_first():
    """22: asks AWS who it is before anything else, and waits 20 s for an answer."""
    # No request is sent in fact: whether AWS can be reached depends on this machine.
    if not _has_network():
        time.sleep(20)


def code_is_fetched_from_afar():
    """23: looks up S3 for code that is in a channel."""
    entry = _module("runtime.entry")
    original = entry.make_fetch_step

    def fetch(job, code, mask):
        if "/input/data/" in code.source.location and not _has_network():
            raise OSError("s3.amazonaws.com: name or service not known")
        return original(job, code, mask)

    entry.make_fetch_step = fetch


def variables_are_missing():
    """24: sets neither the number of CPUs nor the folder for other output."""
    plan = _module("runtime.plan")
    original = plan.make_environment

    def fewer(job, **settings):
        variables = original(job, **settings)
        del variables["SM_NUM_CPUS"], variables["SM_OUTPUT_DATA_DIR"]
        return variables

    plan.make_environment = fewer


def _has_network():
    """Whether there is a route to anywhere; without a network there is only the loopback."""
    with open("/proc/net/route") as file:
        return len(file.readlines()) > 1


def _before_the_script(touch):
    entry = _module("runtime.entry")
    original = entry.make_folders

    def make(job, log):
        for channel in job.channels:
            touch(channel)
        original(job, log)

    entry.make_folders = make


FAULTS = {
    10: quotes_are_kept,
    11: everything_is_copied,
    12: channel_names_are_words,
    13: groups_are_required,
    14: peers_are_awaited_silently,
    15: local_paths_are_ignored,
    16: channels_are_what_lies_there,
    17: channels_are_locked,
    18: pipes_are_tried,
    19: channels_are_measured,
    20: mounted_code_wins,
    21: lines_are_joined,
    22: aws_is_asked_first,
    23: code_is_fetched_from_afar,
    24: variables_are_missing,
}
IMAGES: dict[int, tuple[str, str]] = {}

ALSO: dict[int, dict[str, set[int]]] = {
    10: {"the quotes make every value longer": {11}},
    22: {"both try a job without a network and compare the time": {23}},
}
