"""A user's script under torchrun: every rank adds its number."""

import os
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {total.item():.0f}", flush=True)
if dist.get_rank() == 0:
    (Path(os.environ["SM_MODEL_DIR"]) / "total.txt").write_text(f"{total.item():.0f}")
dist.destroy_process_group()
