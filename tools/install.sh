#!/bin/sh
# Installs the Debian packages that are missing; without root it prints the one line to run.
set -eu
packages="gcc cmake ninja-build pkg-config libdnnl-dev libjansson-dev libpcre2-dev libcmocka-dev
libopenmpi-dev openmpi-bin"
missing=""
for p in $packages; do
    if ! dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q "install ok installed"; then
        missing="$missing $p"
    fi
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "Missing packages. Please run:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y$missing" >&2
    exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
