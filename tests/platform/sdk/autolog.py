"""A training with MLflow's autolog, as its documentation has it; it knows of no platform."""

from __future__ import annotations

import lightning
import mlflow
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Line(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        points, targets = batch
        loss = nn.functional.mse_loss(self.layer(points), targets)
        self.log("train_loss", loss, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


# Its models need the versions of all packages, which a second Python looks up for half a minute.
mlflow.pytorch.autolog(log_models=False)
torch.manual_seed(0)
points = torch.rand(64, 2)
data = DataLoader(TensorDataset(points, points.sum(1, keepdim=True)), batch_size=16)
trainer = lightning.Trainer(
    max_epochs=3, logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(Line(), data)
print(f"LOSS {trainer.callback_metrics['train_loss'].item():.9f}")
