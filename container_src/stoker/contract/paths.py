"""Where everything is: `/opt/ml`, or the same tree under another root.

Paths are texts here and in the launcher: `import pathlib` alone costs a seventh of its start
(docs/decisions/0003). What scripts get from a `Job` are `pathlib.Path`s.
"""

from __future__ import annotations

import os

from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OPT_ML = "/opt/ml"
ROOT_VARIABLE = "STOKER_ROOT"
"""Names another root: a job without Docker, a test, several jobs on one machine."""

LAPTOP_ROOT = "stoker-job"
"""Folder of the working directory that is used instead of /opt/ml where there is none."""


class Paths(Record):
    """The folders and files of the contract under one root."""

    root: str

    @property
    def input_dir(self) -> str:
        return f"{self.root}/input"

    @property
    def config_dir(self) -> str:
        return f"{self.root}/input/config"

    @property
    def data_dir(self) -> str:
        return f"{self.root}/input/data"

    @property
    def code_dir(self) -> str:
        return f"{self.root}/code"

    @property
    def model_dir(self) -> str:
        return f"{self.root}/model"

    @property
    def output_dir(self) -> str:
        return f"{self.root}/output"

    @property
    def output_data_dir(self) -> str:
        return f"{self.root}/output/data"

    @property
    def intermediate_dir(self) -> str:
        return f"{self.root}/output/intermediate"

    @property
    def failure_file(self) -> str:
        return f"{self.root}/output/failure"

    @property
    def success_file(self) -> str:
        return f"{self.root}/output/success"

    @property
    def checkpoint_dir(self) -> str:
        return f"{self.root}/checkpoints"

    @property
    def tensorboard_dir(self) -> str:
        return f"{self.root}/output/tensorboard"

    @property
    def warm_pool_dir(self) -> str:
        return f"{self.root}/sagemaker/warmpoolcache"

    def config_file(self, name: str) -> str:
        return f"{self.config_dir}/{name}"


def read_paths(environ: Mapping[str, str] | None = None) -> Paths:
    """The tree of this process: the root named, else /opt/ml, else a folder right here."""
    named = (os.environ if environ is None else environ).get(ROOT_VARIABLE)
    if named:
        return Paths(root=os.path.abspath(named))
    return Paths(root=OPT_ML if os.path.isdir(OPT_ML) else os.path.abspath(LAPTOP_ROOT))
