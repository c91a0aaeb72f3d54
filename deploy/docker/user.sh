#!/bin/sh
# Python, and the user that the bridge runs as.
set -eu
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates python3 python3-venv
rm -rf /var/lib/apt/lists/*
id vil > /dev/null 2>&1 || useradd --uid 10001 --home-dir /var/lib/vil-bridge --create-home vil
# Serial lines belong to this group on the host too.
usermod -a -G dialout vil
