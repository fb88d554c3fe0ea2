#!/bin/sh
# install_locked.sh LOCK: makes /opt/venv with the locked packages in it.
set -eu
python3 -m venv --without-pip /opt/venv
exec sh /steps/pip.sh --python /opt/venv/bin/python install --require-hashes --no-compile \
    --report /tmp/locked.json -r "$1"
