[# Gets the install script, verifies it, and only then runs it. Every door has this in its script. -#]
fail() {
    echo "error: $1" >&2
    exit 1
}

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
trap 'exit 1' HUP INT TERM

[% if address %]
# Gets the install script. A network that fails is tried again.
get() {
    address=[[ address | sh ]]
    attempt=1
    until
        if command -v curl >/dev/null 2>&1; then
            curl -fsSL --connect-timeout 20 --max-time 300 -o "$1" "$address"
        elif wget --version 2>/dev/null | grep -q GNU; then
            wget -q -T 60 -t 1 -O "$1" "$address"
        else
            # There is a busybox that crashes with a time limit.
            wget -q -O "$1" "$address"
        fi
    do
        [ "$attempt" -lt 6 ] || fail "cannot get $address"
        sleep "$attempt"
        attempt=$((attempt + 1))
    done
}
[% else %]
# Gets the install script, which lies beside this file.
get() {
    cp "$here/[[ script ]]" "$1"
}
[% endif %]

# Runs the install script, if it is the one that was published with this file.
run_verified() {
    get "$temporary/[[ script ]]"
    (cd "$temporary" && echo "[[ sha256 ]]  [[ script ]]" | sha256sum -c - >/dev/null 2>&1) ||
        fail "[[ script ]] is not the one that this file was made for: run \`monobloc configure --for\` again and use what it makes"
    sh "$temporary/[[ script ]]" "$@"
}
