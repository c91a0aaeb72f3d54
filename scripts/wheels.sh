#!/bin/sh
# Builds the wheels: wheels.sh OUT
# The bridge with the compiled kernel for this system and processor, the bridge in pure Python, and the onboard client.
#   PYTHON=...  interpreter with hatchling (default: .venv/bin/python)
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-$PWD/.venv/bin/python}

for kernel in on off; do
    VIL_KERNEL=$kernel "$python" -m hatchling build -t wheel -d "$out"
done
cd deploy/client
"$python" -m hatchling build -t wheel -d "$out"
