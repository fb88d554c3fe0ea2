"""`python -m stoker.platform.s3 FOLDER ADDRESS:PORT…`: serve the buckets of a folder.

The keys come from the environment: every user of the machine can read a command line.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from stoker.machine.environment import read_environment
from stoker.platform.model.root import Credentials
from stoker.platform.s3.app import S3App
from stoker.platform.s3.http_server import listen, serve
from stoker.platform.s3.object_store import ObjectStore

KEYS = "STOKER_S3_KEYS"
# Threads mostly wait; one that computes must not keep the others for the usual 5 ms.
_SWITCH_SECONDS = 0.0005


def main(argv: list[str]) -> int:
    """Serve until the process is ended."""
    access_key, _, secret_key = read_environment()[KEYS].partition(",")
    store = ObjectStore(Path(argv[0]))
    store.remove_half_received()
    app = S3App(store, Credentials(access_key=access_key, secret_key=secret_key))
    sys.setswitchinterval(_SWITCH_SECONDS)
    for place in argv[1:]:
        address, _, port = place.rpartition(":")
        server = listen(address, int(port))
        print(f"S3 answers on http://{address}:{server.getsockname()[1]}", flush=True)
        threading.Thread(target=serve, args=(server, app.answer), daemon=True).start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
