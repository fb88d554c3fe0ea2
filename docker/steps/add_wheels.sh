#!/bin/sh
# Installs the wheels next to this script into the image's environment, without tests, compiled.
set -eu
here=$(dirname "$0")
site=$(echo /opt/venv/lib/python3*/site-packages)
report=/opt/venv/added.json

pip install --no-index --no-deps --no-cache-dir --no-compile --quiet --report $report "$here"/*.whl
python3 "$here/wheel_hashes.py" $report >> /opt/venv/wheels.sha256
rm $report
find "$site/sklearn" "$site/joblib" -type d \( -name tests -o -name test \) -prune -exec rm -rf {} +
python3 -m compileall -q -j 0 "$site" >/dev/null || true
