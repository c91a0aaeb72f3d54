#!/bin/sh
# Builds a Debian package for this distribution and processor: build.sh OUT
# It holds the bridge, the embedded renderer and everything that pip installs for them, below /opt/vil-bridge.
#   EXTRAS=gl,ros   other extras (default: gl)
#   PYTHON=...      interpreter with pip (default: /usr/bin/python3; apt-get install python3-pip)
#   PIP_FLAGS=...   further flags of pip install
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' vil_bridge/__init__.py)
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
here=deploy/debian

fill() { sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@PYTHON@/$minor/g" "$here/$1" > "$root/$2"; }

install -d -m 755 "$root/DEBIAN" "$root/opt/vil-bridge/bin" "$root/usr/bin"
# Versions as in the lock.
sed -n 's/^\([A-Za-z0-9_.-]*==[^ ;\\]*\).*/\1/p' requirements.lock > "$work/constraints.txt"
# shellcheck disable=SC2086
"$python" -m pip install -q --disable-pip-version-check -c "$work/constraints.txt" \
    --target "$root/opt/vil-bridge/lib" ${PIP_FLAGS:-} ".[${EXTRAS:-gl}]"
rm -rf "$root/opt/vil-bridge/lib/bin"
fill vil-bridge opt/vil-bridge/bin/vil-bridge
chmod 755 "$root/opt/vil-bridge/bin/vil-bridge"
ln -s ../../opt/vil-bridge/bin/vil-bridge "$root/usr/bin/vil-bridge"
mkdir -p "$root/opt/vil-bridge/share"
cp -R docs "$root/opt/vil-bridge/share/docs"
install -D -m 644 -t "$root/usr/lib/systemd/system" deploy/systemd/vil-bridge.service deploy/systemd/vil-renderer.service
install -D -m 644 configs/simulated.yaml "$root/etc/vil-bridge/bridge.yaml"
install -D -m 644 LICENSE "$root/usr/share/doc/vil-bridge/copyright"

fill control DEBIAN/control
echo /etc/vil-bridge/bridge.yaml > "$root/DEBIAN/conffiles"
install -m 755 -t "$root/DEBIAN" "$here/postinst" "$here/prerm" "$here/postrm"
dpkg-deb --root-owner-group -Zzstd --build "$root" "$out/vil-bridge_${version}_$architecture.deb" > /dev/null
echo "$out/vil-bridge_${version}_$architecture.deb"
