#!/bin/sh
# Makes this host a part of a cluster of @NAME_COMMENT@. `sh FILE --help` says how.
#
# Everything that is downloaded is verified: the program by the digest below, all else by the program with
# the key below. Nobody can verify this script but you, before you run it: by the SHA-256 that `monobloc
# configure` printed, or with `minisign -Vm FILE -P KEY`.
#
# Version 1 of the interface: options, exit codes, files and environment are documented and stay.
set -u
umask 077

@VALUES@

usage() {
    cat <<END
Usage: sh $0 [OPTIONS] ROLE...

Makes this host a part of a cluster of $name $version. Safe to repeat, also after an interruption.

Roles: $roles

Options:
  -d, --disable-preflight      install even if checks say that this host is not fit
  -p, --preflight-only         check this host and change nothing
      --no-block-$name-setup   do not wait for services to start, and do not try them
      --from URL|FOLDER        where the bundle is [default: beside this script, or ${url:-none}]
      --key-file FILE|-        the key that opens the secrets of a role; may be repeated
      --allow-older            take a bundle that is older than one that was live here
      --allow-expired          take a bundle that has expired
      --json                   one JSON document on standard output
  -h, --help                   show this

Exit codes: 0 done, or nothing to do; 1 failed, and the host is as it was; 2 wrong use.
Environment: http_proxy, https_proxy, no_proxy; MONOBLOC_TMPDIR: where the program may be copied to.
END
}

from=
mode=install
@HAND_OVER@

wanted=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        -d | --disable-preflight) option --disable-preflight ;;
        -p | --preflight-only) mode=preflight ;;
        "--no-block-$name-setup") option --no-block-systemd ;;
        --allow-older | --allow-expired | --json) option "$1" ;;
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
        -*) misuse "there is no option $1" ;;
        *)
            case " $roles " in
                *" $1 "*) ;;
                *) misuse "there is no role $1, expected one of: $roles" ;;
            esac
            option --role
            option "$1"
            wanted="$wanted $1"
            ;;
    esac
    shift
done
[ "$mode" = preflight ] || [ -n "$wanted" ] || misuse "say what this host shall be: $roles"
[ "$mode" = install ] || option --preflight-only
be_root
find_bundle
find_program
say "[2/2] $mode:${wanted:- no role} from $from"
become_program host @PLACES@ install --from "$from" --public-key "$public_key"
