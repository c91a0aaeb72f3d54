#!/bin/sh
# Builds the wheel, with the dashboard in it, and writes the pins beside it: build.sh SOURCE WHEELS
set -eu
source=$1
wheels=$2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    ca-certificates nodejs npm python3 python3-venv
rm -rf /var/lib/apt/lists/*
mkdir -p "$wheels"
python3 -m venv /build
# Versions as in the lock; the bridge's own dependencies come from there too, as constraints.
sed -n 's/^\([A-Za-z0-9_.-]*==[^ ;\\]*\).*/\1/p' "$source/requirements.lock" > "$wheels/constraints.txt"
/build/bin/pip install -q --disable-pip-version-check -c "$wheels/constraints.txt" hatchling
# Only the mount of this stage is written to.
cp -R "$source" /work
/build/bin/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$wheels" /work
rm -rf /work /build
