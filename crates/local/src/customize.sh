#!/bin/sh
# customize.sh ROOT: makes the image in ROOT fit for hosts that boot often and reach no mirror.
set -eu
root=$1

# All log in with the key of their cluster. deploy: sudo without password; admin: sudo asks for the
# password "admin"; plain: password "plain", no sudo.
for user in deploy admin plain; do
    chroot "$root" useradd --create-home --shell /bin/bash "$user"
done
echo 'deploy ALL=(ALL:ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/deploy"
echo 'admin ALL=(ALL:ALL) ALL' >"$root/etc/sudoers.d/admin"
chmod 440 "$root/etc/sudoers.d/deploy" "$root/etc/sudoers.d/admin"
printf 'admin:admin\nplain:plain\n' | chroot "$root" chpasswd

# The only host key there is; sshd shall not ask for others.
mkdir -p "$root/etc/ssh/sshd_config.d" "$root/etc/systemd/journald.conf.d"
printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nUseDNS no\n' >"$root/etc/ssh/sshd_config.d/local.conf"
printf '[Journal]\nSystemMaxUse=64M\nSystemMaxFileSize=8M\n' >"$root/etc/systemd/journald.conf.d/local.conf"
mkdir -p "$root/var/log/journal"

# What each host has of its own.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/resolv.conf" "$root/var/lib/dbus/machine-id"
: >"$root/etc/machine-id"
rm -f "$root"/etc/apt/sources.list.d/*
: >"$root/etc/apt/sources.list"

# Units that only use time on many hosts, or want the outside world.
for unit in console-getty.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer \
    e2scrub_all.timer e2scrub_reap.service dpkg-db-backup.timer fstrim.timer motd-news.timer \
    man-db.timer logrotate.timer systemd-networkd-wait-online.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
