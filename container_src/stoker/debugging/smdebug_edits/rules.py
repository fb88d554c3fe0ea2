"""Rules: the documentation's own example of a custom rule."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

EDITS = (
    Edit(
        path="smdebug/rules/rule.py",
        why="the documented constructor, super().__init__(base_trial), names no action",
        old="    def __init__(self, base_trial, action_str, other_trials=None):\n",
        new="    def __init__(self, base_trial, action_str=None, other_trials=None):\n",
    ),
    Edit(
        path="smdebug/trials/trial.py",
        why="the documented example of a rule asks for base_trial.tensors(collection=…)",
        old="    # * is used in python to force usage of named arguments\n    def tensor_names(\n",
        new="""\
    def tensors(self, **selection):
        return self.tensor_names(**selection)

    # * is used in python to force usage of named arguments
    def tensor_names(
""",
    ),
)
