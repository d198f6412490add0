fail() {
    echo "error: $*" >&2
    exit 1
}

misuse() {
    echo "error: $*" >&2
    echo "try: sh $0 --help" >&2
    exit 2
}

# What the program answers is on standard output, and nothing else is.
say() {
    echo "$*" >&2
}

folder=
# shellcheck disable=SC2317 # It is called on exit.
clean() {
    [ -z "$folder" ] || rm -rf "$folder"
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

has() {
    command -v "$1" >/dev/null 2>&1
}

sha256_of() {
    if has sha256sum; then
        sha256sum <"$1" | cut -d ' ' -f 1
    elif has openssl; then
        openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
    else
        fail 'need sha256sum or openssl to verify what is downloaded; install one of them'
    fi
}

# get PATH TARGET: a file of the bundle; what is there of TARGET already is not fetched again.
get() {
    case $from in
        http://* | https://*) download "$from/$1" "$2" ;;
        file://*) cp "${from#file://}/$1" "$2" ;;
        *) cp "$from/$1" "$2" ;;
    esac
}

download() {
    attempt=1
    while :; do
        if has curl; then
            curl -fsSL --connect-timeout 20 --speed-limit 1000 --speed-time 60 -C - -o "$2" "$1"
        elif wget --version 2>/dev/null | grep -q GNU; then
            wget -q -c -T 60 -t 1 -O "$2" "$1"
        elif has wget; then
            # There is a busybox that crashes with a time limit.
            wget -q -c -O "$2" "$1"
        else
            fail 'need curl or wget to download; install one of them'
        fi && return
        [ "$attempt" -lt 6 ] || return 1
        # A server that cannot go on where it ended must begin again.
        [ "$attempt" -lt 3 ] || rm -f "$2"
        say "      $1: failed, trying again in $attempt s"
        sleep "$attempt"
        attempt=$((attempt + 1))
    done
}

# Gets the program into a new folder in $1; fails where that is not possible or nothing can be run.
get_program() {
    [ -n "$1" ] && [ -d "$1" ] && [ -w "$1" ] || return 1
    room=$(df -kP "$1" 2>/dev/null | tail -n 1 | awk '{ print $4 }' 2>/dev/null)
    [ "${room:-1000000000}" -gt $((program_megabytes * 1000)) ] || return 1
    folder=$1/.monobloc-run-$$
    if ! mkdir -m 700 "$folder" 2>/dev/null; then
        folder=
        return 1
    fi
    # What can be run is found out before anything is downloaded.
    printf '#!/bin/sh\n' >"$folder/try" && chmod 700 "$folder/try" && "$folder/try" 2>/dev/null
    if [ $? -eq 126 ]; then
        rm -rf "$folder"
        folder=
        return 1
    fi
    rm -f "$folder/try"
    get "$program_path" "$folder/monobloc" || fail "cannot get $from/$program_path"
    found=$(sha256_of "$folder/monobloc")
    if [ "$found" != "$program_sha256" ]; then
        fail "$from/$program_path has the SHA-256 $found, expected $program_sha256: it was damaged or \
changed on its way. Nothing of this host was changed."
    fi
    chmod 700 "$folder/monobloc"
    "$folder/monobloc" --version >/dev/null 2>&1 && return
    rm -rf "$folder"
    folder=
    return 1
}

# Sets `program`: the one that is installed, if it is the same, or a copy of the published one.
find_program() {
    program=$install_root/tool/monobloc
    if [ -x "$program" ] && [ "$(sha256_of "$program")" = "$program_sha256" ]; then
        say "[1/2] the program is here: $program"
        return
    fi
    say "[1/2] getting the program from $from ($program_megabytes MB)"
    for place in "${MONOBLOC_TMPDIR-}" "${TMPDIR-}" /tmp /var/tmp /run /dev/shm /root /; do
        get_program "$place" && break
    done
    [ -n "$folder" ] || fail "found no folder that has $program_megabytes MB free, can be written to and \
lets programs run; name one in MONOBLOC_TMPDIR"
    program=$folder/monobloc
}

be_root() {
    [ "$(id -u)" -eq 0 ] || fail "this must be run as root, try: sudo sh $0"
}

# Where the bundle is: as asked for, where it was made for, or beside this script.
find_bundle() {
    here=$(dirname "$0")
    if [ -z "$from" ] && [ -f "$here/latest.json" ]; then
        from=$(cd "$here" && pwd)
    fi
    [ -n "$from" ] || from=$url
    [ -n "$from" ] || misuse 'say where the bundle is: --from URL|FOLDER'
    from=${from%/}
}

# Keeps an option for the program: one a line, for words may have blanks in them.
given=
option() {
    given="$given$1
"
}

# Becomes the program, with the options that were kept: signals and standard input are its own. It removes
# the folder it was copied to.
become_program() {
    if [ -n "$folder" ]; then
        MONOBLOC_REMOVE_FOLDER=$folder
        export MONOBLOC_REMOVE_FOLDER
    fi
    trap - EXIT
    IFS='
'
    set -f
    # shellcheck disable=SC2086 # Lines are words here.
    exec "$program" "$@" $given
}

# Programs look for the names in small letters.
[ -n "${http_proxy-}" ] || [ -z "${HTTP_PROXY-}" ] || export http_proxy="$HTTP_PROXY"
[ -n "${https_proxy-}" ] || [ -z "${HTTPS_PROXY-}" ] || export https_proxy="$HTTPS_PROXY"
[ -n "${no_proxy-}" ] || [ -z "${NO_PROXY-}" ] || export no_proxy="$NO_PROXY"
