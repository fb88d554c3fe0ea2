"""A user's script: fits a line, prints metrics, writes TensorBoard events, saves a model."""

import argparse
import json
import os
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--lr", type=float, default=0.1)
args, _ = parser.parse_known_args()

points = json.loads((Path(os.environ["SM_CHANNEL_TRAIN"]) / "points.json").read_text())
weight = 0.0
with SummaryWriter("/opt/ml/output/tensorboard/run") as writer:
    for epoch in range(args.epochs):
        errors = [weight * x - y for x, y in points]
        loss = sum(error**2 for error in errors) / len(points)
        weight -= args.lr * sum(e * x for e, (x, _) in zip(errors, points, strict=True))
        writer.add_scalar("loss", loss, epoch)
        print(f"epoch {epoch} loss={loss:.4f}", flush=True)
(Path(os.environ["SM_MODEL_DIR"]) / "model.json").write_text(json.dumps({"weight": weight}))
