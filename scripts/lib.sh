# shellcheck shell=bash
# Sourced by every script here: where things are, the tools' environment, how
# a phase is run and how a failure is said.
#
# Nothing outside build/ is written: cabal's home and configuration lie there
# too, so a missing or read-only HOME does not matter and no user
# configuration changes a build.

set -euo pipefail

# A script's head is its help. Asked for it, a script does nothing else, wherever it lies.
if [[ "${1:-}" =~ ^(-h|--help)$ && -f $0 ]]; then
  sed -nE '1d; /^#/!q; s/^# ?//p' "$0"
  exit
fi

# What is built and installed is for every user, whatever this one's own files are for.
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
logs=$build/.logs

export LANG=C.UTF-8 LC_ALL=C.UTF-8
export CABAL_DIR=$build/.cabal-home CABAL_CONFIG=$build/.cabal-home/empty-config
mkdir -p "$CABAL_DIR" "$logs"
[ -e "$CABAL_CONFIG" ] || : >"$CABAL_CONFIG"

jobs=${MARU_JOBS:-$(nproc)}

. "$root/scripts/slowness.sh"

# What the limits of meson's tests are multiplied by: for as many times as much of each, and for a loaded machine.
patience() {
  local slow
  slow=$(slowness)
  echo $((${MARU_TEST_SCALE:-1} * (slow > 5 ? slow : 5)))
}

die() {
  echo "maru: $*" >&2
  exit 1
}

# What builds has to be there; else with a word on what to do.
has_tools() { # [WORD]
  local tool
  for tool in "${CC:-cc}" meson ninja pkg-config ghc cabal alex; do
    command -v "${tool%% *}" >/dev/null || die "the tool '${tool%% *}' is missing${1:+; $1}"
  done
}

# For a script that needs what scripts/build stages.
built() { [ -x "$build/bin/maru" ] || die "nothing is built yet; run 'make build' first"; }

# For a script that needs the names of the files that git knows: an archive of the sources has none, and of another
# user's clone git says none. A list from `tracked` would be empty then.
known_to_git() {
  local why
  why=$(git -C "$root" ls-files 2>&1 >/dev/null) || die "git knows no file of this tree, and this needs their names: ${why%%$'\n'*}"
}
# When these sources were changed last, in seconds: an archive's files have the time of its commit.
changed_at() { git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md"; }

# The files of this tree that git knows and that are there, each ended by a zero byte; of these patterns.
tracked() { # [PATTERN...]
  comm -z -23 <(git -C "$root" ls-files -z -- "$@" | sort -z) <(git -C "$root" ls-files -dz -- "$@" | sort -z)
}

# The version of what is built here, and the name of its archive, by scripts/bundle.
version_here() { "$build/bin/maru" --version | awk '{ print $2 }'; }
archive_here() { echo "maru-$(version_here)-linux-$(uname -m)"; }

# phase TITLE COMMAND...: one line per phase; the output goes to a log, which
# is shown when the phase fails (V=1 shows everything at once).
phase() {
  local title=$1 log started=$SECONDS status
  shift
  log=$logs/${title//[^a-zA-Z0-9]/-}.log
  printf '%-52s' "$title"
  # A shell that tests a function's status ignores set -e inside it, hence the subshell.
  set +e
  if [ -n "${V:-}" ]; then
    echo
    (set -e; "$@") 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
  else
    (set -e; "$@") >"$log" 2>&1 </dev/null
    status=$?
  fi
  set -e
  if [ "$status" -eq 0 ]; then
    echo "ok  $((SECONDS - started)) s"
    return
  fi
  echo "FAILED (status $status)"
  tail -n 60 "$log" >&2
  die "\"$title\" failed; whole log: ${log#"$root"/}"
}

# beside NAME COMMAND...: begins a command in the background, in a process group of its own. One at a time; however
# the script ends, the command ends with it.
# joined: shows what it says, to its end, and has its status.
beside() {
  beside_log=$logs/beside-$1.log beside_status=$logs/beside-$1.status
  shift
  : >"$beside_log"
  rm -f "$beside_status"
  set -m
  {
    set +e
    (set -e; "$@")
    echo $? >"$beside_status"
  } >"$beside_log" 2>&1 </dev/null &
  beside=$!
  set +m
  trap '[ -e "$beside_status" ] || kill -- "-$beside" 2>/dev/null || :' EXIT
}
joined() {
  tail -n +1 -s 0.2 --pid="$beside" -f "$beside_log"
  [ -e "$beside_status" ] && return "$(cat "$beside_status")"
}

# Cabal compiles a C file again when that file has changed, but not when a header has that it includes
# (its issue 4306); so with what is made of a .hsc file. Where a header of this tree is another than the
# last time, those objects and files go. What GHC compiled itself stays.
forget_stale() {
  local headers file stamp=$build/.cabal/headers
  local folders=("$build"/.cabal/build "$build"/.cabal-haddock/build "$build"/.cabal-ways/*/build)
  headers=$(find "$root/haskell" "$root/native" "$root/bench" -name '*.h' -type f -print0 | sort -z | xargs -0 cksum | cksum)
  [ "$headers" != "$(cat "$stamp" 2>/dev/null)" ] || return 0
  for file in "${folders[@]}"; do
    [ ! -e "$file" ] || stale "$file"
  done | xargs -rd '\n' rm -f
  mkdir -p "$build/.cabal"
  echo "$headers" >"$stamp"
}
stale() { # FOLDER
  local file
  # An object of C has no interface beside it.
  find "$1" \( -name '*.o' -o -name '*.dyn_o' -o -name '*.p_o' \) | while read -r file; do
    [ -e "${file%o}hi" ] || echo "$file"
  done
  find "$root"/haskell/*/src -name '*.hsc' -printf '%f\n' | sed 's/c$//' | while read -r file; do
    find "$1" -name "$file"
  done
  # Cabal's word that a package is built: it looks at the headers that the package lists.
  find "$1" -path '*/cache/build' -type f
}

# Cabal on the project's packages, everything below build/. One at a time: parts of the tests run beside each other.
cabal_here() { # COMMAND ARGUMENT...
  local command=$1 held
  shift
  (
    cd "$root/haskell"
    exec {held}>"$build/.cabal.lock"
    flock "$held"
    case $command in v2-build | v2-haddock) forget_stale ;; esac
    cabal "$command" --builddir="$build/.cabal" "$@"
  )
}

# Warnings are errors with the compilers that this is tested with; others may know new warnings, and so
# may flags that a distribution adds (MARU_STRICT=no).
strict() { [ "${MARU_STRICT:-}" = no ] || [ "$(ghc --numeric-version)" != 9.0.2 ] || echo -fdev; }
strict_c() { [ "${MARU_STRICT:-}" = no ] || [ "$("${CC:-cc}" -dumpversion)" != 12 ] || echo --werror; }

# Formatters and finders of hints change their mind from version to version: the tree is as those of Debian 12
# want it. Elsewhere they are not asked.
formatters_agree() { [[ "$(ormolu --version) $(clang-format --version)" =~ ^ormolu\ 0\.3\..*version\ 14\. ]]; }
hints_agree() { [[ "$(hlint --version)" == *" v3.3."* ]]; }

# The commands that build; without network.
cabal_offline() { # COMMAND ARGUMENT...
  local command=$1
  shift
  # shellcheck disable=SC2046 # no word at all where it is not strict
  cabal_here "$command" --offline $(strict) "$@"
}

# The path of a built program; one that is a test, with the second argument "test": NAME [test]
program() { cabal_offline list-bin "${2:-exe}:$1"; }

# native_tree NAME MESON-OPTION...: configures build/.native-NAME once.
native_tree() {
  local tree=$build/.native-$1
  shift
  [ -e "$tree/build.ninja" ] || meson setup "$tree" "$root/native" "$@"
}

# The C tests under sanitizers, each in a tree of its own; compiled by 05-suites, and here where that did not run.
# Optimised as far as the sanitizers' manuals advise, with the lines that a report names.
compile_sanitized() { # NAME
  local flags=(-Doptimization=1 -Ddebug=false -Dc_args=-g1 -Dcpp_args=-g1)
  # shellcheck disable=SC2046 # no word at all where it is not strict
  case $1 in
    address) native_tree address $(strict_c) "${flags[@]}" -Db_sanitize=address,undefined ;;
    thread) native_tree thread $(strict_c) "${flags[@]}" -Db_sanitize=thread -Dfork_tests=false ;; # it cannot follow a fork
  esac
  # What its tests run, and no program that is only measured or installed.
  ninja -C "$build/.native-$1" -j"$jobs" meson-test-prereq
}
# Its warnings do not depend on optimisation, and nothing of it is run.
compile_clang() {
  CC=clang native_tree clang --werror -Doptimization=0 -Ddebug=false
  ninja -C "$build/.native-clang" -j"$jobs"
}

# meson_tests TREE ARGUMENT...: one more at once than there are CPUs, for many of them sleep most of their time.
meson_tests() {
  local tree=$1
  shift
  meson test -C "$tree" --no-rebuild --print-errorlogs --num-processes $((jobs + 1)) "$@"
}

# A sanitizer slows a test down, hence the longer time limits.
sanitized() { # NAME
  local name=$1
  compile_sanitized "$name"
  # Single-stepping through a sanitizer's instructions takes minutes and shows nothing about ours.
  local tests
  mapfile -t tests < <(meson test -C "$build/.native-$name" --no-rebuild --list |
    sed 's|.*[/:] *||' | grep -vx kill_every_instruction) # "maru:dsm / NAME"; Meson 1.12: "dsm - maru:NAME"
  meson_tests "$build/.native-$name" --timeout-multiplier "$((5 * $(patience)))" "${tests[@]}"
}

cabal_file() { find "$root/haskell" "$root/bench" -maxdepth 2 -name "$1.cabal"; } # PACKAGE

# haskell_tests TARGET...: runs test suites (PACKAGE:test:SUITE, "PACKAGE:test:SUITE ARGUMENT..."), or all of a PACKAGE,
# each in its package's folder and with the built `maru` on the path. One that runs no test at all has lost them: that is a failure.
# Cabal only builds: its own way to run them configures all packages anew, there and back.
haskell_tests() {
  local target package suite binary arguments status=0 found suites=() log=$logs/haskell-tests-${1//[ :\/]/-}.log
  for target in "$@"; do
    case $target in
      *:test:*) suites+=("$target") ;;
      *)
        mapfile -t found < <(sed -n "s/^test-suite /$target:test:/p" "$(cabal_file "$target")")
        [ "${#found[@]}" -gt 0 ] || { echo "FAILED: $target has no test suite"; return 1; }
        suites+=("${found[@]}")
        ;;
    esac
  done
  cabal_offline v2-build -j"$jobs" "${suites[@]%% *}"
  PATH=$(dirname "$(program maru)"):$PATH
  for target in "${suites[@]}"; do
    read -ra arguments <<<"$target"
    suite=${arguments[0]}
    package=$(cabal_file "${suite%%:*}") binary=$(cabal_offline list-bin "$suite")
    echo "Test suite $target"
    (cd "$(dirname "$package")" && "$binary" "${arguments[@]:1}" 2>&1) | tee "$log" || status=1
    grep -qE '^All [0-9]+ tests passed' "$log" || {
      echo "FAILED: $target: not all tests passed, or there was none"
      status=1
    }
  done
  return "$status"
}
