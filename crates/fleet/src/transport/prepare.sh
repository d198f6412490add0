# Finds the program on this host, or a place for it. The last line that it says is the answer.
# The words before this are: name install_root sha256 bytes url

parents='/var/lib /opt /root /run'
# What programs say is compared.
LC_ALL=C
export LC_ALL

sha256_of() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum <"$1" | cut -d ' ' -f 1
    elif command -v openssl >/dev/null 2>&1; then
        openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
    else
        echo 'no sha256sum and no openssl'
    fi
}

is_it() {
    [ -x "$1" ] && [ "$(sha256_of "$1")" = "$sha256" ]
}

# Only root can have made it, so nobody else put anything there.
is_ours() {
    [ -d "$1" ] && [ -O "$1" ] && [ ! -L "$1" ]
}

# A program that was put there before is good, also on a disk that is full since.
find_program() {
    for parent in $parents; do
        place=$parent/.monobloc-$name
        if is_ours "$place" && is_it "$place/monobloc"; then
            return
        fi
    done
    return 1
}

# A folder in which root can write and run programs. What is in one already stays, and is gone on with: if
# there is no room for more, there is no other place.
find_place() {
    full=
    for parent in $parents; do
        place=$parent/.monobloc-$name
        [ -d "$parent" ] || continue
        if [ ! -d "$place" ] && ! said=$(mkdir -m 700 "$place" 2>&1); then
            is_no_space && full=$place
            continue
        fi
        is_ours "$place" || continue
        said=$({ echo '#!/bin/sh' | cat >"$place/try"; } 2>&1)
        if [ -s "$place/try" ] && chmod 700 "$place/try" && "$place/try" 2>/dev/null; then
            rm -f "$place/try"
            return
        fi
        rm -f "$place/try"
        if is_no_space; then
            full=$place
            rmdir "$place" 2>/dev/null || return 1
        else
            rmdir "$place" 2>/dev/null
        fi
    done
    return 1
}

is_no_space() {
    case $said in
        *'No space left'* | *'quota exceeded'*) return 0 ;;
        *) return 1 ;;
    esac
}

# What the host can fetch need not come from the controller.
fetch() {
    [ -n "$url" ] || return 1
    if command -v curl >/dev/null 2>&1; then
        curl -fsSL --connect-timeout 10 -C - -o "$part" "$url" >/dev/null 2>&1 &
    elif command -v wget >/dev/null 2>&1; then
        wget -q -c -O "$part" "$url" >/dev/null 2>&1 &
    else
        return 1
    fi
    fetching=$!
    watch_it &
    watching=$!
    wait "$fetching"
    ended=$?
    kill "$watching" 2>/dev/null
    return "$ended"
}

# Says that the file grows, for who ends what is silent for too long; ends a download that does not.
watch_it() {
    before=
    while sleep 20 >/dev/null 2>&1; do
        now=$(wc -c <"$part" 2>/dev/null)
        [ "$now" != "$before" ] || kill "$fetching" 2>/dev/null
        before=$now
        echo "fetched $now"
    done
}

# A copy becomes the program: whoever wrote the file over a connection that is only half gone may have it open
# still, and such a file cannot be run.
accept() {
    [ "$(sha256_of "$part")" = "$sha256" ] || return 1
    copy=$place/monobloc.new
    rm -f "$copy"
    if ! said=$(cp "$part" "$copy" 2>&1); then
        rm -f "$copy"
        if is_no_space; then
            rm -f "$part"
            rmdir "$place" 2>/dev/null
            echo "full $place"
            exit 0
        fi
        echo "$said" >&2
        exit 1
    fi
    if [ "$(sha256_of "$copy")" = "$sha256" ] && chmod 700 "$copy" && mv "$copy" "$place/monobloc"; then
        rm -f "$part"
        echo "program $place/monobloc"
        exit 0
    fi
    rm -f "$copy"
}

umask 077
machine=$(uname -s -m)
if [ "$machine" != 'Linux x86_64' ]; then
    echo "machine $machine"
    exit 0
fi
for parent in /var/lib /opt /root /run; do
    [ ! -e "$parent/.monobloc-$name/bundle/latest.json" ] || echo pushed
done
if is_it "$install_root/tool/monobloc"; then
    echo "program $install_root/tool/monobloc"
    exit 0
fi
if find_program; then
    echo "program $place/monobloc"
    exit 0
fi
if ! find_place; then
    if [ -n "$full" ]; then echo "full $full"; else echo nowhere; fi
    exit 0
fi
part=$place/$sha256.part
if fetch; then
    accept
    # What is there for the URL is something else, and no part of the program.
    rm -f "$part"
fi
bytes_there=0
[ ! -f "$part" ] || bytes_there=$(wc -c <"$part")
room=$(df -kP "$place" 2>/dev/null | tail -n 1 | awk '{ print $4 }' 2>/dev/null)
# The rest, and a copy.
if [ "${room:-1000000000}" -lt $(((bytes - bytes_there + bytes) / 1000)) ]; then
    # Of no use without the rest.
    rm -f "$part"
    rmdir "$place" 2>/dev/null
    echo "full $place"
    exit 0
fi
command -v gzip >/dev/null 2>&1 && packed=gzip || packed=plain
echo "part $packed $((bytes_there)) $place"
