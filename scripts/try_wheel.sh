#!/bin/sh
# Tries a wheel of the bridge on other interpreters: try_wheel.sh WHEEL PYTHON...
# For each: installs it into an environment outside the repository, imports every module, and runs the world's tests.
set -eu
wheel=$(readlink -f "$1")
shift
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cp -R configs docs examples pyproject.toml README.md tests "$work/tree"
export PYTHONPATH=
for python in "$@"; do
    rm -rf "$work/environment"
    "$python" -m venv "$work/environment"
    "$work/environment/bin/python" -m pip install -qq --disable-pip-version-check "$wheel[demo,sim,learn]" \
        hypothesis pytest pytest-asyncio pytest-timeout pytest-xdist
    cd "$work/tree"
    "$work/environment/bin/python" -m tests.support.import_all vil_bridge vil_adapters vil_renderer vil_simulation
    "$work/environment/bin/python" -m pytest -q -p no:cacheprovider -m "not long" tests/unit/world
    cd - > /dev/null
done
