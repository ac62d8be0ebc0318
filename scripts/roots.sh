# shellcheck shell=bash
# Sourced by what runs in a bare Debian of its own: how one is made, and how a command runs in it.

export MARU_JOBS=$jobs

# The mirror that this machine's apt uses for a suite, or Debian's.
mirror_of() { # SUITE
  # shellcheck disable=SC2016 # apt expands these, not the shell
  [ -n "${MARU_MIRROR:-}" ] && echo "$MARU_MIRROR" && return
  { apt-get indextargets --format '$(COMPONENT) $(CODENAME) $(SITE)' 'Created-By: Packages' 2>/dev/null || :; } |
    awk -v suite="$1" '$1 == "main" && $2 == suite { print $3; found = 1; exit } END { if (!found) print "http://deb.debian.org/debian" }'
}

may_have_roots() { # CALLER
  [ "$(id -u)" -eq 0 ] || die "$1 needs root: chroot and mount do"
  command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
}

# The host's way to the network (proxies, and the certificates that it trusts: a proxy may have its own),
# but not its package lists.
to_network() { # FOLDER
  local trusted=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
  apt-config dump Acquire >"$1/etc/apt/apt.conf.d/99host"
  cp /etc/resolv.conf "$1/etc/resolv.conf"
  if [ -e "$trusted" ]; then
    cp -L "$trusted" "$1/etc/host-certificates.crt"
    printf '[global]\ncert = /etc/host-certificates.crt\n' >"$1/etc/pip.conf"
  fi
}

# A minimal Debian that can install packages.
bare_root() { # SUITE FOLDER
  rm -rf --one-file-system "$2"
  mkdir -p "$(dirname "$2")"
  debootstrap --variant=minbase "$1" "$2" "$(mirror_of "$1")"
  to_network "$2"
}

# One that stays in build/.roots/SUITE for the next time.
kept_root() { # SUITE
  [ ! -e "$build/.roots/$1/.whole" ] || return 0
  bare_root "$1" "$build/.roots/$1"
  touch "$build/.roots/$1/.whole"
}

# A copy of that, to be changed, without what scripts/bundle-check has put there.
copied_root() { # SUITE FOLDER
  rm -rf --one-file-system "$2"
  mkdir -p "$2"
  cp -a --one-file-system "$build/.roots/$1/." "$2"
  rm -rf "$2"/opt/*
  to_network "$2"
}

# A command that may take so long, and no longer.
limited() { # SECONDS COMMAND...
  local status=0 started=$SECONDS
  timeout -k 10 "$@" || status=$?
  [ "$status" -eq 0 ] || [ $((SECONDS - started)) -lt "$1" ] ||
    echo "maru: ended after its limit of $1 s; on a loaded machine give it more: MARU_ROOT_LIMIT=SECONDS" >&2
  return "$status"
}

# Runs a command in a root, as its root, with nothing of this environment but the number of jobs. Mounts
# lie in a namespace of their own: they and every process left over vanish with it, however it ends.
# With a third folder: this tree is there at /maru, read-only, and that folder is its build/.
in_root() { # SECONDS ROOT COMMAND [BUILD]
  # shellcheck disable=SC2016 # the inner shell expands these
  limited "$1" unshare --mount --pid --fork --kill-child --propagation private bash -euc '
    system=$1 tree=$3 built=$4
    mount --bind "$system" "$system"
    mount -t proc proc "$system/proc"
    mount -t sysfs -o ro sysfs "$system/sys"
    mount -t tmpfs tmpfs "$system/dev/shm"
    mount -t tmpfs tmpfs "$system/tmp"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$system/dev/pts"
    ln -sf pts/ptmx "$system/dev/ptmx"
    if [ -n "$built" ]; then
      mkdir -p "$system/maru" "$built"
      mount --bind "$tree" "$system/maru"
      mount --bind "$built" "$system/maru/build"
      mount -o remount,bind,ro "$system/maru"
    fi
    # Not chroot, in which the kernel refuses a name space of users, and / cannot be made private.
    cd "$system"
    pivot_root . .
    umount -l .
    cd /
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
      MARU_JOBS="$MARU_JOBS" V="${V:-}" MARU_TEST_SCALE="${MARU_TEST_SCALE:-1}" sh -euc "$2"
  ' - "$2" "$3" "$root" "${4:-}" </dev/null
}

# The same in /tmp, where an archive unpacked to /opt/maru is found.
inside() { in_root "${MARU_ROOT_LIMIT:-900}" "$1" "PATH=/opt/maru/bin:\$PATH; cd /tmp; $2"; }
