
# is_address TEXT
is_address() (
    case $1 in
        *[!0-9a-fA-F:]* | *:::* | *::*::* | :[!:]* | *[!:]:) exit 1 ;;
        :: | ::1 | [fF][eE][89abAB]?:* | [fF][fF]??:*) exit 1 ;;
        *:*:*) ;;
        *) exit 1 ;;
    esac
    whole=$1
    groups=0
    IFS=:
    # shellcheck disable=SC2086
    set -- $1
    for part; do
        case $part in
            '') ;;
            ? | ?? | ??? | ????) groups=$((groups + 1)) ;;
            *) exit 1 ;;
        esac
    done
    case $whole in
        *::*) [ "$groups" -lt 8 ] ;;
        *) [ "$groups" -eq 8 ] ;;
    esac
)

# print_address TEXT
print_address() {
    [ -n "$1" ] || fail 'there is no IPv6 address'
    is_address "$1" || fail "this is no IPv6 address of a host: $1"
    printf '%s\n' "$1"
}
