#!/bin/sh
# Runs a command in a folder as docker-compose.yml runs an image: as 10001 without capabilities, with a read-only root.
#
#   unshare --mount --pid --ipc --fork --kill-child /bin/sh container.sh ROOT AGENTS COMMAND...
#
# AGENTS is where npm has installed the agents of worker-agents, or empty. It needs root.
set -eu
image_path=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$1 agents=$2
shift 2
mkdir -p "$root/proc" "$root/dev" "$root/tmp"
if [ -n "$agents" ]; then # on this machine's system, in place of Debian's with Node
  mount -t tmpfs tmpfs /mnt
  mkdir -p /mnt/local "$root/etc"
  mount -t overlay -o "lowerdir=$root/usr/local:$agents" overlay /mnt/local
  for folder in bin sbin lib lib64; do ln -sT "usr/$folder" "$root/$folder" 2>/dev/null || [ -L "$root/$folder" ]; done # others run beside it
fi
mount -o bind,ro "$root" "$root"
if [ -n "$agents" ]; then
  mount -o bind,ro /usr "$root/usr"
  mount --bind /mnt/local "$root/usr/local"
  mount -o bind,ro /etc "$root/etc"
  for volume in home/turnstile work; do mount -t tmpfs -o mode=0700,uid=10001,gid=10001 tmpfs "$root/$volume"; done
fi
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for device in null zero urandom; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
PATH=$image_path exec /usr/bin/setpriv --no-new-privs /usr/sbin/chroot --userspec=10001:10001 --groups= "$root" "$@"
