"""Small trainings by loops that others write; each gives back its final weights."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from .trainings import Net, Weights, batch, fit, plain_loss, weights_of


class NetWithLoss(Net):
    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = super().forward(x)
        return {"loss": F.cross_entropy(scores, labels), "scores": scores}


def compiled(how: str) -> tuple[Weights, int]:
    """A training by way of the compiler, and how many graphs it made."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    net = NetWithLoss() if "loss" in how else Net()
    model: nn.Module = net
    if how.startswith("in place"):
        net.compile(backend="aot_eager")
    else:
        model = torch.compile(net, backend="aot_eager", fullgraph=True)
    if "loss" in how:
        weights = fit(model, lambda m, x, labels: m(x, labels)["loss"], steps=4)
    else:
        weights = fit(model, plain_loss, steps=4)
    return weights, torch._dynamo.utils.counters["stats"]["unique_graphs"]


def lightning_fit(folder: Path) -> Weights:
    import lightning  # here: a script that uses the other should not wait for it

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, both: tuple, _: int) -> torch.Tensor:
            return F.cross_entropy(self(both[0]), both[1])

        def validation_step(self, both: tuple, _: int) -> None:
            F.cross_entropy(self.net(both[0]), both[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters())

    torch.manual_seed(0)
    model = Module()
    data = [batch() for _ in range(4)]
    loaders = [torch.utils.data.DataLoader(some, batch_size=None) for some in (data, data[:2])]
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(model, *loaders)
    return weights_of(model)


def trainer_fit(folder: Path) -> Weights:
    import transformers  # as above

    config = transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=8,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(config)
    data = [
        {"input_ids": torch.randint(0, 20, (6,)), "labels": torch.tensor(n % 2)} for n in range(8)
    ]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        gradient_checkpointing=True,
        max_steps=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    transformers.Trainer(model, arguments, train_dataset=data).train()
    return weights_of(model)
