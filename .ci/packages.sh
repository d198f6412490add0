# shellcheck shell=bash
# Sourced by ./check and ./quickstart: gets what the machine lacks, or says what that is and stops.

# need COMMAND:PACKAGE... : the Debian package of every command that is not there
need() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} -eq 0 ] || debian "${missing[@]}"
}

# debian PACKAGE... : installs Debian packages
debian() {
    if ! can_install; then
        echo "error: missing, and only root on a system with apt-get can have it installed:" >&2
        echo "    apt-get install $*" >&2
        echo "(these are Debian's names; elsewhere they are similar)" >&2
        exit 1
    fi
    echo "installing $*"
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null && return
    echo "error: apt-get could not install $*" >&2
    exit 1
}

can_install() {
    command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ] || return
    [ -n "${updated:-}" ] && return
    updated=yes
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
}

# at_least VERSION COMMAND... : whether these programs of Rust are there and not older
at_least() {
    local wanted=$1 found program
    shift
    for program in "$@"; do
        found=$("$program" --version 2>/dev/null | cut -d' ' -f2)
        [ -n "$found" ] || return
        [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n1)" = "$wanted" ] || return
    done
}

# debian_rust VERSION : Rust in /usr/bin; Debian keeps a new one beside that of the release
debian_rust() {
    at_least "$1" /usr/bin/rustc /usr/bin/cargo && return
    local kind candidate
    can_install || return
    for kind in -web ''; do
        candidate=$(apt-cache policy "rustc$kind" | sed -n 's/ *Candidate: *//p')
        if dpkg --compare-versions "$candidate" ge "$1"; then
            debian "rustc$kind" "cargo$kind" "rustfmt$kind" "rust$kind-clippy"
            return
        fi
    done
    return 1
}

# need_rust : the Rust that the project is built with, whose version Cargo.toml states
need_rust() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    # rustup's folder is not in the PATH of every shell.
    PATH=${CARGO_HOME:-${HOME:-/}/.cargo}/bin:$PATH
    at_least "$version" cargo rustc && return
    debian_rust "$version" && PATH=/usr/bin:$PATH && return
    echo "error: Rust $version or newer is missing: get it with rustup, see rust-lang.org" >&2
    exit 1
}
