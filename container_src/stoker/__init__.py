"""Stoker: what a training script may use, in one place.

Names are loaded on first use: `import stoker` costs a worker nothing it does not ask for.

Example:
    >>> import stoker
    >>> job = stoker.job()
    >>> hp = job.params(lr=1e-3, epochs=5)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.checkpoints.session import open_session as checkpoints
    from stoker.contract.params import Params
    from stoker.debugging.need import Need
    from stoker.debugging.rule import Finding, Rule, parameter
    from stoker.errors import StokerError
    from stoker.worker.script_job import Job
    from stoker.worker.script_job import read_script_job as job

__all__ = [
    "Finding",
    "Job",
    "Need",
    "Params",
    "Rule",
    "StokerError",
    "__version__",
    "checkpoints",
    "job",
    "parameter",
]
__version__ = "0.1.0"

_HOMES = {
    "Finding": ("stoker.debugging.rule", "Finding"),
    "Job": ("stoker.worker.script_job", "Job"),
    "Need": ("stoker.debugging.need", "Need"),
    "Params": ("stoker.contract.params", "Params"),
    "Rule": ("stoker.debugging.rule", "Rule"),
    "StokerError": ("stoker.errors", "StokerError"),
    # A package that can be called: stoker.checkpoints(job, …), stoker.checkpoints.Store(folder).
    "checkpoints": ("stoker.checkpoints", ""),
    "job": ("stoker.worker.script_job", "read_script_job"),
    "parameter": ("stoker.debugging.rule", "parameter"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    from importlib import import_module

    home, attribute = _HOMES[name]
    module = import_module(home)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value
