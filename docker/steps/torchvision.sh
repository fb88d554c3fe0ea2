#!/bin/sh
# Adds torchvision to the cpu image when a source of CPU builds is configured.
#
# The build on the public index is linked against CUDA and fails to import beside CPU torch. A
# version with the label `+cpu` cannot be on the public index (it refuses such labels), so this
# one comes from a source the operator has configured, or not at all. It is the one package
# without a hash, because no lock can name a file that may not exist.
set -eu
version=$1
if ! sh /steps/pip.sh --python /opt/venv/bin/python install --no-deps --no-compile --quiet \
    "torchvision==$version"; then
    echo "torchvision: no source offers $version; the image goes without it"
elif ! /opt/venv/bin/python -c 'import torchvision'; then
    /opt/build/bin/pip --python /opt/venv/bin/python uninstall --yes --quiet torchvision
    echo "torchvision: $version fails to import beside this torch; the image goes without it"
else
    echo "torchvision: $version is in the image"
fi
