#!/bin/sh
# Prepares a Jetson or Raspberry Pi for the onboard client: packages, socket buffers, Wi-Fi without power saving.
# Run as root; says what it changes.
set -eu
say() { printf 'vil: %s\n' "$*"; }
[ "$(id -u)" -eq 0 ] || { say "run me as root" >&2; exit 1; }

missing=
python3 -c 'import numpy' 2> /dev/null || missing="$missing python3-numpy"
python3 -c 'import zmq' 2> /dev/null || missing="$missing python3-zmq"
python3 -c 'import cv2' 2> /dev/null || missing="$missing python3-opencv"
command -v iw > /dev/null || missing="$missing iw"
if [ -n "$missing" ]; then
    say "installing$missing"
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi

say "socket buffers of 4 MiB: /etc/sysctl.d/60-vil.conf"
printf 'net.core.rmem_max = 4194304\nnet.core.wmem_max = 4194304\n' > /etc/sysctl.d/60-vil.conf
sysctl -q -p /etc/sysctl.d/60-vil.conf || say "the running kernel refused them; they hold from the next start" >&2

for device in /sys/class/net/*/wireless; do
    [ -e "$device" ] || continue
    name=$(basename "$(dirname "$device")")
    say "power saving of $name off, until the next start (vil-wifi.service keeps it off)"
    iw dev "$name" set power_save off || say "$name does not allow that" >&2
done

python3 -c 'import sys, numpy, zmq; print("vil: Python", sys.version.split()[0], "numpy", numpy.__version__, "pyzmq", zmq.__version__)'
