#!/bin/sh
# @NAME@ @VERSION@: one file with everything in it. `sh FILE --help` says what it does.
#
# This is the head of the file: it copies the program that follows it to a folder of its own, checks it, and
# becomes it; the program removes the folder at once. All else is read where it is. Nobody can check this head but you, before you
# run it: by the SHA-256 that its maker told you, or with `minisign -Vm FILE -P KEY`.
#
#   MONOBLOC_TMPDIR   where the program may be copied to, if not to the usual folders

# The first byte of the program, counted from 1, its length, and its digest.
first=@FIRST@
bytes=@BYTES@
digest=@DIGEST@

fail() {
    echo "error: $*" >&2
    exit 1
}

case "$(uname -s) $(uname -m)" in
    'Linux x86_64') ;;
    *) fail "this file runs on Linux on x86_64, and this is $(uname -s) on $(uname -m)" ;;
esac

file=$0
case $file in
    */*) ;;
    *) if [ -f "$file" ]; then file=./$file; else file=$(command -v -- "$file"); fi ;;
esac
if ! [ -r "$file" ] || ! tail -c 80 "$file" | grep -q '^monobloc [0-9]'; then
    fail "$0 is not this file, or cut short: save it to a file first, then run it with: sh FILE"
fi

folder=
# shellcheck disable=SC2317 # It is called on exit.
clean() {
    [ -z "$folder" ] || rm -rf "$folder"
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the SHA-256 of a file, nothing where no program can tell it.
sha256() {
    if command -v sha256sum >/dev/null; then
        sha256sum <"$1" | cut -d ' ' -f 1
    elif command -v openssl >/dev/null; then
        openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
    fi
}

# Copies the program to a new folder in $1; fails where that is not possible or nothing can be run.
copy_to() {
    [ -n "$1" ] && [ -d "$1" ] && [ -w "$1" ] || return 1
    folder=$1/.monobloc-run-$$
    if ! mkdir -m 700 "$folder" 2>/dev/null; then
        folder=
        return 1
    fi
    if tail -c "+$first" "$file" 2>/dev/null | head -c "$bytes" >"$folder/monobloc" &&
        chmod 700 "$folder/monobloc"; then
        found=$(sha256 "$folder/monobloc")
        case $found in
            "$digest") ;;
            '') echo "warning: the program was not verified: there is neither sha256sum nor openssl" >&2 ;;
            *) fail "$0 is damaged: its program has the SHA-256 $found, expected $digest. Get the file again." ;;
        esac
        "$folder/monobloc" --version >/dev/null 2>&1 && return
    fi
    rm -rf "$folder"
    folder=
    return 1
}

for place in "${MONOBLOC_TMPDIR-}" "${TMPDIR-}" /tmp /var/tmp /run /dev/shm "${HOME-}" /root .; do
    copy_to "$place" && break
done
[ -n "$folder" ] || fail "found no folder that has @MEGABYTES@ MB free, can be written to and lets programs run; \
name one in MONOBLOC_TMPDIR"

MONOBLOC_ARTIFACT=$file
MONOBLOC_TREE=${MONOBLOC_TREE-$file}
# From here on, this is the program: signals, descriptors and terminals are its own.
MONOBLOC_REMOVE_FOLDER=$folder
export MONOBLOC_ARTIFACT MONOBLOC_TREE MONOBLOC_REMOVE_FOLDER
trap - EXIT
exec "$folder/monobloc" "$@"
# What follows is not text.
