"""One training step for each way to save or to log; prints the part of each and its seconds."""

import json
import sys
import time
from pathlib import Path

from safetensors.torch import save_file  # before torch, which it imports itself

import stoker

import torch  # isort: skip
import lightning
import torch.distributed.checkpoint as distributed
import transformers
from lightning.pytorch.demos.boring_classes import BoringModel
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

FOLDER = Path(sys.argv[1])
WIDTH = 1024
model = nn.Linear(WIDTH, WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job, writer = stoker.job(), SummaryWriter(FOLDER / "runs")
config = transformers.GPT2Config(n_embd=64, n_layer=1, n_head=1, vocab_size=5000)
language_model = transformers.GPT2LMHeadModel(config)
trainer = lightning.Trainer(
    logger=False, enable_progress_bar=False, accelerator="cpu", default_root_dir=FOLDER
)
trainer.strategy.connect(BoringModel())
CALLS = (
    ("checkpoint", lambda: torch.save(model.state_dict(), FOLDER / "a.pt")),
    ("checkpoint", lambda: save_file(model.state_dict(), FOLDER / "a.safetensors")),
    ("checkpoint", lambda: distributed.save(model.state_dict(), checkpoint_id=FOLDER / "dcp")),
    ("checkpoint", lambda: language_model.save_pretrained(FOLDER / "hf")),
    ("checkpoint", lambda: trainer.save_checkpoint(FOLDER / "lightning.ckpt")),
    ("logging", lambda: writer.add_histogram("weights", model.weight, 0)),
    ("logging", lambda: job.log(0, loss=1.0)),
)


def train(batches):
    for number, (x,) in enumerate(batches):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if number < len(CALLS):
            part, call = CALLS[number]
            begun = time.perf_counter()
            call()
            print(json.dumps([part, time.perf_counter() - begun]), flush=True)


loader = DataLoader(TensorDataset(torch.randn(len(CALLS) + 4, WIDTH)), batch_size=1)
with stoker.checkpoints(job, model=model, optimizer=optimizer) as checkpoints:
    checkpoints.save_every(steps=len(CALLS) + 2)
    train(batch for _, batch in checkpoints.batches(loader))
