#!/bin/sh
# What the embedded renderer draws with: EGL by Mesa, on the CPU where no GPU is handed in.
set -eu
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libegl1 libgl1 libgl1-mesa-dri
rm -rf /var/lib/apt/lists/*
