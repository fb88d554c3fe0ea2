"""Which options belong to which place; loaded by every `stoker train`, so it imports little."""

from __future__ import annotations

import argparse

from stoker.machine.failures import UsageRefused

# Option → how it is written, for those that mean nothing on this machine.
_CLOUD_ONLY = {
    **{"region": "--region", "role": "--role", "output": "--output", "queue": "--queue"},
    **{"repository": "--repository", "use_spot": "--use-spot", "max_wait": "--max-wait"},
    **{"max_pending": "--max-pending", "instance_group": "--instance-group"},
    **{"prefer": "--prefer", "training_plan": "--training-plan", "subnet": "--subnet"},
    **{"security_group": "--security-group", "kms_key": "--kms-key", "priority": "--priority"},
    **{"volume_kms_key": "--volume-kms-key", "remote_debug": "--remote-debug"},
    **{"share": "--share", "allow_secrets": "--allow-secrets", "steps": "--steps"},
}
_LOCAL_ONLY = {"spot": "--spot", "root": "--root"}


def require_place(args: argparse.Namespace) -> None:
    """
    Raises:
        UsageRefused: an option belongs to the other place.
    """
    is_cloud = args.on == "sagemaker"
    wrong = _LOCAL_ONLY if is_cloud else _CLOUD_ONLY
    given = [text for name, text in wrong.items() if getattr(args, name, None)]
    if is_cloud and getattr(args, "engine", "auto") != "auto":
        given.append("--engine")
    if given and is_cloud:
        raise UsageRefused(
            f"{', '.join(given)}: of the local platform only",
            fix="leave it out; --use-spot asks SageMaker for spot instances",
        )
    if given:
        raise UsageRefused(
            f"{', '.join(given)}: for jobs on SageMaker only", fix="add --on sagemaker"
        )
