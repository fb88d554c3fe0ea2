"""A quick script with three kinds of hyperparameters and four metrics, as in a book's chapter."""

import argparse
import os
import pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--layers", type=int)
parser.add_argument("--optimizer")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
assert args.optimizer in ("sgd", "adam"), args.optimizer
for epoch in range(args.epochs):
    accuracy = 1 - abs(args.lr - 0.01) - 0.01 * args.layers + epoch / 1000
    print(f"epoch {epoch}: train_loss={1 - accuracy:.5f} train_acc={accuracy:.5f}", flush=True)
    print(f"epoch {epoch}: val_loss={1.1 - accuracy:.5f} val_acc={accuracy:.5f}", flush=True)
pathlib.Path(os.environ["SM_MODEL_DIR"], "model").write_text(str(args))
