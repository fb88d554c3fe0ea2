"""What a user trains in local mode: shows what it was given, leaves a file per host."""

import json
import os
import socket
import time
from pathlib import Path

PORT, DEADLINE_SECONDS = 4321, 240


def wait_for_all(host, hosts):
    """Returns once every host has come here.

    Local mode runs `docker compose up --abort-on-container-exit`: the first host that ends stops
    the others, wherever they are.
    """
    leader, *others = sorted(hosts)
    if host == leader:
        with socket.create_server(("", PORT)) as server:
            server.settimeout(DEADLINE_SECONDS)
            for connection in [server.accept()[0] for _ in others]:
                connection.close()
        return
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            with socket.create_connection((leader, PORT), DEADLINE_SECONDS) as connection:
                connection.recv(1)
            return
        except OSError:  # the leader does not listen yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


host, hosts = os.environ["SM_CURRENT_HOST"], json.loads(os.environ["SM_HOSTS"])
words = (Path(os.environ["SM_CHANNEL_TRAIN"]) / "words.txt").read_text()
epochs = json.loads(os.environ["SM_HPS"])["epochs"]
print(f"{words} for {epochs} epochs on one of {len(hosts)} hosts", flush=True)
name = f"model-{sorted(hosts).index(host) + 1}.txt"
(Path(os.environ["SM_MODEL_DIR"]) / name).write_text(words)
wait_for_all(host, hosts)
