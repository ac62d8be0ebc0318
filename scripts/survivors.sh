# shellcheck shell=bash
# Sourced by scripts/splash and scripts/phoenix-parsec, whose programs lose nodes at KILLS moments.
#   survives NAME FOLDER FILE P COMMAND THREADS...
# NAME's program lies in FOLDER and runs there by COMMAND on P nodes. What it prints, and the FILE that it writes (or -), has
# to be what one of 20 runs of THREADS... prints. That is the sum of FILE behind `comparable`, which the script defines.
# $work is a folder for what comes and goes; SEED says which moments. What came of them goes to OUT (build/bench), as
# dsm-survive.json and .txt, one row a program: what other programs, or an earlier run, left there stays.
survivors_table=$(realpath -m "${OUT:-$build/bench}")/dsm-survive
survives() {
  local want=$work/want filter=$work/filter
  rm -rf "$want"
  mkdir -p "$want" "${survivors_table%/*}"
  for i in $(seq 20); do "${@:6}" >"$want/$i" || rm "$want/$i"; done
  [ -n "$(ls "$want")" ] || { echo "none of 20 runs on threads ends well: $5"; return 1; }
  {
    printf '#!/usr/bin/env bash\n'
    declare -f comparable
    printf 'comparable\n'
    # Of this run alone.
    [ "$3" = - ] || printf '[ ! -e %q ] || { cksum <%q; rm %q; }\n' "$3" "$3" "$3"
  } >"$filter"
  chmod +x "$filter"
  "$root/native/dsm/tests/survivors.py" --name "$1" --table "$survivors_table" "$build/bin/maru" "$KILLS" \
    "$2" "$filter" "$want" "$4" "$5" ${SEED:+"$SEED"}
}
