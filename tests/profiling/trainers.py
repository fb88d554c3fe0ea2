"""Lightning's and Hugging Face's own loops: 6 training steps and 3 evaluation steps each."""

import json
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FOLDER = sys.argv[1]


class Data(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return {"x": torch.ones(4) * index, "labels": torch.ones(1)}


def lightning_loop():
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def training_step(self, batch, index):
            return ((self.layer(batch["x"]) - batch["labels"]) ** 2).mean()

        def validation_step(self, batch, index):
            self.layer(batch["x"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
        default_root_dir=FOLDER,
    ).fit(Model(), DataLoader(Data(12), batch_size=2), DataLoader(Data(6), batch_size=2))


def hugging_face():
    import transformers

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x, labels):
            out = self.layer(x)
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}

    transformers.Trainer(
        Model(),
        transformers.TrainingArguments(
            output_dir=FOLDER,
            per_device_train_batch_size=1,
            per_device_eval_batch_size=2,
            gradient_accumulation_steps=2,
            num_train_epochs=1,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=Data(12),
        eval_dataset=Data(6),
    ).train()


for loop in (lightning_loop, hugging_face):
    start = time.time()
    loop()
    print(json.dumps({"name": loop.__name__, "start": start, "end": time.time()}), flush=True)
