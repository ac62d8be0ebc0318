#!/bin/sh
# Stress of results by address under GHC's collectors, mostly with the debug run-time system and
# its sanity checks. One line per case: "ok NAME" or "FAIL NAME"; status 1 when one failed.
#
#   run.sh [ROUNDS]     rounds per case, default 4 (about 2 minutes in all); hundreds for a soak
#
# MARU_GC_BUILD: where to build (default: a temporary folder, removed at the end).
# MARU_GC_TIMEOUT: seconds per case, default 60 + 20 * ROUNDS: a round takes about one.
set -u
here=$(cd "$(dirname "$0")" && pwd)
package=$(dirname "$(dirname "$here")")
rounds=${1:-4}
limit=${MARU_GC_TIMEOUT:-$((60 + 20 * rounds))}
if [ -n "${MARU_GC_BUILD:-}" ]; then
  build=$MARU_GC_BUILD
  mkdir -p "$build"
else
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT INT TERM
fi

# Sets of objects, linked with each of the run-time systems. (Left to itself ghc puts the objects
# of C files beside their sources.)
compile() { # SET FLAG...
  set=$1
  shift
  objects=
  for source in "$package"/cbits/rts/*.c "$package/cbits/rts/prim.cmm" "$here/sanity.c"; do
    object=$build/$set-$(basename "$source").o
    ghc -v0 -c -optc-O2 -optc-std=gnu11 "$@" -I"$package/cbits/rts" "$source" -o "$object" || exit 70
    objects="$objects $object"
  done
}
link() {
  out=$1
  shift
  # shellcheck disable=SC2086 # a list of files
  ghc -v0 -O1 -i"$package/src" -i"$package/policy" -i"$here" -i"$package/test/closures" -outputdir "$build" -rtsopts "$@" \
    $objects "$here/Stress.hs" -o "$build/$out" || exit 70
}
# Of each GHC that is listed: what passes here may be listed for closures, too.
compile seen -optc-DMARU_CLOSURES_ANY
link plain
link debug -debug
link threaded -threaded
link threaded-debug -threaded -debug
# The same GHC, taken for one that was never seen.
compile unseen -optc-DMARU_GHC_UNSEEN
link unseen-debug -debug
link unseen -threaded

failed=0
run() {
  program=$1
  case=$2
  shift 2
  log=$build/log
  if timeout -k 5 "$limit" "$build/$program" "$case" "$rounds" +RTS "$@" -RTS >"$log" 2>&1; then
    echo "ok gc-$case $program $*"
  else
    echo "FAIL gc-$case $program $* (status $?): $(tail -n 1 "$log")"
    failed=1
  fi
}

for case in keep bytes kill reuse threads nested copies loose letters exceptions refusals weaks; do
  run debug "$case" -DS
  run debug "$case" -DS -A64k
  run debug "$case" -DS -c
  run debug "$case" -DS -G3
  run threaded-debug "$case" -DS -N1 -A64k
  run threaded-debug "$case" -DS -N2
  run threaded-debug "$case" -DS -N2 -c
  run plain "$case" -A64k
  run threaded "$case" -A64k -N2
  run threaded "$case" -A64k -N2 -G3
done
export MARU_CLOSURES=1 # for these alone: it keeps constants
run debug closures -DS
run debug closures -DS -A64k
run debug closures -DS -c
run debug closures -DS -G3
run threaded-debug closures -DS -N1 -A64k
run plain closures -A64k
run threaded closures -A64k -N2
export MARU_CLOSURES=
run unseen-debug unseen -DS
run unseen-debug unseen -DS -A64k
run unseen unseen -A64k -N2
# Larger values: the debug run-time system checks all of them at each collection.
for case in overflow cycles; do
  run plain "$case" -A1m
  run threaded "$case" -A1m -N2
  run debug "$case" -DS -A16m
  run threaded-debug "$case" -DS -N2 -A16m
  run debug "$case" -DS -A16m -c
done
run plain area
run debug area -DS
run debug area -DS -c
run threaded-debug area -DS -N2
run plain garbage -T -A256k
run threaded garbage -T -A256k -N2
exit $failed
