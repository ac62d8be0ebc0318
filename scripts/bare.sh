# shellcheck shell=bash
# Sourced by what tries an archive or packages on a system that has nothing else: minimal Debian roots below
# build/.roots, made once. Mounts live in a namespace of their own: they and every process left over
# vanish with it, however the caller ends.

need_roots() {
  [ "$(id -u)" -eq 0 ] || die "${0##*/} needs root: chroot and mount do"
  command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
}

# bare SUITE: makes build/.roots/SUITE where it is not there yet.
bare() {
  local system=$build/.roots/$1
  [ -e "$system/.whole" ] && return
  rm -rf --one-file-system "$system"
  mkdir -p "$build/.roots"
  debootstrap --variant=minbase "$1" "$system" "${MARU_MIRROR:-http://deb.debian.org/debian}"
  touch "$system/.whole"
}

# inside SYSTEM COMMAND: there, in /tmp, with /proc, /dev/shm and terminals, nothing of this environment.
inside() {
  # shellcheck disable=SC2016 # the inner shell expands these
  timeout -k 10 "${MARU_ROOT_LIMIT:-900}" unshare --mount --pid --fork --kill-child bash -euc '
    mount -t proc proc "$1/proc"
    mount -t sysfs -o ro sysfs "$1/sys"
    mount -t tmpfs tmpfs "$1/dev/shm"
    mount -t tmpfs tmpfs "$1/tmp"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
    ln -sf pts/ptmx "$1/dev/ptmx"
    exec env -i PATH=/opt/maru/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
      chroot "$1" sh -euc "cd /tmp; $2"
  ' - "$1" "$2" </dev/null
}
