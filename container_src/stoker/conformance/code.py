"""Group B, the code: the ways it arrives, with and without a network."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stoker.conformance.bucket import Bucket, serve
from stoker.conformance.check import Failed, check, require
from stoker.conformance.lab import Container, Lab
from stoker.conformance.opt_ml import OptMl
from stoker.conformance.probe import TELL, read_told
from stoker.conformance.script import Language, Script, program_name, spell

_ARCHIVE = "sourcedir.tar.gz"
_CHANNEL = {"code": {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}}
# What is imported is next to the script, as in a real source directory.
_SCRIPT = Script(python=TELL + "from neighbour import NAME\ntell(name=NAME)\n", sh="neighbour")
ISOLATED = ("--network", "none", "--hostname", "algo-1", "--add-host", "algo-1:127.0.0.1")
_NO_REGION = ("--env", "AWS_REGION")  # without a value: removed again


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """One way of handing over the code, laid out and ready to start."""

    opt_ml: OptMl
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    def start(self, lab: Lab, *options: str) -> Container:
        return lab.start(self.opt_ml, *self.options, *options, environ=self.environ)


Way = Callable[[Lab], Delivery]


def _baked(lab: Lab) -> Delivery:
    job, mount = _make_baked(lab)
    environ = {"SAGEMAKER_PROGRAM": f"/opt/program/{job.program}"}
    return Delivery(opt_ml=job, options=mount, environ=environ)


def _baked_in_two_parts(lab: Lab) -> Delivery:
    job, mount = _make_baked(lab)
    environ = {"SAGEMAKER_PROGRAM": job.program, "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/program"}
    return Delivery(opt_ml=job, options=mount, environ=environ)


def _make_baked(lab: Lab) -> tuple[OptMl, tuple[str, ...]]:
    job = _make_job(lab, {})
    _write_tree(job, "../program")
    return job, ("--volume", f"{job.root.parent / 'program'}:/opt/program:ro")


def _archive_in_channel(lab: Lab) -> Delivery:
    location = f"/opt/ml/input/data/code/{_ARCHIVE}"
    job = _make_job(lab, {"sagemaker_submit_directory": f'"{location}"'}, channel=True)
    file = job.root / f"input/data/code/{_ARCHIVE}"
    file.parent.mkdir()
    file.write_bytes(make_archive("sent", lab.language))
    return Delivery(opt_ml=job)


def _mounted(lab: Lab) -> Delivery:
    job = _make_job(lab, {"sagemaker_submit_directory": '"/opt/ml/code"'})
    _write_tree(job, "code")
    return Delivery(opt_ml=job)


def _tree_in_channel(lab: Lab) -> Delivery:
    job = _make_job(lab, {}, channel=True)
    _write_tree(job, "input/data/code")
    return Delivery(opt_ml=job, environ={"SAGEMAKER_PROGRAM": job.program})


def _tree_named(lab: Lab) -> Delivery:
    job = _make_job(lab, {"sagemaker_submit_directory": '"/opt/ml/input/data/code"'}, channel=True)
    _write_tree(job, "input/data/code")
    return Delivery(opt_ml=job)


# Each way, and another spelling of it where launchers differ: either is enough.
_WAYS: dict[str, tuple[Way, ...]] = {
    "baked into the image": (_baked, _baked_in_two_parts),
    "sent as an archive": (_archive_in_channel,),
    "mounted at /opt/ml/code": (_mounted,),
    "sent as a tree": (_tree_in_channel, _tree_named),
}


@check(
    20,
    "Code arrives in five ways",
    group="input",
    contract="Code is baked into the image outside /opt/ml, uploaded to S3, sent as an archive or "
    "as a tree in the channel `code`, or mounted at /opt/ml/code. Where there are two, uploaded "
    "code is never left aside without a word.",
    source="guide (image), SDK v2 (S3, archive), SDK v3 (tree), local mode (mount)",
    how="one job for each way, S3 being a small server on this machine; then one with old code in "
    "/opt/ml/code and new code uploaded",
    fix="look at SAGEMAKER_PROGRAM and SAGEMAKER_SUBMIT_DIRECTORY, the hyperparameters of the "
    "same names, the channel `code` and /opt/ml/code, and print which one is used",
    limit_seconds=150,
)
def code_arrives_in_five_ways(lab: Lab) -> str:
    with serve(lab, _ARCHIVE, make_archive("sent", lab.language)) as bucket:
        faults = _try_ways(lab)
        uploaded = _try_upload(lab, bucket, faults)
        seen = _try_both(lab, bucket if uploaded else None, faults)
    require(not faults, "; ".join(faults))
    upload = "uploaded to S3" if uploaded else "(S3 could not be tried on this machine)"
    return f"code ran that was {', '.join(_WAYS)}, {upload}; {seen}"


@check(
    22,
    "No credentials, no delay",
    group="input",
    contract="A job may have neither credentials nor a network. Nothing at start calls AWS or "
    "waits for it.",
    source="guide (network isolation)",
    how="no network, no AWS_* variable; the time is compared with a run that has a network",
    fix="make no AWS call unless the job needs it: no region look-up, no metadata, no telemetry",
)
def no_credentials_no_delay(lab: Lab) -> str:
    alone = _mounted(lab)
    seconds = read_told(alone.start(lab, *ISOLATED, *_NO_REGION), alone.opt_ml)["seconds"]
    usual = _usual_seconds(lab)
    _require_prompt("without a network", seconds, usual)
    return f"{seconds:.1f} s without a network and credentials, {usual:.1f} s with a network"


@check(
    23,
    "Network isolation",
    group="input",
    contract="Without a network, code arrives in the image, in the channel `code` or by a mount, "
    "and the script starts in the usual time.",
    source="guide; SDK v2 sends an archive in that case",
    how="each of these ways without a network; the time is compared with a run that has one",
    fix="fetch nothing that is on the machine already; resolve no names for a single host",
    limit_seconds=150,
)
def network_isolation(lab: Lab) -> str:
    usual = _usual_seconds(lab)
    took: dict[str, float] = {}
    faults = _try_ways(lab, *ISOLATED, took=took)
    require(not faults, f"without a network, {'; '.join(faults)}")
    for name, seconds in took.items():
        _require_prompt(name, seconds, usual)
    return f"{', '.join(took)}: at most {max(took.values()):.1f} s, {usual:.1f} s with a network"


def make_archive(name: str, language: Language) -> bytes:
    """sourcedir.tar.gz as the SDK makes it; the script tells `name`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for file, text in _tree(name, language).items():
            member = tarfile.TarInfo(file)
            member.size, member.mode = len(text.encode()), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _tree(name: str, language: Language) -> dict[str, str]:
    neighbour = ("neighbour.sh", f"NAME={name}\n")
    if language != "sh":
        neighbour = ("neighbour.py", f"NAME = {name!r}\n")
    return {program_name(language): spell(_SCRIPT, language), neighbour[0]: neighbour[1]}


def _write_tree(job: OptMl, folder: str, name: str = "sent") -> None:
    language: Language = "sh" if job.program == program_name("sh") else "python"
    for file, text in _tree(name, language).items():
        job.write(f"{folder}/{file}", text)


def _make_job(lab: Lab, hyperparameters: Mapping[str, str], *, channel: bool = False) -> OptMl:
    """A job without code; without hyperparameters the image itself names the program."""
    job = lab.job(channels=_CHANNEL if channel else {})
    # /opt/ml/code has a script in every other job, and some launchers prefer what is there.
    shutil.rmtree(job.root / "code")
    (job.root / "code").mkdir()
    # SDK v2 writes each value as JSON, so a text has quotes around it.
    program = {"sagemaker_program": json.dumps(job.program)} if hyperparameters else {}
    job.config("hyperparameters", {**program, **hyperparameters})
    return job


def _try_ways(lab: Lab, *options: str, took: dict[str, float] | None = None) -> list[str]:
    """What is wrong with the ways that need no S3; `took` gets the seconds of the others."""
    took = {} if took is None else took
    first = {name: ways[0](lab) for name, ways in _WAYS.items()}
    # All at once, then one after the other: a start takes seconds in the slow launchers.
    runs = {name: delivery.start(lab, *options) for name, delivery in first.items()}
    faults = {name: _fault(runs[name], first[name], name, took) for name in _WAYS}
    for name, (_, *others) in _WAYS.items():
        for way in others if faults[name] else ():
            other = way(lab)
            also = _fault(other.start(lab, *options), other, name, took)
            faults[name] = f"{faults[name]}; spelt otherwise, {also}" if also else ""
    return [fault for fault in faults.values() if fault]


def _fault(run: Container, delivery: Delivery, name: str, took: dict[str, float]) -> str:
    try:
        found = read_told(run, delivery.opt_ml, name)
    except Failed as failure:
        return str(failure)
    if found["name"] != "sent":
        return f"{name}: other code ran ({found['name']})"
    took[name] = found["seconds"]
    return ""


# It went to the real S3, or to nowhere, with the stand-in's dummy keys.
_ELSEWHERE = re.compile(
    r"amazonaws\.com|AccessKeyId|EndpointConnection|ConnectTimeout|Connect.*timed"
)


def _try_upload(lab: Lab, bucket: Bucket | None, faults: list[str]) -> bool:
    """Whether S3 could be tried."""
    if bucket is None:
        return False
    delivery = _make_upload(lab, bucket)
    run = delivery.start(lab)
    fault = _fault(run, delivery, "uploaded to S3", {})
    # SDKs from before 2023 ignore AWS_ENDPOINT_URL_S3: the launcher is not at fault.
    if fault and not bucket.asked and _ELSEWHERE.search(run.logs()):
        return False
    faults += [fault] if fault else []
    return True


def _make_upload(lab: Lab, bucket: Bucket) -> Delivery:
    job = _make_job(lab, {"sagemaker_submit_directory": f'"{bucket.uri}"'})
    return Delivery(opt_ml=job, environ=bucket.environ)


_LEFT_ASIDE = re.compile(r"ignor|not used|unused|skip|instead|wins|already", re.I)


def _try_both(lab: Lab, bucket: Bucket | None, faults: list[str]) -> str:
    """Old code in /opt/ml/code, as images have it that follow the guide, and new code sent."""
    delivery = _make_upload(lab, bucket) if bucket else _archive_in_channel(lab)
    _write_tree(delivery.opt_ml, "code", name="old")
    try:
        found = read_told(delivery.start(lab), delivery.opt_ml, "old and new code together")
    except Failed as failure:
        faults.append(str(failure))
        return ""
    if found["name"] == "sent":
        return "new code won over old code in /opt/ml/code"
    # Old code may win, but only with a line that names what was left aside.
    lines = [line for line in found["log"].splitlines() if _ARCHIVE in line]
    if not any(_LEFT_ASIDE.search(line) for line in lines):
        faults.append("code in /opt/ml/code ran, and the uploaded code was left aside silently")
    return "old code in /opt/ml/code won, and the log says so"


def _usual_seconds(lab: Lab) -> float:
    usual = _mounted(lab)
    return float(read_told(usual.start(lab), usual.opt_ml, "with a network")["seconds"])


def _require_prompt(name: str, seconds: float, usual: float) -> None:
    # The contract gives no number: only what waits for a network takes this much longer.
    require(
        seconds <= 3 * usual + 10,
        f"{name}: {seconds:.1f} s, but {usual:.1f} s with a network: something waits for one",
    )
