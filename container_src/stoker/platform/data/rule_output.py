"""What the rules of a job have found, in S3: a file for each rule, as the service has a folder.

<OutputDataConfig.S3OutputPath>/<job>/rule-output/<rule>/findings.jsonl
<OutputDataConfig.S3OutputPath>/<job>/rule-output/report.html
<OutputDataConfig.S3OutputPath>/<job>/rule-output/ProfilerReport/profiler-output/profiler-report.html
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

from stoker.platform.data.confined import Parts, read_start
from stoker.platform.data.storage import S3Uri, Storage, parse_uri
from stoker.platform.model.request import TrainingRequest, report_uri

_FINDINGS: Parts = ("output", "data", "stoker", "findings.jsonl")
_REPORT: Parts = ("output", "data", "stoker", "report.html")
PROFILE_PAGE = "profiler-report.html"
_PROFILE: Parts = ("output", "data", "stoker", PROFILE_PAGE)
_MOST_BYTES = 64 << 20  # a job writes these files, and may write anything


def upload_findings(
    request: TrainingRequest, leader_dir: Path, storage: Storage, *, attempt: int
) -> None:
    """Upload what one attempt has found; done again, it gives the same.

    Args:
        request: the job.
        leader_dir: what was the leader's /opt/ml.
        storage: S3.
        attempt: from 1 on; a later one gets files of its own, for its disk was a fresh one.

    Raises:
        UploadFailed: S3 does not take it.
    """
    if not request.output_uri:  # a processing job has none
        return
    findings = sort_findings(read_start(leader_dir, _FINDINGS, _MOST_BYTES).splitlines())
    suffix = "" if attempt == 1 else f"-{attempt}"
    for rule in request.rules:
        if lines := findings.get(rule.name):
            place = parse_uri(rule.output_uri).join(rule.name, f"findings{suffix}.jsonl")
            storage.upload(io.BytesIO(b"".join(lines)), place, patient=True)
    # Also of rules that the platform was not told of: those of STOKER_RULES or stoker.toml.
    if page := read_start(leader_dir, _REPORT, _MOST_BYTES):
        place = parse_uri(report_uri(request.output_uri, request.name))
        storage.upload(io.BytesIO(page), place, patient=True)
    if page := read_start(leader_dir, _PROFILE, _MOST_BYTES):
        for place in list_page_places(request):
            storage.upload(io.BytesIO(page), place.join(PROFILE_PAGE), patient=True)


def list_page_places(request: TrainingRequest) -> list[S3Uri]:
    """Where the page of the profiler belongs: a folder for each rule ProfilerReport.

    A job without such a rule has one of that name.
    """
    asked = [
        parse_uri(rule.output_uri).join(rule.name, "profiler-output")
        for rule in request.profiler_rules
        if rule.parameters.get("rule_to_invoke") == "ProfilerReport"
    ]
    place = parse_uri(f"{request.output_uri}/{request.name}/rule-output")
    return asked or [place.join("ProfilerReport", "profiler-output")]


def sort_findings(lines: Iterable[bytes]) -> dict[str, list[bytes]]:
    """Rule → its lines; one that is not a finding (half-written) is left out."""
    found: dict[str, list[bytes]] = {}
    for line in lines:
        try:
            rule = json.loads(line)["rule"]
        except (ValueError, RecursionError, TypeError, KeyError):
            continue
        if isinstance(rule, str):
            found.setdefault(rule, []).append(line + b"\n")
    return found
