# shellcheck shell=sh
# What the shell programs and checks of this distribution share. To be sourced.

PATH=/opt/atoll/bin:$PATH
ATOLL_CONFIG=${ATOLL_CONFIG:-/etc/atoll}

# say WORDS...: one line that starts with the name of the program.
say() {
    printf '%s: %s\n' "${0##*/}" "$*"
}

# die WORDS...: the same on standard error, and the end.
die() {
    say "$@" >&2
    exit 1
}

# roles: the roles of this host, one a line, sorted.
roles() {
    for role in "$ATOLL_CONFIG"/roles/*; do
        [ -e "$role" ] || continue
        printf '%s\n' "${role##*/}"
    done
}

# has_role ROLE...: whether this host has one of them.
has_role() {
    for role in "$@"; do
        [ ! -e "$ATOLL_CONFIG/roles/$role" ] || return 0
    done
    return 1
}

# only_on ROLE...: end with success on a host that has none of them.
only_on() {
    has_role "$@" || {
        say "does not run on this host"
        exit 0
    }
}

# settings SERVICE: what the cluster's configuration sets for it, also for programs that
# systemd does not start.
settings() {
    [ -r "/opt/atoll/etc/$1.env" ] || return 0
    while IFS= read -r line; do
        case $line in
            [A-Z]*=*) export "${line?}" ;;
        esac
    done <"/opt/atoll/etc/$1.env"
}

# http_get URL: print the body; fail unless a good answer comes within 5 s. Past any proxy:
# the address is one of this host.
http_get() {
    if command -v curl >/dev/null; then
        curl --noproxy '*' --fail --silent --show-error --max-time 5 "$1"
    elif command -v wget >/dev/null; then
        (unset http_proxy HTTP_PROXY && wget -q -O - -T 5 "$1")
    else
        say "needs curl or wget to ask $1" >&2
        return 1
    fi
}
