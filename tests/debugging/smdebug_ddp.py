"""One rank of two under DistributedDataParallel: run as a program by test_smdebug_tour.

python smdebug_ddp.py SMDEBUG FOLDER RANK
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import smdebug.pytorch as smd
import torch
from torch import distributed, nn

FOLDER, RANK = Path(sys.argv[2]), int(sys.argv[3])

distributed.init_process_group(
    "gloo", init_method=f"file://{FOLDER}/rendezvous", rank=RANK, world_size=2
)
hook = smd.Hook(
    out_dir=str(FOLDER / "tensors"),
    include_workers="all",
    include_collections=["losses", "gradients"],
    save_config=smd.SaveConfig(save_interval=1),
)
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
criterion = nn.MSELoss()
hook.register_module(net)
hook.register_loss(criterion)
for _ in range(2):
    criterion(net(torch.ones(1, 2) * (RANK + 1)), torch.zeros(1, 1)).backward()
hook.close()
distributed.barrier()
if RANK == 0:
    trial = smd.create_trial(str(FOLDER / "tensors"))
    loss = trial.tensor("MSELoss_output_0")
    read = {
        "workers": trial.workers(),
        "steps": loss.steps(),
        "losses": [float(loss.value(0, worker=worker)) for worker in trial.workers()],
        "gradients": trial.tensor_names(collection="gradients"),
    }
    (FOLDER / "results.json").write_text(json.dumps(read))
distributed.destroy_process_group()
