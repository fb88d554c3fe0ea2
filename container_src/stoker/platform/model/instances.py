"""Which instances a request asks for, in each of the three forms that the service accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.contract.cluster import DEFAULT_GROUP

_EXCLUDED = ("InstanceType", "InstanceGroups", "InstancePlacementConfig")


def choose_groups(resources: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The groups of a ResourceConfig: its own, its one kind, or its first preference.

    The local platform has capacity for every type, so the first preference is always taken.
    """
    if groups := resources.get("InstanceGroups"):
        return list(groups)
    first = (resources.get("InstancePreferences") or [resources])[0]
    count = first.get("InstanceCount", resources.get("InstanceCount", 1))
    return [
        {
            "InstanceGroupName": DEFAULT_GROUP,
            "InstanceType": first["InstanceType"],
            "InstanceCount": count,
        }
    ]


def describe_choice(resources: Mapping[str, Any]) -> dict[str, Any]:
    """What DescribeTrainingJob adds when a preference was taken."""
    if not resources.get("InstancePreferences"):
        return {}
    (group,) = choose_groups(resources)
    return {
        "SelectedInstanceType": group["InstanceType"],
        "SelectedInstanceCount": group["InstanceCount"],
    }


def find_preference_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    """What the service documents about InstancePreferences."""
    resources = raw["ResourceConfig"]
    preferences = resources["InstancePreferences"]
    others = [key for key in _EXCLUDED if key in resources]
    if raw.get("EnableManagedSpotTraining"):
        others.append("EnableManagedSpotTraining")
    if others:
        yield f"InstancePreferences can't be specified together with {' and '.join(others)}."
    kinds = [each["InstanceType"] for each in preferences]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        yield f"InstancePreferences must have unique instance types, but '{kind}' is repeated."
    counted = sum("InstanceCount" in each for each in preferences)
    if ("InstanceCount" in resources) == bool(counted) or counted not in (0, len(preferences)):
        yield "InstanceCount must be in all of InstancePreferences, or in ResourceConfig only."
    if "TrainingPlanArn" in resources and any("TrainingPlanArns" in p for p in preferences):
        yield "TrainingPlanArns of a preference can't be specified together with TrainingPlanArn."
