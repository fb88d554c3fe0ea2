"""`python -m stoker`: the `stoker` command."""

from __future__ import annotations

import sys

from stoker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
