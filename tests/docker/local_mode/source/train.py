"""What a user trains in local mode: shows what it was given, leaves a file per host."""

import json
import os
from pathlib import Path

host, hosts = os.environ["SM_CURRENT_HOST"], json.loads(os.environ["SM_HOSTS"])
words = (Path(os.environ["SM_CHANNEL_TRAIN"]) / "words.txt").read_text()
epochs = json.loads(os.environ["SM_HPS"])["epochs"]
print(f"{words} for {epochs} epochs on one of {len(hosts)} hosts", flush=True)
name = f"model-{sorted(hosts).index(host) + 1}.txt"
(Path(os.environ["SM_MODEL_DIR"]) / name).write_text(words)
