# shellcheck shell=bash
# Sourced by the parts of scripts/test.d that count their own tests.
#   check NAME COMMAND...   one test: passes when the command exits 0, is skipped when with 77
#   eventually COMMAND...   waits until the command succeeds
#   finish                  prints "N passed, M failed"; to be called last

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

checks_passed=0 checks_failed=0

check() {
  local name=$1
  shift
  # In a subshell with -e of its own: a function under test stops at its first failing line.
  set +e
  (set -e; "$@")
  local status=$?
  set -e
  if [ "$status" -eq 0 ]; then
    checks_passed=$((checks_passed + 1))
    echo "ok      $name"
  elif [ "$status" -eq 77 ]; then
    echo "skipped: $name"
  else
    checks_failed=$((checks_failed + 1))
    echo "FAILED  $name (status $status)"
  fi
}

# Waits until the command succeeds; fails when it has not after two minutes. So a test waits as long as a slow
# machine takes, and no longer.
eventually() { # COMMAND...
  local _
  for _ in $(seq 2400); do
    ! "$@" || return 0
    sleep 0.05
  done
  return 1
}
not() { ! "$@"; }
nothing() { [ -z "$("$@")" ]; } # COMMAND...: it prints nothing
holds() { # LINES WORD FILE: at least so many lines of the file have it
  local lines
  lines=$(grep -cs -- "$2" "$3") || :
  [ "${lines:-0}" -ge "$1" ]
}
processes() { [ "$(pgrep -fc -- "$2")" -ge "$1" ]; } # COUNT PATTERN: at least so many are there

# Whether a line of what comes in matches; reads all of it. `grep -q` ends at the first line: by pipefail
# its writer's SIGPIPE is then the pipe's status, now and then.
matching() { # GREP'S ARGUMENTS...
  local text
  text=$(cat)
  grep -q "$@" <<<"$text"
}

# The packages of the Haskell libraries that the cabal files import. Debian names a library's package
# after it; what comes with GHC needs none.
haskell_packages() {
  local lib bundled
  bundled=$(dpkg-query -L ghc)
  sed -nE 's/^ *(build-depends:|,) *([a-zA-Z][a-zA-Z0-9-]*)([^a-zA-Z0-9.-].*)?$/\2/p' \
    "$root"/haskell/*/*.cabal "$root"/bench/*.cabal "$root"/examples/*.cabal | sort -u |
    while read -r lib; do
      case $lib in maru | maru-* | map-side) continue ;; esac
      ! matching "/$lib-[0-9.]*\.conf$" <<<"$bundled" || continue
      case $lib in parsec) lib=parsec3 ;; QuickCheck) lib=quickcheck2 ;; HUnit) lib=hunit ;; esac
      echo "libghc-$lib-dev"
    done
}
# Says where a list of such packages, called so, is not the one that comes in.
same_packages() { # LIST CALLED
  diff <(sort) <(sort "$1") | sed -nE "s|^< |$2 lacks |p; s|^> (.*)|$2 has \\1, which no cabal file imports|p" | { ! grep .; }
}

# cabal check has nothing to say of a package. Cabal 3.4 calls a library that is part of a package an
# experiment each time that it reads of one.
cabal_check() { # PACKAGE
  local said
  cd "$root/haskell/$1"
  said=$(cabal check 2>&1 | tr '\n' ' ' | sed 's/Warning: /\n&/g; s/Error: /\n&/g' |
    grep -E '^(Warning|Error): ' | grep -vE 'experimental feature|may cause trouble|likely cause trouble' || :)
  [ -z "$said" ] || { echo "$said"; return 1; }
}

finish() {
  echo "$checks_passed passed, $checks_failed failed"
  [ "$checks_failed" -eq 0 ]
}
