#!/bin/sh
# pip with the host's certificates when they were given as the secret `ca`. The host's pip.conf
# is the secret `pipconf`, mounted at /etc/pip.conf: pip reads it by itself.
set -eu
if [ -s /run/secrets/ca ]; then
    export PIP_CERT=/run/secrets/ca
fi
exec /opt/build/bin/pip --disable-pip-version-check "$@"
