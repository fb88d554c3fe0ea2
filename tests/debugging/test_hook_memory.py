"""Memory for the tensors of a step: as much as they need, within the bound, and used again."""

from __future__ import annotations

import torch
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.forms import Form
from stoker.debugging.hook.plan import WantedParameter
from stoker.debugging.hook.request import read_request

from .hook_trainings import Net, fit, plain_loss

ALL = read_request("collections=all every=1")
MB = 1 << 20


class WithPartElsewhere(Net):
    """Such as a part that is loaded later."""

    def __init__(self) -> None:
        super().__init__()
        self.later = nn.Linear(4000, 1000, device="meta")


def test_memory_is_taken_only_for_what_is_copied(tmp_path):
    with attach(ALL, tmp_path) as hook:
        fit(WithPartElsewhere(), plain_loss)
        assert hook._recorder.open.arena.size_bytes <= 2 * MB


def test_reductions_that_are_made_on_another_device_take_no_memory_here():
    reductions = Form(has_values=False, reductions=("max",), has_shape=False, histograms=())
    values = reductions._replace(has_values=True)
    here, elsewhere = torch.empty(1000), torch.empty(1000, device="meta")

    def copied_bytes(*forms: Form | None, of: torch.Tensor) -> int:
        return WantedParameter(Description(name="w"), None, forms).copied_bytes(of)

    assert copied_bytes(reductions, reductions, of=elsewhere) == 0
    assert copied_bytes(reductions, None, of=here) == 4064
    assert copied_bytes(values, reductions, of=elsewhere) == 4064
    assert copied_bytes(values, values, of=here.bfloat16()) == 2 * 4064
