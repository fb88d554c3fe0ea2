"""A throw-away /opt/ml for one container."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FOLDERS = ("input/config", "input/data", "model", "output/data", "code", "checkpoints")


@dataclass(frozen=True, kw_only=True, slots=True)
class OptMl:
    """The tree a container sees as /opt/ml."""

    root: Path
    program: str = "probe.py"
    """The entry point's file in code/."""

    def config(self, name: str, content: object) -> None:
        """Writes input/config/NAME.json; a text is written as it is."""
        text = content if isinstance(content, str) else json.dumps(content)
        self.write(f"input/config/{name}.json", text)

    def write(self, name: str, text: str) -> Path:
        """Writes any file below /opt/ml, dedented."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    def read(self, name: str) -> str:
        """What a container left in a file; empty if it left none."""
        try:
            return (self.root / name).read_text(errors="replace")
        except OSError:
            return ""


def make_opt_ml(
    root: Path,
    script: str,
    *,
    program: str = "probe.py",
    hyperparameters: Mapping[str, str] | None = None,
    channels: Mapping[str, Mapping[str, str]] | None = None,
    resources: Mapping[str, object] | None = None,
) -> OptMl:
    """Lays out a job as the service does it; `script` becomes the program in /opt/ml/code."""
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    opt_ml = OptMl(root=root, program=program)
    opt_ml.write(f"code/{program}", script)
    opt_ml.config(
        "hyperparameters",
        {
            "sagemaker_program": json.dumps(program),
            "sagemaker_submit_directory": '"/opt/ml/code"',
            # Last, so that a check can replace the two above.
            **(hyperparameters or {}),
        },
    )
    opt_ml.config("inputdataconfig", channels or {})
    opt_ml.config("resourceconfig", resources or make_resources("algo-1", ["algo-1"]))
    return opt_ml


def make_resources(current: str, hosts: list[str]) -> dict[str, object]:
    """resourceconfig.json in the service's full form."""
    group = {
        "instance_group_name": "homogeneousCluster",
        "instance_type": "ml.m5.large",
        "hosts": hosts,
    }
    return {
        "current_host": current,
        "hosts": hosts,
        "network_interface_name": "eth0",
        "current_instance_type": "ml.m5.large",
        "current_group_name": "homogeneousCluster",
        "instance_groups": [group],
    }
