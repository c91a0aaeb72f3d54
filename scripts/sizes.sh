#!/bin/sh
# Installs a wheel into a new virtual environment, alone and with each extra; prints seconds and megabytes:
# sizes.sh WHEEL EXTRA...
# The seconds depend on the network, and on what pip has in its cache.
set -eu
wheel=$(readlink -f "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for extra in "" "$@"; do
    rm -rf "$work/environment"
    python3 -m venv "$work/environment"
    begun=$(date +%s)
    "$work/environment/bin/pip" install -qq --disable-pip-version-check "$wheel${extra:+[$extra]}"
    printf '%-16s %4d s %5d MB\n' "${extra:-(none)}" $(($(date +%s) - begun)) "$(du -sm "$work/environment" | cut -f1)"
done
