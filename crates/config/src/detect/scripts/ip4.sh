
# is_address TEXT
is_address() (
    case $1 in
        *[!0-9.]* | *.) exit 1 ;;
        0.0.0.0 | 127.* | 22[4-9].* | 23[0-9].* | 255.255.255.255) exit 1 ;;
    esac
    IFS=.
    # shellcheck disable=SC2086
    set -- $1
    [ $# -eq 4 ] || exit 1
    for part; do
        case $part in
            [0-9] | [1-9][0-9] | 1[0-9][0-9] | 2[0-4][0-9] | 25[0-5]) ;;
            *) exit 1 ;;
        esac
    done
)

# print_address TEXT
print_address() {
    [ -n "$1" ] || fail 'there is no IPv4 address'
    is_address "$1" || fail "this is no IPv4 address of a host: $1"
    printf '%s\n' "$1"
}
