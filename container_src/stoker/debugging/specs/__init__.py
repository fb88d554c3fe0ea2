"""The rules of a job: in the service's JSON, in a short form, or in stoker.toml.

Standard library only: the command line, the launcher's helpers and the hook read them, too.
"""

from stoker.debugging.specs.making import check_specs, describe_needs, make_needs, make_rule
from stoker.debugging.specs.reading import (
    MOST_RULES,
    read_project_specs,
    read_specs,
    write_specs,
)
from stoker.debugging.specs.spec import Action, RuleSpec

__all__ = [
    "MOST_RULES",
    "Action",
    "RuleSpec",
    "check_specs",
    "describe_needs",
    "make_needs",
    "make_rule",
    "read_project_specs",
    "read_specs",
    "write_specs",
]
