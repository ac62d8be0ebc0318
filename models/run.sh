#!/usr/bin/env bash
# Checks the protocol models with spin.  Each model lists its runs itself:
#
#     verify: pass [FLAGS]     no error may be found
#     verify: fail [FLAGS]     a mutant: an error must be found
#
# usage: models/run.sh [MODEL.pml…]     default: all beside this script
# One line per run, PASS or FAIL, as they end; status 1 if any run failed, 69 without spin.
# MARU_JOBS runs at once (default: one for each CPU), each in a folder and a process of its own.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
command -v spin >/dev/null || { echo "models: spin is not installed: apt-get install spin" >&2; exit 69; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# A mutant is caught in a moment, and most of the others' searches take less than a compiler that optimises. Of the
# two that there are, clang needs half of the time. Without a bound it is the search that counts.
if [ -n "${MARU_MODEL_SECONDS:-}" ]; then
  compiler=("${CC:-cc}" -O2)
elif [ -z "${CC:-}" ] && command -v clang >/dev/null; then
  compiler=(clang -O0)
else
  compiler=("${CC:-cc}" -O0)
fi

# Explores one model completely; prints "pass", "fail" or what went wrong.
# The state space is bounded: a search that is cut off counts as wrong.
explore() { # MODEL FLAGS
  cd "$(mktemp -d -p "$work")"
  # shellcheck disable=SC2086 # flags are words
  spin -a $2 "$1" >spin.log 2>&1 || { echo "spin: $(tail -n 1 spin.log)"; return; }
  "${compiler[@]}" -w -DSAFETY -DMEMLIM=1024 -o pan pan.c || { echo "cc failed"; return; }
  timeout "${MARU_MODEL_SECONDS:-60}" ./pan -m200000 >pan.log 2>&1 || { echo "pan: status $?"; return; }
  if grep -q 'errors: [1-9]' pan.log; then echo fail
  elif grep -q 'Search not completed\|too small\|MEMLIM' pan.log; then echo "search cut off"
  elif grep -q 'errors: 0' pan.log; then echo pass
  else echo "no result: $(tail -n 1 pan.log)"
  fi
}

judge() { # MODEL EXPECTED FLAGS: one run, one line; fails if the run does
  local name found
  name=$(basename "$1" .pml)
  found=$(explore "$1" "$3" </dev/null)
  if [ "$found" != "$2" ]; then
    echo "FAIL  $name ${3:-(as shipped)}: expected $2, found $found"
    return 1
  fi
  echo "PASS  $name ${3:-(as shipped)}: $([ "$2" = pass ] && echo 'no error' || echo 'mutant caught')"
}

failures=0 running=0
await_one() {
  wait -n || failures=$((failures + 1))
  running=$((running - 1))
}
[ $# -gt 0 ] || set -- "$here"/*.pml
for model in "$@"; do
  model=$(realpath "$model")
  mapfile -t runs < <(sed -n 's/^ \* verify: //p' "$model")
  [ "${#runs[@]}" -gt 0 ] || { echo "FAIL  $(basename "$model" .pml): lists no run"; failures=$((failures + 1)); }
  for run in "${runs[@]}"; do
    read -r expected flags <<<"$run"
    [ "$running" -lt "${MARU_JOBS:-$(nproc)}" ] || await_one
    judge "$model" "$expected" "$flags" &
    running=$((running + 1))
  done
done
while [ "$running" -gt 0 ]; do await_one; done
[ "$failures" -eq 0 ]
