[# The script that every door but the stick puts on hosts. -#]
#!/bin/sh
# Installs [[ name ]] on this host: gets its install script, verifies it, and only then runs it.
#
#   [[ name ]]-install [OPTION...] ROLE...  once, now; the options are those of the install script
#   [[ name ]]-install --once [ROLE...]     unless this bundle was installed so already
#   [[ name ]]-install --is-done [ROLE...]  exits with 0 if it was
#
# In /etc/[[ name ]]-install: `roles` says what the host is if nobody else does; each `*.agekey` is a key
# for secrets, and `key-command ROLE` is a program that prints one.
#
# Made by `monobloc configure --for`. Made anew, it differs if what is published does.
set -eu

folder=/etc/[[ name ]]-install
bundle=[[ bundle ]]

[% include "get.sh" %]

verb=${1-}
case $verb in
    --once | --is-done) shift ;;
esac
if [ $# -eq 0 ]; then
    [ -s "$folder/roles" ] || fail "nothing says what this host shall be: write its role to $folder/roles"
    # shellcheck disable=SC2046
    set -- $(cat "$folder/roles")
fi
stamp="$bundle $*"
case $verb in
    --once | --is-done)
        if [ -e [[ install_root ]]/current ] && [ "$(cat "$folder/done" 2>/dev/null)" = "$stamp" ]; then
            exit 0
        fi
        [ "$verb" = --once ] || exit 1
        ;;
esac

for key in "$folder"/*.agekey; do
    [ ! -e "$key" ] || set -- --key-file "$key" "$@"
done
[% if needs_keys %]
for role in "$@"; do
    case $role in
        ([% for role in roles if role.needs_key %][[ role.name ]][% if not loop.last %] | [% endif %][% endfor %]) ;;
        *) continue ;;
    esac
    [ -e "$folder/key-command" ] || continue
    (umask 077 && "$folder/key-command" "$role" >"$temporary/$role") ||
        fail "$folder/key-command did not print a key"
    set -- --key-file "$temporary/$role" "$@"
done
[% endif %]
run_verified "$@"

if [ "$verb" = --once ]; then
    mkdir -p "$folder"
    echo "$stamp" >"$folder/.done"
    mv -f "$folder/.done" "$folder/done"
fi
