"""Small trainings of every kind that scripts have; each gives back its final weights."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Weights = list[torch.Tensor]
KINDS: dict[str, Callable[[], Weights]] = {}
STEPS = 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4 * 36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.drop(self.relu(self.norm(self.conv1(x)))).flatten(1))


def kind(function: Callable[[], Weights]) -> Callable[[], Weights]:
    KINDS[function.__name__] = function
    return function


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 1, 8, 8), torch.randint(0, 3, (5,))


def weights_of(*models: nn.Module) -> Weights:
    return [tensor.detach().clone() for m in models for tensor in m.state_dict().values()]


def fit(model: nn.Module, loss_of: Callable[..., torch.Tensor], steps: int = STEPS) -> Weights:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        images, labels = batch()
        optimizer.zero_grad()
        loss_of(model, images, labels).backward()
        optimizer.step()
    return weights_of(model)


def plain_loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(images), labels)


@kind
def loss_module() -> Weights:
    criterion = nn.CrossEntropyLoss()
    return fit(Net(), lambda model, images, labels: criterion(model(images), labels))


@kind
def functional_loss() -> Weights:
    return fit(Net(), plain_loss)


@kind
def loss_of_ones_own() -> Weights:
    class FocalLoss(nn.Module):
        def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            each = F.cross_entropy(scores, labels, reduction="none")
            return ((1 - (-each).exp()) ** 2 * each).mean()

    criterion = FocalLoss()
    return fit(Net(), lambda model, images, labels: criterion(model(images), labels))


@kind
def train_and_eval() -> Weights:
    model = Net()
    for _ in range(2):
        model.train()
        fit(model, plain_loss, steps=2)
        model.eval()
        with torch.no_grad():
            plain_loss(model, *batch())
        with torch.inference_mode():
            plain_loss(model, *batch())
    return weights_of(model)


@kind
def two_models() -> Weights:
    """A generator and a discriminator, which is called more often."""
    makes, judges = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))
    both = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (makes, judges)]
    for _ in range(STEPS):
        real, made = torch.randn(5, 6), makes(torch.randn(5, 4))
        both[1].zero_grad()
        loss = F.softplus(-judges(real)).mean() + F.softplus(judges(made.detach())).mean()
        loss.backward()
        both[1].step()
        both[0].zero_grad()
        F.binary_cross_entropy_with_logits(judges(made), torch.ones(5, 1)).backward()
        both[0].step()
    return weights_of(makes, judges)


@kind
def two_models_of_one_class() -> Weights:
    student, teacher = Net(), Net().requires_grad_(False).eval()
    return fit(
        student,
        lambda model, images, labels: F.kl_div(
            F.log_softmax(model(images), 1), F.softmax(teacher(images), 1), reduction="batchmean"
        ),
    )


@kind
def autocast_and_scaler() -> Weights:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = plain_loss(model, *batch())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return weights_of(model)


@kind
def bfloat16_weights() -> Weights:
    model = Net().to(torch.bfloat16)
    return fit(model, lambda model, images, labels: plain_loss(model, images.bfloat16(), labels))


@kind
def gradient_accumulation() -> Weights:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for micro_step in range(2 * STEPS):
        (plain_loss(model, *batch()) / 2).backward()
        if micro_step % 2:
            optimizer.step()
            optimizer.zero_grad()
    return weights_of(model)


class Checkpointed(nn.Module):
    def __init__(self, *, is_reentrant: bool) -> None:
        super().__init__()
        self.first, self.block = nn.Linear(64, 8), nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
        self.last = nn.Linear(8, 3)
        self._is_reentrant = is_reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x.flatten(1))
        return self.last(checkpoint(self.block, hidden, use_reentrant=self._is_reentrant))


@kind
def gradient_checkpointing() -> Weights:
    return fit(Checkpointed(is_reentrant=False), plain_loss)


@kind
def reentrant_checkpointing() -> Weights:
    return fit(Checkpointed(is_reentrant=True), plain_loss)


@kind
def shared_and_frozen_parameters() -> Weights:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.fixed = nn.Linear(4, 4).requires_grad_(False)
            self.head.weight = self.embed.weight
            self.act = nn.Tanh()

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            # The same module twice in one pass.
            return self.head(self.act(self.fixed(self.act(self.embed(tokens)))))

    model = Tied()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(STEPS):
        tokens = torch.randint(0, 7, (3, 5))
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
    return weights_of(model)


@kind
def sparse_gradients() -> Weights:
    embed = nn.Embedding(50, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(embed.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        embed(torch.randint(0, 50, (6,))).pow(2).mean().backward()
        optimizer.step()
    return weights_of(embed)


@dataclasses.dataclass
class Result:
    scores: torch.Tensor
    hidden: list[torch.Tensor]
    note: str = "not a tensor"


class Rich(nn.Module):
    """Takes keywords; gives dataclasses, dicts and lists."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.ModuleDict({"a": nn.Linear(64, 4), "b": nn.Linear(64, 4)})
        self.last = nn.Linear(4, 3)

    def forward(self, *, images: torch.Tensor, options: dict[str, object]) -> Result:
        hidden = [layer(images.flatten(1)) for layer in self.one.values()]
        return Result(scores=self.last(sum(hidden)), hidden=hidden)


@kind
def rich_outputs_and_keywords() -> Weights:
    def loss_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        result = model(images=images, options={"scale": torch.ones(2), "name": "x"})
        return F.cross_entropy(input=result.scores, target=labels)

    return fit(Rich(), loss_of)


@kind
def double_backward() -> Weights:
    def loss_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        images.requires_grad_(True)
        loss = plain_loss(model, images, labels)
        (by_image,) = torch.autograd.grad(loss, images, create_graph=True)
        by_weight = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        return loss + by_image.pow(2).sum() + sum(g.pow(2).sum() for g in by_weight) * 0.01

    return fit(Net(), loss_of)


@kind
def layers_without_a_model() -> Weights:
    first, last = nn.Linear(64, 8), nn.Linear(8, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
    for _ in range(STEPS):
        images, labels = batch()
        optimizer.zero_grad()
        nn.MSELoss()(
            last(nn.ReLU()(first(images.flatten(1)))), F.one_hot(labels, 3).float()
        ).backward()
        optimizer.step()
    return weights_of(first, last)


@kind
def recursion() -> Weights:
    class Tree(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leaf, self.join = nn.Linear(64, 3), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
            if not depth:
                return self.leaf(x)
            return self.join(torch.cat([self(x, depth - 1), self(x * 2, depth - 1)], 1))

    return fit(Tree(), lambda m, images, labels: F.cross_entropy(m(images.flatten(1)), labels))


@kind
def copies_and_pickles() -> Weights:
    """An average of the weights is kept in a copy of the model, made in the middle."""
    model = Net()
    fit(model, plain_loss, steps=1)
    average = copy.deepcopy(model)
    fit(model, plain_loss, steps=1)
    assert not model._forward_hooks
    assert not average._forward_hooks
    return weights_of(model, average)


@kind
def lazy_modules() -> Weights:
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        model(batch()[0])
    return fit(model, plain_loss)


@kind
def lbfgs() -> Weights:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    images, labels = batch()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = plain_loss(model, images, labels)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    return weights_of(model)


@kind
def functional_call_and_vmap() -> Weights:
    model = nn.Sequential(nn.Flatten(0), nn.Linear(64, 3))
    names = dict(model.named_parameters())

    def loss_of(parameters: dict[str, torch.Tensor], image: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (image,)).pow(2).sum()

    for _ in range(STEPS):
        each = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0))(names, batch()[0])
        with torch.no_grad():
            for name, gradient in each.items():
                names[name] -= 0.01 * gradient.mean(0)
    return weights_of(model)


@kind
def an_error_that_is_caught() -> Weights:
    class Moody(Net):
        is_ill = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.is_ill:
                raise ZeroDivisionError
            return super().forward(x)

    model = Moody()
    for is_ill in (False, True, False):
        model.is_ill = is_ill
        try:
            fit(model, plain_loss, steps=1)
        except ZeroDivisionError:
            model.is_ill = False
            fit(model, plain_loss, steps=1)  # while the error is being handled
    assert not any(module._forward_hooks for module in model.modules())
    return weights_of(model)


@kind
def packed_sequences() -> Weights:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
            _, (hidden, _) = self.lstm(packed)
            return self.head(hidden[-1])

    model = Reads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.NLLLoss()(
            F.log_softmax(model(torch.randn(2, 3, 4)), 1), torch.tensor([0, 1])
        ).backward()
        optimizer.step()
    return weights_of(model)


@kind
def distributed() -> Weights:
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
        )
        try:
            return fit(nn.parallel.DistributedDataParallel(Net()), plain_loss)
        finally:
            torch.distributed.destroy_process_group()
