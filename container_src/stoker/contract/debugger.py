"""Where the debugger's files are, and the variables that set it up.

output/tensors/                    what the hook saves (debughookconfig.json may say elsewhere)
output/data/stoker/findings.jsonl  one finding a line, as it is made; part of output.tar.gz
output/data/stoker/rules.json      the status of each rule, replaced whenever it changes
output/data/stoker/notifications/  each message that a rule sent or would have sent
output/data/stoker/report.html     all of it for people, made at the end
output/data/stoker/rule-output/    what the profiler's rules have seen: a folder for each, as in S3
output/data/stoker/profiler-report.html   where time and money went
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from stoker.contract.paths import Paths

HOOK_VARIABLE = "STOKER_DEBUG"
"""What to save, in addition to debughookconfig.json: "collections=losses every=100"."""

RULES_VARIABLE = "STOKER_RULES"
"""The rules of a job. Long ones are cut in pieces: STOKER_RULES, STOKER_RULES_1, STOKER_RULES_2 …
SageMaker takes no value of more than 512 characters. The launcher has them checked, with those of
stoker.toml, and left in a file for workers and evaluator (bus.rule_plan)."""

DRY_RUN_VARIABLE = "STOKER_RULES_DRY_RUN"
"""Set to 1, the actions of all rules only say what they would do."""

FINISH_VARIABLE = "STOKER_RULES_FINISH_SECONDS"
"""How long the evaluator may take after the worker's end for the remaining steps (60)."""

CHECK_VARIABLE = "STOKER_RULES_CHECK_SECONDS"
"""How long a rule may take for one step before it is given up as an Error (300)."""

SMTP_VARIABLE = "STOKER_SMTP"
"""The mail server: smtp://user:password@host:port?from=me@example.com, or smtps://…"""

END_MARKER = "training_job_end.ts"
"""Readers of tensors and profiles wait until a file of this name appears next to them."""


def tensors_dir(paths: Paths, hook: Mapping[str, Any]) -> str:
    """Where the hook saves, given the content of debughookconfig.json (empty: none)."""
    return _folder(hook.get("LocalPath"), f"{paths.output_dir}/tensors")


def profiler_dir(paths: Paths, profiler: Mapping[str, Any]) -> str:
    """Where profiles are, given the content of profilerconfig.json (empty: none)."""
    parameters = profiler.get("ProfilingParameters")
    local_path = parameters.get("LocalPath") if isinstance(parameters, dict) else None
    return _folder(local_path, f"{paths.output_dir}/profiler")


def findings_file(paths: Paths) -> str:
    return f"{paths.output_data_dir}/stoker/findings.jsonl"


def rules_file(paths: Paths) -> str:
    return f"{paths.output_data_dir}/stoker/rules.json"


def report_file(paths: Paths) -> str:
    return f"{paths.output_data_dir}/stoker/report.html"


def profiler_report_file(paths: Paths) -> str:
    return f"{paths.output_data_dir}/stoker/profiler-report.html"


def rule_output_dir(paths: Paths) -> str:
    return f"{paths.output_data_dir}/stoker/rule-output"


def notifications_dir(paths: Paths) -> str:
    return f"{paths.output_data_dir}/stoker/notifications"


def join_rules(environ: Mapping[str, str]) -> str:
    """The rules as one text again; empty if there are none."""
    pieces = [environ.get(RULES_VARIABLE, "")]
    while pieces[-1]:
        pieces.append(environ.get(f"{RULES_VARIABLE}_{len(pieces)}", ""))
    return "".join(pieces)


def split_rules(text: str, *, limit_characters: int = 512) -> dict[str, str]:
    """The variables that carry a text of any length."""
    starts = range(0, len(text), limit_characters)
    pieces = [text[start : start + limit_characters] for start in starts]
    names = [RULES_VARIABLE, *(f"{RULES_VARIABLE}_{n}" for n in range(1, len(pieces)))]
    return dict(zip(names, pieces, strict=False))


def carries_rules(name: str) -> bool:
    """Whether a variable holds rules, or a piece of them; others that begin alike are settings."""
    piece = f"{RULES_VARIABLE}_"
    return name == RULES_VARIABLE or (name.startswith(piece) and name[len(piece) :].isdigit())


def _folder(local_path: object, default: str) -> str:
    is_usable = isinstance(local_path, str) and local_path and "\0" not in local_path
    return str(local_path).rstrip("/") if is_usable else default
