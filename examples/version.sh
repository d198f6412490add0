#!/bin/sh
# version.sh VERSION FOLDER: make the tree of a version of the example distribution.
#
# The tree in atoll/ is 1.0.0. A later version is the one before it and what differs, atoll-VERSION/.
# What was built comes along, as hard links where that works, so that only what differs is built.
set -eu

usage() {
    echo "usage: $0 1.0.0|1.1.0|1.2.0 FOLDER" >&2
    exit 2
}

[ $# -eq 2 ] || usage
case $1 in
    1.0.0) steps= ;;
    1.1.0) steps=1.1.0 ;;
    1.2.0) steps='1.1.0 1.2.0' ;;
    *) usage ;;
esac
examples=$(dirname "$0")
folder=$2
if [ -e "$folder" ]; then
    echo "$folder exists already" >&2
    exit 1
fi

mkdir -p "$folder"
for part in "$examples"/atoll/*; do
    case $part in
        */cache) cp -R -l "$part" "$folder/" 2>/dev/null || cp -R "$part" "$folder/" ;;
        *) cp -R "$part" "$folder/" ;;
    esac
done
for step in $steps; do
    cp -R "$examples/atoll-$step/." "$folder/"
done
