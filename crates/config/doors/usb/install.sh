[# The script at the top of a stick. -#]
#!/bin/sh
# Installs [[ name ]] from this folder: sh install.sh [OPTION...] ROLE...
# The options are those of the install script; `-h` lists them.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

[% include "get.sh" %]

run_verified --from "$here" "$@"
