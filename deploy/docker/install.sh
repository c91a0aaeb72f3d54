#!/bin/sh
# Installs the built wheel with some extras: install.sh WHEELS EXTRA,EXTRA
set -eu
wheels=$1
extras=$2
python3 -m venv /opt/vil-bridge
for wheel in "$wheels"/vil_bridge-*.whl; do
    /opt/vil-bridge/bin/pip install -q --disable-pip-version-check --no-cache-dir \
        -c "$wheels/constraints.txt" "$wheel[$extras]"
done
/opt/vil-bridge/bin/vil-bridge version
