#!/bin/sh
# A part includes only itself and the parts below it.
set -eu
cd "$(dirname "$0")/.."
parts="base io store config comm data kernels graph model optim engine grad train plan cli"
bad=0
allowed=""
for part in $parts; do
    allowed="$allowed $part"
    [ -d "src/$part" ] || continue
    for used in $(grep -rhoE '^#include "[a-z_]+/' "src/$part" | sed 's/#include "//; s,/,,' | sort -u); do
        case " $allowed zeroth " in
        *" $used "*) ;;
        *) echo "src/$part includes $used, which is above it" >&2; bad=1 ;;
        esac
    done
done
exit $bad
