#!/bin/sh
# Builds the dashboard from vil_bridge/web/frontend into vil_bridge/web/static; fails, saying why, where
# Node or its packages cannot be had.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

missing=
command -v node > /dev/null || missing="$missing nodejs"
command -v npm > /dev/null || missing="$missing npm"
# shellcheck disable=SC2086
[ -z "$missing" ] || install_packages $missing || exit 1
cd vil_bridge/web/frontend
installed=node_modules/.package-lock.json
if [ ! -e "$installed" ] || [ package-lock.json -nt "$installed" ]; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
fi
npm run --silent build
say "built the dashboard"
