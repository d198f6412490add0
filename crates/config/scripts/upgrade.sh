#!/bin/sh
# Upgrades this host to @NAME_COMMENT@. `sh FILE --help` says how.
#
# Everything is fetched and verified while what is installed goes on; then this host switches, tries the new
# version with the checks that its packages bring, and goes back by itself if they fail. Nobody can verify
# this script but you, before you run it: with `minisign -Vm FILE -P KEY`.
set -u
umask 077

@VALUES@
from_version=@FROM_VERSION@
bundle=@BUNDLE@

usage() {
    cat <<END
Usage: sh $0 [OPTIONS]

Upgrades this host from $name $from_version to $version. Safe to repeat, also after an interruption.

Options:
      --skip-checks        upgrade even if this host is not healthy before
  -d, --disable-preflight  upgrade even if checks say that this machine is not fit
      --allow-expired      take a bundle that has expired
      --from URL|FOLDER    where the bundle is [default: ${url:-none}]
      --key-file FILE|-    the key that opens the secrets of a role, if it is a new one; may be repeated
      --json               one JSON document on standard output
  -v, --verbose            accepted, has no effect: all is said that there is to say
  -h, --help               show this

Exit codes: 0 done, or nothing to do; 1 failed, and what was installed is live; 2 wrong use.
Environment: http_proxy, https_proxy, no_proxy; MONOBLOC_TMPDIR: where the program may be copied to.
END
}

from=
@HAND_OVER@

while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        -v | --verbose) ;;
        --skip-checks | --allow-expired | --json) option "$1" ;;
        -d | --disable-preflight) option --disable-preflight ;;
        --from | --key-file)
            [ $# -gt 1 ] || misuse "$1 needs a value"
            case $1 in
                --from) from=$2 ;;
                *) option --key-file; option "$2" ;;
            esac
            shift
            ;;
        --from=*) from=${1#*=} ;;
        --key-file=*) option --key-file; option "${1#*=}" ;;
        *) misuse "there is no option $1" ;;
    esac
    shift
done
be_root
find_bundle
find_program
say "[2/2] upgrade from $from_version to $version"
become_program host @PLACES@ upgrade --from "$from" --public-key "$public_key" \
    --from-version "$from_version" --bundle "$bundle"
