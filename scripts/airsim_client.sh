#!/bin/sh
# Creates environments with the Python clients of AirSim and of Cosys-AirSim, which the tests let call our server. The
# packages of the first are from 2022: their setups import what they install, so that build isolation is off and the order
# matters.
set -eu
cd "$(dirname "$0")/.."
venv=.venv/airsim-client

. scripts/packages.sh

cosys=.venv/cosys-client
if [ ! -e "$cosys/.installed" ]; then
    .venv/bin/python -m venv --clear "$cosys"
    if "$cosys/bin/python" -m pip install -qq --disable-pip-version-check cosysairsim==3.5.0; then
        touch "$cosys/.installed"
    else
        say "going on without Cosys-AirSim's client: tests that need it are skipped" >&2
    fi
fi

[ ! -e "$venv/.installed" ] || exit 0
.venv/bin/python -m venv --clear "$venv"
pip() { "$venv/bin/python" -m pip install -qq --disable-pip-version-check "$@"; }
if pip 'setuptools<70' wheel packaging 'numpy<2' \
    && pip --no-build-isolation msgpack-rpc-python==0.4.1 \
    && pip --no-build-isolation --no-deps airsim==1.8.1 && "$venv/bin/python" -c 'import airsim'; then
    touch "$venv/.installed"
else
    say "going on without AirSim's client: tests that need it are skipped" >&2
fi
