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

# settings NAME: what the cluster's configuration sets for it, also for programs that
# systemd does not start.
settings() {
    [ -r "/opt/atoll/etc/$1.env" ] || return 0
    while IFS= read -r line; do
        case $line in
            [A-Z]*=*) export "${line?}" ;;
        esac
    done <"/opt/atoll/etc/$1.env"
}

# before_cluster: whether this host never saw the masters agree. Its checks cannot ask for more than
# it does alone then: hosts are installed in any order. Later, having no quorum is a failure.
before_cluster() {
    settings cluster
    if has_role master; then
        # The log of a new member begins with one entry for each of them.
        http_get http://127.0.0.1:2381/metrics 2>/dev/null |
            awk -v members="$(printf '%s\n' "${ATOLL_MASTERS:-}" | wc -w)" '
                $1 == "etcd_server_has_leader" { leader = $2 }
                $1 == "etcd_server_proposals_committed_total" { committed = $2 }
                END { exit leader != "0" || committed == "" || committed > members + 0 }'
    else
        # The registrar keeps a note of the masters that it registered with.
        [ "$(cat /var/lib/atoll/registrar/masters 2>/dev/null)" != "${ATOLL_MASTERS:-}" ]
    fi
}

# http_get URL: print the body; fail unless a good answer comes within 5 s. Past any proxy:
# the address is one of the cluster.
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

# address_of HOST: the IPv4 address of a host that is told by its name or its address.
address_of() {
    getent ahostsv4 "$1" | awk 'NR == 1 { print $1; found = 1 } END { exit !found }' ||
        die "nobody knows the IPv4 address of $1"
}

# member_at ADDRESS: of the lines of `etcdctl member list`, that of the member there.
member_at() {
    awk -F ', ' -v peer="http://$1:2380" '$4 == peer'
}

# patiently COMMAND...: run it until it succeeds, for some seconds: etcd takes a member that came a
# moment ago for ill, and refuses to change.
patiently() {
    tries=0
    until answer=$("$@" 2>&1); do
        tries=$((tries + 1))
        [ "$tries" -lt 8 ] || die "$(printf '%s\n' "$answer" | sed '/^{/d')"
        sleep 2
    done
}
