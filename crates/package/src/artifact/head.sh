#!/bin/sh
# @NAME@ @VERSION@: one file with everything in it. `sh FILE --help` says what it does.
#
# This is the head of the file: it copies the program that follows it to a folder of its own, checks it,
# runs it, and removes it. All else is read where it is. Nobody can check this head but you, before you
# run it: by the SHA-256 that its maker told you, or with `minisign -Vm FILE -P KEY`.
#
#   MONOBLOC_TMPDIR   where the program may be copied to, if not to the usual folders

# Offset and length of the program, in pages of 4096 bytes, and the digest of those pages.
first=@FIRST@
pages=@PAGES@
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
[ -r "$file" ] || fail "cannot read $0"

folder=
child=
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
    folder=$1/.monobloc-$$
    if ! mkdir -m 700 "$folder" 2>/dev/null; then
        folder=
        return 1
    fi
    if dd if="$file" of="$folder/monobloc" bs=4096 skip="$first" count="$pages" 2>/dev/null &&
        chmod 700 "$folder/monobloc"; then
        found=$(sha256 "$folder/monobloc")
        case $found in
            "$digest" | '') ;;
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

# The program runs in the background, and this waits: so a signal for this is one for the program.
MONOBLOC_ARTIFACT=$file
MONOBLOC_TREE=${MONOBLOC_TREE-$file}
export MONOBLOC_ARTIFACT MONOBLOC_TREE
if { : <&0; } 2>/dev/null; then exec 3<&0; else exec 3</dev/null; fi
"$folder/monobloc" "$@" <&3 3<&- &
child=$!
exec 3<&-
trap 'kill -HUP $child 2>/dev/null' HUP
trap 'kill -INT $child 2>/dev/null' INT
trap 'kill -TERM $child 2>/dev/null' TERM
while :; do
    wait "$child"
    status=$?
    # A signal ends the wait too; the program has ended only when it cannot be found any more.
    kill -0 "$child" 2>/dev/null || break
done
exit "$status"
# What follows is not text.
