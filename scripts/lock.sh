#!/bin/sh
# Rewrites requirements.lock from pyproject.toml: every dependency of the bridge, of the embedded
# renderer, of the other optional parts and of development, with hashes and without addresses. The
# extras bench, mutants, sfm and train are not among them: rivals are measured from an environment of their own,
# `make mutants` installs what it needs, poses of films need 140 MB, and training several gigabytes.
# Then requirements-demo.lock, the part of it that `make setup` installs: the extra demo, and what builds this checkout.
# Needs uv on the PATH or in .venv; further arguments go to uv (--upgrade, --upgrade-package NAME).
set -eu
cd "$(dirname "$0")/.."
uv=uv
[ ! -x .venv/bin/uv ] || uv=.venv/bin/uv

# One version for all interpreters (3.11 to 3.13), so that everybody runs what was tested.
compile() {
    "$uv" pip compile pyproject.toml --universal --python-version 3.11 --fork-strategy fewest \
        --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --quiet "$@" > /dev/null
}

compile --extra warp --extra align --extra gl --extra demo --extra airsim --extra plan --extra splat --extra draco --extra sim --extra learn --extra ray --extra qualisys --extra federation --extra video --extra ros --extra lcm --extra c3d --extra optitrack-legacy --extra foxglove --extra docs --extra dev \
    --output-file requirements.lock "$@"
printf 'hatchling\neditables\n' \
    | compile --extra demo --constraint requirements.lock --output-file requirements-demo.lock -
if grep -nE '://|^[[:space:]]*--(index|extra-index|find-links)|[[:space:]]@[[:space:]]' requirements*.lock; then
    echo "error: a lock names an address" >&2
    exit 1
fi
