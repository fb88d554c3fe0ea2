#!/bin/sh
# Installs the wheels that were made for this image, strips /opt/venv and compiles its bytecode.
set -eu
python=/opt/venv/bin/python
sh /steps/pip.sh --python "$python" install --no-index --no-deps --no-compile \
    --report /tmp/wheels.json /wheels/*.whl
python3 /steps/wheel_hashes.py /tmp/*.json > /opt/venv/wheels.sha256
sh /steps/strip.sh /opt/venv "$COMPILER"
# Compiled here, because `import torch` costs 2.5 times the CPU without it. Some files of torch
# are of a newer Python and do not compile; a test knows them by name.
"$python" -m compileall -q -j 0 /opt/venv/lib > /dev/null || true
