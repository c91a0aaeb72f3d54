#!/bin/sh
# Installs the foreign programs that the tests let read our streams or fly our vehicles: GStreamer, FFmpeg, ROS 1's bags,
# a C compiler with the headers of ZeroMQ, the browser that opens our pages, programs that capture packets, a library that
# sets the wall time of one process, OctoMap's tools, AirSim's client and Betaflight. Where that is not possible, those
# tests are skipped and say so.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

missing=
need() { command -v "$1" > /dev/null || { shift; missing="$missing $*"; }; }
need gst-launch-1.0 gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad \
    gstreamer1.0-libav
need ffmpeg ffmpeg
need gcc gcc libc6-dev
need faketime faketime
need compare_octrees octomap-tools
need chromium chromium
need tcpdump tcpdump
need dumpcap wireshark-common
[ -e /usr/include/zmq.h ] || missing="$missing libzmq3-dev"
[ -d /usr/lib/python3/dist-packages/rosbag ] || missing="$missing python3-rosbag"
# shellcheck disable=SC2086
[ -z "$missing" ] || install_packages $missing || say "going on: tests that need them are skipped" >&2
sh scripts/airsim_client.sh
sh scripts/betaflight.sh > /dev/null || true
