#!/bin/sh
# Creates the virtual environment given as the first argument: finds Python 3.11 or newer, installs the demonstration's
# pinned requirements and this checkout with its compiled kernel, the system packages that both and the embedded renderer
# need, and the dashboard. `make setup-dev` adds what checks and tests need.
set -eu
cd "$(dirname "$0")/.."
venv=$1

. scripts/packages.sh
wait_for_installations
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

find_python() {
    for candidate in python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed. On Debian 12, Ubuntu 24.04 or newer: apt-get install python3 python3-venv"
}

has_library() { "$1" -c 'import ctypes.util, sys; sys.exit(ctypes.util.find_library(sys.argv[1]) is None)' "$2"; }

python=$(find_python) || exit 1
say "using $("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"

if ! "$python" -c 'import ensurepip, venv' 2> /dev/null; then
    package=$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')
    install_packages "$package" || fail "Python's venv module is missing (Debian: python3-venv, here $package)"
fi

missing=
has_library "$python" EGL || missing="$missing libegl1"
has_library "$python" GL || missing="$missing libgl1"
# shellcheck disable=SC2086
[ -z "$missing" ] || install_packages $missing || say "going on: only the embedded renderer (make demo) needs them" >&2

command -v "${CC:-cc}" > /dev/null || install_packages gcc libc6-dev \
    || say "going on without the compiled kernel: filters of bodies with an IMU take ten times as long" >&2

if ! "$venv/bin/python" -m pip --version > /dev/null 2>&1; then
    say "creating $venv"
    "$python" -m venv --clear "$venv"
fi
say "building the dashboard, and installing the pinned requirements (minutes, the first time)"
sh scripts/web.sh &
dashboard=$!
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-demo.lock
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
wait "$dashboard" || say "going on without the dashboard: the daemon serves a plain status page; make web tries again" >&2
say "done: $venv/bin/vil-bridge"
