set -u
export LC_ALL=C

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}
