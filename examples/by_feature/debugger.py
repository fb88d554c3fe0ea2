"""The debugger: what the tensors of a training look like, without a line about it in the script.

On this machine, as a job of the local platform or of the launcher alone:
    stoker train examples/by_feature/debugger.py --env STOKER_DEBUG="collections=weights every=10"
On SageMaker (SDK v2), as ever:
    PyTorch(image_uri=…, entry_point="debugger.py", debugger_hook_config=DebuggerHookConfig(
        collection_configs=[CollectionConfig("gradients", {"save_interval": "10"})]), …).fit()

Then look at what was saved:
    stoker tensors ls DIR              # or s3://bucket/prefix/JOB/debug-output
    stoker tensors plot DIR --name gradient
or read it with smdebug itself:
    smd.create_trial(DIR).tensor("gradient/Classifier_body.0.weight").values()

Run as it is, `python examples/by_feature/debugger.py`, it attaches the hook by hand (see `main`)
and shows why a net of sigmoids learns slowly: its first layers get next to no gradient.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Classifier(nn.Module):
    """Too deep for its activation."""

    def __init__(self, activation: type[nn.Module], depth: int = 8) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(2, 32), activation()]
        for _ in range(depth - 1):
            layers += [nn.Linear(32, 32), activation()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(32, 2)

    def forward(self, points: Tensor) -> Tensor:
        return self.head(self.body(points))


def train(model: nn.Module, steps: int) -> float:
    """An ordinary loop: it knows nothing of a debugger."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.zeros(())
    for _ in range(steps):
        points = torch.randn(64, 2)
        labels = (points[:, 0] * points[:, 1] > 0).long()
        loss = F.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main(folder: str = "stoker-job/output/tensors", steps: int = 60) -> None:
    # Only where no launcher does it: in a job, STOKER_DEBUG or the estimator say the same.
    from stoker.debugging.hook.attach import attach
    from stoker.debugging.hook.request import read_request
    from stoker.debugging.tensors.saved_tensors import SavedTensors

    request = read_request("collections=losses,gradients every=20 gradients.reductions=abs_mean")
    for activation in (nn.Sigmoid, nn.ReLU):
        torch.manual_seed(0)
        place = f"{folder}/{activation.__name__}"
        with attach(request, place):
            loss = train(Classifier(activation), steps)
        saved = SavedTensors(place)
        last = saved.at(saved.steps()[-1])
        gradients = {tensor.name: tensor for tensor in last.needed("gradients")}
        means = [
            gradients[f"gradient/Classifier_{layer}.weight"].reduction("abs_mean")
            for layer in ("body.0", "head")
        ]
        print(f"{activation.__name__}: loss {loss:.3f} after {steps} steps")
        print(f"  mean |gradient|: first layer {means[0]:.1e}, last layer {means[1]:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
