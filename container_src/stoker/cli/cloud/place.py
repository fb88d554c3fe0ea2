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
    _require_one_choice_of_machines(args)


def _require_one_choice_of_machines(args: argparse.Namespace) -> None:
    # Here, before stoker.toml is read: its instance_type is a default, which these replace.
    given = {"--instance-type": args.instance_type, "--instances": args.instances}
    also = [option for option, value in given.items() if value]
    if args.instance_group and also:
        raise UsageRefused(
            f"--instance-group has types and numbers of its own, but {' and '.join(also)} is given"
            ", too",
            fix="leave one of them out",
        )
    if args.prefer and args.instance_type:
        raise UsageRefused(
            "--prefer has the instance types in order, but --instance-type is given, too",
            fix=f"--prefer {args.instance_type},{args.prefer}",
        )
    if args.steps is not None and args.steps < 1:
        raise UsageRefused(f"--steps {args.steps}", fix="at least 1")
