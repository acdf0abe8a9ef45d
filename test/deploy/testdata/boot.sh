#!/bin/sh
# Starts a unit under a real systemd, as process 1 of new namespaces: unshare --mount sh boot.sh DIR UNIT. DIR has units,
# programs (bin) and files for /etc (etc), and gets what systemd prints. It ends at the end
# of its stdin, and needs root.
set -eu
if [ "$1" != inside ]; then
  # systemd wants a tree of cgroups for itself.
  tree=$(mktemp -d)
  mount -t cgroup2 cgroup2 "$tree"
  group=$tree/turnstile-$$
  mkdir "$group"
  (echo 0 >"$group/cgroup.procs" && exec unshare --mount --cgroup --pid --ipc --uts --fork --kill-child sh "$0" inside "$1" "$2") &
  read -r _ || true # until the test ends
  echo 1 >"$group/cgroup.kill"
  wait $! || true
  until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || [ ! -e "$group" ]; do sleep 0.1; done
  umount "$tree"
  rmdir "$tree"
  exit
fi
exec 2>&1
mount -t tmpfs tmpfs /mnt
mkdir /mnt/own
mount --bind "$2" /mnt/own
for folder in etc usr/local/bin var/lib; do # changes stay here
  upper=/mnt/changed/$folder
  mkdir -p "$upper/up" "$upper/work"
  mount -t overlay -o "lowerdir=/$folder,upperdir=$upper/up,workdir=$upper/work" overlay "/$folder"
done
cp -r /mnt/own/etc/. /etc/
install -m 0711 /mnt/own/bin/* /usr/local/bin/
systemd-sysusers /mnt/own/turnstile.sysusers.conf
chgrp turnstile-gateway /etc/turnstile/tokens.json && chmod 0640 /etc/turnstile/tokens.json
umount --recursive --lazy /proc # another /proc below would let bwrap mount what systemd forbids
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
umount --recursive --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind /mnt/own/systemd /dev/console
mkdir -p /run/systemd/system
cp -r /mnt/own/units/. /run/systemd/system/
for target in sysinit basic shutdown umount network-online; do # of the machine's units it starts none
  printf '[Unit]\nDefaultDependencies=no\n' >"/run/systemd/system/$target.target"
done
export container=test SYSTEMD_UNIT_PATH=/run/systemd/system SYSTEMD_GENERATOR_PATH=/nowhere
exec /lib/systemd/systemd --system --unit="$3.service" --log-target=console --show-status=no
