#!/bin/sh
# try FOLDER GROUP DISKS : tries all that hosts are made of, in namespaces that vanish with this, and writes what
# cannot be had. FOLDER is new; GROUP is where control groups are, or a place in FOLDER if they are nowhere yet;
# the disks of hosts will be in memory or here.
cd "$1" && mkdir group lower memory root || exit 1
mount -t tmpfs try memory || exit 1
mkdir -p "$3/upper" "$3/work"
mount -t overlay -o "lowerdir=lower,upperdir=$3/upper,workdir=$3/work" try root ||
    echo 'overlay file systems'
if [ "$2" = "$1/group" ] && ! mount -t cgroup2 try group || ! mkdir "$2/monobloc-try-$$"; then
    echo 'control groups (v2) that can be written'
else
    rmdir "$2/monobloc-try-$$"
fi
ip link add try1 type veth peer name try2 && ip link add try3 type bridge || echo 'the right to make networks'
