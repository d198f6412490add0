
command -v ip >/dev/null || fail 'the program ip is missing'
lines=$(ip -@family@ -o addr show dev '@interface@' scope global) ||
    fail 'cannot ask for the addresses of @interface@'
# The first address that is there to stay: not one that was added to another, or that will go.
address=$(
    printf '%s\n' "$lines" | while read -r _ _ _ address flags; do
        case " $flags " in
            *' secondary '* | *' temporary '* | *' deprecated '* | *' tentative '* | *' dadfailed '*) ;;
            *)
                printf '%s\n' "${address%%/*}"
                break
                ;;
        esac
    done
)
[ -n "$address" ] || fail '@interface@ has no address of this kind'
print_address "$address"
