#!/bin/sh
# The last step of both images: Stoker itself, the checks, and the files under /opt/stoker.
set -eu
site=$(echo /opt/venv/lib/python3*/site-packages)
python=/opt/venv/bin/python

# `train` of the toolkit is replaced by ours: that is meant.
pip install --no-index --no-deps --no-cache-dir --no-compile --quiet /mnt/stoker-*.whl
$python -m compileall -q "$site/stoker"
pip check

ln -s "$site/stoker/runtime/bash_env.sh" /opt/stoker/bash_env.sh
test -r /opt/stoker/bash_env.sh || { echo "stoker/runtime/bash_env.sh is not in the wheel"; exit 1; }
$python /mnt/constraints.py /mnt/protected.txt > /opt/stoker/constraints.txt
wheel=$(basename /mnt/stoker-*.whl)
version=${wheel#stoker-}
echo "$(sha256sum "/mnt/$wheel" | cut -d ' ' -f 1) stoker==${version%%-*}" >> /opt/venv/wheels.sha256
$python /mnt/sbom.py /opt/venv/wheels.sha256 /opt/stoker/debian.sha256 > /opt/stoker/sbom.cdx.json
