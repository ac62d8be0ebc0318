#!/bin/sh
# Checks the protocol models with spin.  Each model lists its runs itself:
#
#     verify: pass [FLAGS]     no error may be found
#     verify: fail [FLAGS]     a mutant: an error must be found
#
# usage: models/run.sh [MODEL.pml…]     default: all beside this script
# One line per run, PASS or FAIL; status 1 if any run failed, 69 without spin.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
command -v spin >/dev/null || { echo "models: spin is not installed: apt-get install spin" >&2; exit 69; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# Explores one model completely; prints "pass", "fail" or what went wrong.
# The state space is bounded: a search that is cut off counts as wrong.
explore() {
  (
    cd "$work"
    rm -f pan* ./*.trail
    # shellcheck disable=SC2086 # flags are words
    spin -a $2 "$1" >spin.log 2>&1 || { echo "spin: $(tail -n 1 spin.log)"; exit; }
    ${CC:-cc} -O1 -w -DSAFETY -DMEMLIM=1024 -o pan pan.c || { echo "cc failed"; exit; }
    timeout "${MARU_MODEL_SECONDS:-60}" ./pan -m200000 >pan.log 2>&1 || { echo "pan: status $?"; exit; }
    if grep -q 'errors: [1-9]' pan.log; then echo fail
    elif grep -q 'Search not completed\|too small\|MEMLIM' pan.log; then echo "search cut off"
    elif grep -q 'errors: 0' pan.log; then echo pass
    else echo "no result: $(tail -n 1 pan.log)"
    fi
  )
}

failures=0
[ $# -gt 0 ] || set -- "$here"/*.pml
for model in "$@"; do
  model=$(realpath "$model")
  name=$(basename "$model" .pml)
  sed -n 's/^ \* verify: //p' "$model" >"$work/runs"
  [ -s "$work/runs" ] || { echo "FAIL  $name: lists no run"; failures=$((failures + 1)); }
  while read -r expected flags; do
    found=$(explore "$model" "$flags" </dev/null)
    if [ "$found" = "$expected" ]; then
      echo "PASS  $name ${flags:-(as shipped)}: $([ "$expected" = pass ] && echo 'no error' || echo 'mutant caught')"
    else
      echo "FAIL  $name ${flags:-(as shipped)}: expected $expected, found $found"
      failures=$((failures + 1))
    fi
  done <"$work/runs"
done
[ "$failures" -eq 0 ]
