
command -v ip >/dev/null || fail 'the program ip is missing'
route=$(ip -@family@ -o route get '@address@') || fail 'there is no route to @address@'
# What stands behind `src`.
case $route in
    *' src '*) address=${route#* src } ;;
    *) fail 'the route to @address@ has no source address' ;;
esac
print_address "${address%%[!0-9a-fA-F.:]*}"
