#!/usr/bin/env bash
# The built command from outside: statuses, bad input, outputs. Needs maru on the
# PATH; runs in the package's folder. UPDATE=1 rewrites the golden help.
set -u
here=$(cd "$(dirname "$0")" && pwd)
package=$(dirname "$here")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CONFIG_HOME=$work/config MARU_PREFIX=$work/prefix
unset MARU_BOARD MARU_WAIT MARU_TOPOLOGY
failures=0
command -v maru >/dev/null || { echo "no maru on the PATH"; exit 1; }

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# The supervisor and the reaper from their sources, so that the test needs no staged prefix.
helpers=$MARU_PREFIX/libexec/maru libraries=$MARU_PREFIX/lib/maru
mkdir -p "$helpers" "$libraries"
native=$package/native
cc -std=gnu11 -I"$native/base" -o "$helpers/maru-reaper" "$native/run/maru-reaper.c" "$native/base/reaper.c" || exit 1
cc -std=gnu11 -I"$native/include" -I"$native/base" -o "$helpers/maru-supervise" \
  "$native"/run/{beside,command,interpreter,maru-supervise,memory,options,relay,terminal,verdict}.c "$native/board/board.c" "$native"/wait/*.c "$native/base/shared.c" "$native/base/task.c" "$native"/base/{text,process,topology,json,numbers}.c || exit 1

# status EXPECTED MESSAGE-PART COMMAND...: the exit status; a failure is one line
# that begins with "maru: " and holds the part ("" if no line is expected).
status() {
  local expected=$1 part=$2 got
  shift 2
  timeout 30 "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  [ "$got" -eq "$expected" ] || fail "status $got instead of $expected: $*: $(cat "$work/err")"
  if [ -n "$part" ]; then
    grep -qF -- "$part" "$work/err" || fail "no '$part' from: $*: $(cat "$work/err")"
    [ "$(grep -vc ' wall; ' "$work/err")" -eq 1 ] || fail "not one line from: $*: $(cat "$work/err")"
    grep -q '^maru: ' "$work/err" || fail "no 'maru: ' from: $*"
  fi
}

# json SCHEMA COMMAND...: standard output is one JSON object of that schema.
json() {
  local schema=$1
  shift
  timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null || fail "status $? from: $*: $(cat "$work/err")"
  python3 -c 'import json, sys; assert json.load(sys.stdin)["schema"] == sys.argv[1]' "$schema" \
    <"$work/out" || fail "not JSON of schema $schema: $*"
}

# ---- the command line
status 0 "" maru --version
status 0 "" maru --help
status 64 "Missing: COMMAND" maru
status 64 "frobnicate" maru frobnicate
status 64 "--frobnicate" maru doctor --frobnicate
status 64 "report-run" maru report-run

# ---- steer
status 64 "unknown io policy 'fast'" maru run --io fast -- true
status 125 "cannot steer: $helpers/maru-steer is not there" maru run --io auto -- true
status 0 "" maru run --best-effort --io auto -- true
status 64 "steer-run is for the keeper alone" maru steer-run
status 69 "there is no process 4194305" maru attach 4194305
status 64 "a process number is needed" maru attach x
status 64 "process 1 is the machine's or the container's first" maru attach 1
if [ -r /proc/2/maps ] && [ "$(cat /proc/2/comm)" = kthreadd ]; then
  status 69 "process 2 is the kernel's own" maru attach 2
fi

# ---- boost
status 64 "no period" maru boost --period 1s
status 64 "none of auto, wake, restore, pb" maru boost --policy fast
status 64 "no list of 1 to 64 names" maru boost --users a,,b
status 64 "there is no user 'no-such-user'" maru boost --users no-such-user
status 64 "there is no group 'no-such-group'" maru boost --groups no-such-group
status 69 "maru-boost" maru boost --for 1

# ---- run: statuses
status 64 "needs a command" maru run
status 64 "known: adaptive, spin, yield, block, spin-block, spin-lower, lower-yield, sleep-poll, coop, gang, dcs" maru run --wait wrong -- true
for policy in adaptive spin yield block spin-block spin-lower lower-yield sleep-poll coop gang dcs; do
  status 0 "" maru run --wait "$policy" -- true
done
status 127 "'no-such-command'" maru run -- no-such-command
status 126 "cannot execute" maru run -- /
status 7 "" maru run -- sh -c 'exit 7'
status 137 "" maru run -- sh -c 'kill -9 $$'
python3 - <<'PYTHON' || fail "maru does not end as its command did"
import subprocess
for option in "--quiet", "--best-effort":
    for end, status in ("kill -2 $$", -2), ("kill -3 $$", -3), ("exit 130", 130), ("kill -15 $$", 143):
        run = ["maru", "run", option, "--", "sh", "-c", end]
        ended = subprocess.run(run, timeout=30, stderr=subprocess.PIPE, text=True)
        assert ended.returncode == status, (run, ended)
PYTHON
timeout 20 maru run --report "$work/report.json" -- sh -c 'exit 7' 2>/dev/full
[ $? -eq 7 ] || fail "the status is lost where nothing can be said"
grep -q maru-run/1 "$work/report.json" || fail "the report is lost where nothing can be said"
status 125 "cannot supervise: /nowhere/libexec/maru/maru-supervise is not there" env MARU_PREFIX=/nowhere maru run -- true
status 125 "maru: cannot supervise: $PWD/nowhere/libexec/maru/maru-supervise is not there" env MARU_PREFIX=nowhere maru run --best-effort -- true
status 125 "maru: $PWD/nowhere/lib/maru/libmaru-poll.so is not there" env MARU_PREFIX=nowhere maru run --wait-poll -- true
without_proc() { unshare -rm sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$@"; }
if without_proc true 2>/dev/null; then
  export -f without_proc
  status 125 "/proc is not mounted: " bash -c 'without_proc "$@"' bash maru run -- true
  status 125 "/proc is not mounted: " bash -c 'without_proc "$@"' bash maru run --wait spin-block -- true
else
  echo "skipped: maru run without /proc: no namespaces"
fi
status 125 "cannot write /nowhere/r.json" maru run --report /nowhere/r.json -- true
status 65 "no-such-profile.json: No such file or directory; maru tune writes one where a setting gains" maru run @no-such-profile -- true
# What has no end is read to a bound, not until memory is gone.
within_memory() { (ulimit -v 3000000 && status 65 "$@" && exit "$failures") || failures=$?; }
within_memory "cannot use profile /dev/zero: it is larger than 1 MiB" maru run @/dev/zero -- true
within_memory "/dev/zero: it is larger than 64 MiB" maru sim io --record /dev/zero
within_memory "/dev/zero: it is larger than 64 MiB" maru sim lock --machine /dev/zero

# ---- limits that are too small for GHC's run-time system
for files in 4 6 7 9 12; do
  too_few() { status "$1" "can be had; raise the limit of open files (ulimit -n), which is $files" bash -c "ulimit -n $files && exec \"\$@\"" bash "${@:2}"; }
  too_few 125 maru run --report "$work/r.json" -- true
  too_few 125 maru launch -n 2 -- true
  too_few 69 maru doctor
  too_few 69 maru similar "$here"
  # The status is the command's, or its signal.
  too_few 7 maru report-run 9 7
  too_few 130 maru report-run 9 -2
done
for memory in 50000 100000; do
  status 69 "raise the limit of memory (ulimit -v), which is $memory KiB" bash -c "ulimit -v $memory && exec maru doctor"
  status 125 "raise the limit of memory (ulimit -v), which is $memory KiB" bash -c "ulimit -v $memory && exec maru run --wait spin-block -- true"
done
# Root has no such limit.
user=()
[ "$(id -u)" -ne 0 ] || user=(setpriv --reuid 65531 --regid 65531 --clear-groups)
if "${user[@]}" maru --version >/dev/null 2>&1; then
  status 69 "raise the limit of processes (ulimit -u), which is 1, or the container's" "${user[@]}" bash -c 'ulimit -u 1 && exec maru doctor'
else
  echo "skipped: maru under ulimit -u: no other user can execute it"
fi

# ---- INT before the run-time system can hand it on, which is so for some milliseconds
python3 - maru doctor >"$work/out" 2>&1 <<'END' || fail "INT at the start: $(cat "$work/out")"
import random, signal, subprocess, sys, time

for _ in range(80):
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    time.sleep(random.uniform(0, 0.03))
    command.send_signal(signal.SIGINT)
    said = command.communicate(timeout=30)[1]
    if b"run-time system" in said:
        sys.exit(f"status {command.returncode}, said: {said!r}")
END

# ---- run: the command is left alone
[ "$(echo abc | timeout 20 maru run -- cat 2>/dev/null)" = abc ] || fail "input does not reach the command"
[ "$(timeout 20 maru run -- printf '%s|' 'a b' '' --wait 2>/dev/null)" = 'a b||--wait|' ] || fail "arguments change"
[ "$(timeout 20 maru run --wait spin-block -- sh -c 'echo $MARU_WAIT' 2>/dev/null)" = spin-block ] || fail "MARU_WAIT is not set"
# Signals 1 to 28: those from 32 on are the C library's own.
probe='ls /proc/self/fd; sed -nE "s/^(Sig(Blk|Ign)).*(.{7})$/\1 \3/p" /proc/self/status'
plain=$(sh -c "$probe" </dev/null 2>&1)
under=$(timeout 20 maru run -- sh -c "$probe" </dev/null 2>/dev/null)
[ "$plain" = "$under" ] || fail "descriptors or signals differ: $plain / $under"
for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
  eval "timeout 20 maru run -- sh -c 'exit 4' $closed" 2>"$work/err"
  [ $? -eq 4 ] || fail "wrong status with $closed"
done
# What is for a Haskell program's run-time system is the command's, before it and after it.
for option in --quiet --best-effort; do
  # shellcheck disable=SC2016 # the inner shell expands
  words=$(GHCRTS=-A64m timeout 20 maru run "$option" sh -c 'echo "$GHCRTS $*"; exit 7' sh a +RTS -N2 -RTS b --RTS c 2>"$work/err")
  [ $? -eq 7 ] && [ "$words" = "-A64m a +RTS -N2 -RTS b --RTS c" ] || fail "of GHCRTS and +RTS the command has '$words': $(cat "$work/err")"
done
timeout 20 maru run -- true 2>"$work/err"
grep -Eq '^maru: .* wall; .* user \+ .* system; [0-9]+ MiB' "$work/err" || fail "no verdict: $(cat "$work/err")"
timeout 20 maru run --wait gang --report "$work/report.json" -- true 2>"$work/err"
grep -q '^maru: wait: gang runs as spin-block but in parallel maps: ' "$work/err" || fail "a replaced policy is not said: $(cat "$work/err")"
grep -q '"replaced":\[{.*gang runs as' "$work/report.json" || fail "a replaced policy is not in the report"
timeout 20 maru run --explain --wait spin -- true 2>&1 | grep -q "sets MARU_WAIT=spin" || fail "nothing explained"

# ---- run: report
odd=$work/$'caf\xe9.json'
timeout 20 maru run --report "$odd" -- true 2>/dev/null
grep -q maru-run/1 "$odd" || fail "a report whose name is not UTF-8 has another name"
timeout 20 maru doctor --json=/nowhere/$'\xe9' >/dev/null 2>"$work/err"
grep -qa $'^maru: .*/nowhere/\xe9' "$work/err" || fail "a name that is not UTF-8 loses its line: $(cat "$work/err")"
timeout 20 maru run --explain -- sh -c "touch '$work/ran'" 2>/dev/full
[ -e "$work/ran" ] || fail "a line that nobody can read keeps the command from running"
timeout 20 maru run --report - -- sh -c 'exit 3' >/dev/full 2>"$work/err"
[ $? -eq 3 ] || fail "the status is lost where the report cannot be printed"
grep -q '^maru: cannot print all that was measured: ' "$work/err" || fail "a report that cannot be printed is not said: $(cat "$work/err")"
json maru-run/1 maru run --report - -- true
timeout 20 maru run --report "$work/report.json" -- sh -c 'exit 3' 2>/dev/null
python3 - "$work/report.json" <<'PYTHON' || fail "the report does not say what happened"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["measured"]["status"] == 3, report
assert report["measured"]["wall_s"] > 0, report
assert report["plan"]["command"] == ["sh", "-c", "exit 3"], report
PYTHON

# ---- run: pages, and quiet
timeout 20 maru run --quiet --report "$work/page.html" -- sh -c 'echo "<b>" >&2; exit 3' 2>"$work/err"
[ $? -eq 3 ] || fail "--quiet changes the status"
[ "$(cat "$work/err")" = "<b>" ] || fail "--quiet says: $(cat "$work/err")"
for part in "<dt>host</dt>" "<dt>load</dt>" "<dd>sh -c &#39;echo &quot;&lt;b&gt;&quot; &gt;&amp;2; exit 3&#39;</dd>" \
  "No room was active, for none was asked for" "What was looked at" "What to try" prefers-color-scheme:dark; do
  grep -qF -- "$part" "$work/page.html" || fail "the page lacks $part"
done
! grep -Eq '(src|href)="(https?:)?//' "$work/page.html" || fail "the page needs the network"

# ---- top
status 0 "" maru top --once
status 69 "there is no process 4194305" maru top --once 4194305
status 64 "process number" maru top nonsense
# 2^64 + a number, and 2^32 + it: the same in 64 and in 32 bits.
for more in 18446744073709551616 4294967296; do
  for words in "top --once" attach "boost advise"; do
    # shellcheck disable=SC2086 # several words
    status 64 "a process number is needed" maru $words "$(python3 -c "print($more + $$)")"
  done
done
maru run -- sleep 300 2>/dev/null &
run=$!
for _ in $(seq 200); do
  timeout 20 maru top --once "$run" >"$work/out" 2>/dev/null && grep -q "Running  sleep 30" "$work/out" && break
  sleep 0.05
done
grep -q "Running  sleep 30" "$work/out" || fail "top does not show the run"
json maru-top/1 maru top --once --json "$run"
timeout 20 maru top --once --record "$work/record" "$run" >/dev/null && python3 -m json.tool "$work/record" >/dev/null ||
  fail "top does not record"

# ---- top: on a terminal
# Debian's python3 has its packages, another one that comes first on the PATH need not.
for python in python3 /usr/bin/python3; do ! "$python" -c 'import pyte' 2>/dev/null || break; done
word=house-$$
sleeps() { maru run -- python3 -c 'import time; time.sleep(300)' "$word" "$@" 2>/dev/null & }
sleeps --an-option-that-is-long=1 --another-one-that-is-longer=22 --and-one-more=333 long-name
others=$!
sleeps 마루-한국어
others="$others $!"
sleeps $'bad\e[2Jname'
others="$others $!"
timeout 300 "$python" "$here/terminal.py" "$word" || fail "top on a terminal"
# shellcheck disable=SC2086 # one word a process
kill $others && wait $others

# ---- top: a file that has a board's name, of a file system that never answers
if [ "$(id -u)" -eq 0 ]; then
  python3 "$here/unanswering.py" "$work" >"$work/unanswering" &
  unanswering=$!
  for _ in $(seq 200); do [ ! -s "$work/unanswering" ] || break; sleep 0.05; done
  if grep -q '^held' "$work/unanswering"; then
    timeout -s KILL 30 maru top --once >"$work/out" || fail "top does not end beside a file that never answers"
    grep -q "Running  sleep 30" "$work/out" || fail "top does not show the run beside it"
  else
    echo "not tested: a file system in user space: $(cat "$work/unanswering")"
  fi
  kill -9 "$unanswering"
  wait "$unanswering" 2>/dev/null
fi

# ---- top: boards that lie
# Any number of lines may be claimed: by a run's own program, and by a board of another user that a
# process of this one has inherited.
# shellcheck disable=SC2016 # the inner shell expands
timeout 60 maru run -- python3 -c '
import os
with open(os.environ["MARU_BOARD"], "r+b") as board:
    board.seek(128)
    board.write(b"\xff" * 8)' 2>"$work/err" || fail "a run whose board claims 2^64-1 lines: $(cat "$work/err")"
grep -q "^maru: .* wall" "$work/err" || fail "such a run has no verdict"
python3 - "$run" >"$work/held" <<'PYTHON' &
import fcntl, glob, os, sys, time
path = next(p for p in glob.glob(f"/proc/{sys.argv[1]}/fd/*") if os.readlink(p).startswith("/memfd:maru-board"))
content = bytearray(open(path, "rb").read())
content[128:136] = b"\xff" * 8
if os.getuid() == 0:
    os.seteuid(65534)
fd = os.memfd_create("maru-board", os.MFD_ALLOW_SEALING)
os.write(fd, content)
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
if os.getuid() == 0:
    os.seteuid(0)
print(f"/proc/{os.getpid()}/fd/{fd}", flush=True)
time.sleep(60)
PYTHON
liar=$!
for _ in $(seq 200); do [ ! -s "$work/held" ] || break; sleep 0.05; done
timeout 30 maru top --once --json >"$work/out" || fail "top does not end beside a board that claims 2^64-1 lines"
grep -q "\"pid\":$(pgrep -P "$run")" "$work/out" || fail "top does not show the honest run beside it"
if [ "$(id -u)" -eq 0 ]; then
  ! grep -q "$(cat "$work/held")" "$work/out" || fail "top shows another user's board"
  MARU_BOARD=$(cat "$work/held") timeout 30 maru top --once >"$work/out" || fail "top does not end with such a board for its own"
fi
kill "$liar"
wait "$liar"
kill "$run"
wait "$run"
[ $? -eq 143 ] || fail "a run that was ended by TERM does not say so"

# ---- doctor
# Of what is installed it asks for files alone: these are none that run.
whole=$work/whole
mkdir -p "$whole/libexec/maru" "$whole/lib/maru"
touch "$whole"/libexec/maru/maru-{supervise,reaper,steer,boost,launch,bench} "$whole"/lib/maru/libmaru-{first,lock,lock-profile,io,poll,mpi}.so
json maru-doctor/1 env MARU_PREFIX="$whole" maru doctor --json
status 0 "" env MARU_PREFIX="$whole" maru doctor "--json=$work/doctor.json"
python3 -m json.tool "$work/doctor.json" >/dev/null || fail "doctor's file is not JSON"
grep -q "kernel" "$work/out" || fail "doctor prints no table beside its file"
# Blocks of 1 KiB: less than a worker's pages for results.
status 0 "" env MARU_PREFIX="$whole" bash -c 'ulimit -f 30000 && maru doctor'
grep -q "results cross as copies" "$work/out" || fail "doctor does not say what ulimit -f costs a map"
grep -q "the size of files is limited to 30000 KiB" "$work/out" || fail "doctor does not say that ulimit -f is small"
# Enough descriptors for the command, too few for a worker: how many that is depends on those that this shell has.
refused=no
for descriptors in {14..40}; do
  bash -c "ulimit -n $descriptors && maru doctor" >"$work/out" 2>&1 && continue
  ! grep -q "forked workers *fail .*Too many open files" "$work/out" || { refused=yes && break; }
done
[ "$refused" = yes ] || fail "doctor does not say that no worker can be had"
status 69 "" env MARU_PREFIX=/nowhere maru doctor
grep -q -- "-> install maru wholly" "$work/out" || fail "doctor gives no remedy"
# What run refuses, doctor does not pass.
status 125 "$libraries/libmaru-poll.so is not there" maru run --wait-poll -- true
status 125 "$libraries/libmaru-io.so is not there" maru run --io-delegate=never -- true
status 125 "$libraries/libmaru-lock.so is not there" maru run --lock cna -- true
status 69 "" maru doctor
for library in poll io lock; do
  grep -qF "$libraries/libmaru-$library.so is not there" "$work/out" || fail "doctor does not miss libmaru-$library.so"
done
status 69 "cannot write /nowhere/d" maru doctor --json=/nowhere/d
# LD_PRELOAD has no way to write such a path.
mkdir -p "$work/a prefix/libexec/maru"
ln -s "$whole/lib" "$work/a prefix/lib"
ln -s "$whole"/libexec/maru/* "$work/a prefix/libexec/maru/"
ln -sf "$helpers"/* "$work/a prefix/libexec/maru/"
status 125 "--wait-poll cannot serve true: the linker takes no library from $work/a prefix/lib/maru" env MARU_PREFIX="$work/a prefix" maru run --wait-poll -- true
status 0 "left out: --wait-poll cannot serve true" env MARU_PREFIX="$work/a prefix" maru run --wait-poll --best-effort -- true
env MARU_PREFIX="$work/a prefix" timeout 30 maru doctor >"$work/out"
grep -q "installed *warn .*$work/a prefix/lib/maru," "$work/out" && grep -q "mutexes *warn .*$work/a prefix" "$work/out" || fail "doctor passes a prefix with a space: $(cat "$work/out")"

# ---- boost advise
# Of three processes that sleep none waits for a CPU: that is no kernel which does not count it.
sh -c 'sleep 20 & sleep 20 & wait' &
calm=$!
timeout 30 maru boost advise --for 0.5 "$calm" >"$work/out" 2>"$work/err" || fail "advise ends with status $?: $(cat "$work/err")"
! grep -q '^[1-9]' "/proc/$calm/schedstat" || ! grep -q "has no /proc/PID/schedstat" "$work/out" || fail "advise misses the schedstat that is there"
pkill -P "$calm"
wait "$calm"

# A rank is known by its library, wherever that lies.
mkdir "$work/a folder"
cc -shared -o "$work/a folder/libmpi.so.40" -xc /dev/null
cc -o "$work/rank" -xc - -xnone -Wl,--no-as-needed "$work/a folder/libmpi.so.40" -Wl,-rpath,"$work/a folder" <<<'#include <unistd.h>
int main(void) { return (int)sleep(20); }'
"$work/rank" &
rank=$!
timeout 30 maru boost advise --for 0.5 --json=- "$rank" >"$work/out" 2>"$work/err" || fail "advise ends with status $?: $(cat "$work/err")"
grep -qE "\"ranks\": ?\[ ?$rank ?\]" "$work/out" || fail "a rank whose library lies in a folder with a space is not seen: $(cat "$work/out")"
kill "$rank"
wait "$rank"

# ---- files are whole or not there
mkdir "$work/files"
said=$(ulimit -f 0; timeout 30 env MARU_PREFIX="$whole" maru doctor "--json=$work/files/new" 2>&1 >/dev/null)
[ $? -eq 69 ] && grep -q "^maru: cannot write $work/files/new: " <<<"$said" || fail "a file that cannot be written is not said: $said"
[ -z "$(ls -A "$work/files")" ] || fail "of a file that cannot be written something stays: $(ls -A "$work/files")"
echo before >"$work/files/real"
chmod 640 "$work/files/real"
ln -s real "$work/files/link"
(ulimit -f 0; timeout 30 env MARU_PREFIX="$whole" maru doctor "--json=$work/files/link" >/dev/null 2>&1)
[ "$(cat "$work/files/real")" = before ] || fail "what cannot be written takes what was there before"
status 0 "" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/link"
[ -L "$work/files/link" ] && grep -q maru-doctor/1 "$work/files/real" || fail "a link is not followed"
[ "$(stat -c %a "$work/files/real")" = 640 ] || fail "a file's permissions change"
ln "$work/files/real" "$work/files/other"
echo before >"$work/files/other"
status 0 "" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/real"
grep -q maru-doctor/1 "$work/files/other" || fail "a file loses its other name"
if [ "$(id -u)" != 0 ]; then
  chmod 440 "$work/files/real"
  status 69 "cannot write $work/files/real" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/real"
  chmod 640 "$work/files/real"
fi
(umask 027; timeout 30 env MARU_PREFIX="$whole" maru doctor "--json=$work/files/new" >/dev/null)
[ "$(stat -c %a "$work/files/new")" = 640 ] || fail "a new file does not have the usual permissions"
ln -s nowhere "$work/files/dangling"
status 0 "" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/dangling"
grep -q maru-doctor/1 "$work/files/nowhere" || fail "a link to nothing is not followed"
ln -s round "$work/files/round"
status 69 "cannot write $work/files/round" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/round"
echo before >"$work/files/protected"
chmod 444 "$work/files/protected"
as=()
[ "$(id -u)" -ne 0 ] || as=(setpriv "--bounding-set=-dac_override,-chown")
if "${as[@]}" maru --help >/dev/null 2>&1; then
  status 69 "cannot write $work/files/protected" "${as[@]}" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/protected"
  [ "$(cat "$work/files/protected")" = before ] || fail "a file that may not be written to is replaced"
fi
if [ "$(id -u)" -eq 0 ] && "${as[@]}" maru --help >/dev/null 2>&1; then
  echo before >"$work/files/others"
  chmod 666 "$work/files/others"
  chown 65534:65534 "$work/files/others"
  status 0 "" "${as[@]}" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/others"
  [ "$(stat -c %u:%g:%a "$work/files/others")" = 65534:65534:666 ] && grep -q maru-doctor/1 "$work/files/others" ||
    fail "a file of somebody else changes hands"
fi
mkfifo "$work/files/pipe"
exec 3<>"$work/files/pipe" # somebody reads there, however late
status 0 "" env MARU_PREFIX="$whole" maru doctor "--json=$work/files/pipe"
timeout 30 head -n 1 <&3 >"$work/piped"
exec 3>&-
[ -p "$work/files/pipe" ] && grep -q maru-doctor/1 "$work/piped" || fail "a pipe is not written to"
exec 3>"$work/files/open"
timeout 30 env MARU_PREFIX="$whole" maru doctor --json=/dev/fd/3 >/dev/null
[ "$(stat -L -c %i /dev/fd/3)" = "$(stat -c %i "$work/files/open")" ] && grep -q maru-doctor/1 "$work/files/open" || fail "an open file is not written to"
exec 3>&-
# By its path, too, standard output is what it is: nothing that is there is lost, and nothing overwritten.
echo before >"$work/files/appended"
timeout 30 env MARU_PREFIX="$whole" maru doctor --json=/dev/stdout >>"$work/files/appended"
[ "$(head -n 1 "$work/files/appended")" = before ] && grep -q maru-doctor/1 "$work/files/appended" || fail "a file that standard output appends to is emptied"
timeout 30 env MARU_PREFIX="$whole" maru doctor --json=/dev/stdout >"$work/files/fresh"
[ "$(tail -n 1 "$work/files/fresh" | python3 -c 'import json, sys; print(json.load(sys.stdin)["schema"])')" = maru-doctor/1 ] && grep -q "^host *kernel" "$work/files/fresh" ||
  fail "standard output by its path overwrites the table"
status 0 "" maru run --report "$work/files/late" -- test ! -e "$work/files/late"
grep -q maru-run/1 "$work/files/late" || fail "no report"
mkfifo "$work/files/report"
python3 - "$work/files/report" <<'PYTHON' || fail "a report does not come through a pipe"
import os, select, subprocess, sys
reader = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
run = subprocess.Popen(["maru", "run", "--report", sys.argv[1], "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
run.stdin.write(b"there\n")
run.stdin.flush()
run.stdout.readline()
hears = select.poll()
hears.register(reader, select.POLLIN)
ended = hears.poll(0)
run.communicate(timeout=30)
assert ended == [] and b"maru-run/1" in os.read(reader, 1 << 16), ended
PYTHON
[ -z "$(find "$work/files" -name '.*' -type f)" ] || fail "something stays beside the files"

# ---- sim
json maru-sim/1 maru sim map --json --items 1000
status 64 "unknown chunk policy 'wrong'" maru sim map --chunks wrong
status 64 "from 1 to 65535 is needed" maru sim map --workers 0
status 64 "unknown distribution" maru sim map --costs wrong
status 64 "wrong" maru sim wrong
status 0 "" maru sim map --items 0
json maru-sim/1 maru sim map --collector --json
first=$(timeout 60 maru sim map --items 2000 --seed 5)
[ "$first" = "$(timeout 60 maru sim map --items 2000 --seed 5)" ] || fail "the same seed gives another result"
[ "$first" != "$(timeout 60 maru sim map --items 2000 --seed 6)" ] || fail "the seed has no effect"
# How far it is: on a terminal, and there only; its line is empty at the end.
timeout 60 maru sim map --items 2000 >/dev/null 2>"$work/err" </dev/null
[ ! -s "$work/err" ] || fail "progress is said to a file: $(cat "$work/err")"
timeout 60 script -qec "maru sim map --items 2000 >/dev/null" /dev/null >"$work/out" </dev/null
grep -q "simulating map: 0 %" "$work/out" || fail "no progress on a terminal: $(cat -v "$work/out")"
tail -c 4 "$work/out" | grep -q "$(printf '\r\033\\[K')$" || fail "the line of progress stays: $(cat -v "$work/out")"
status 0 "" maru sim map --items 500 --svg "$work/sim.svg"
python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$work/sim.svg" || fail "the picture is not XML"
# Two documents in one stream are none, and a table beside one makes it none.
python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.stdin)' < <(timeout 60 maru sim map --items 100 --workers 2 --svg -) || fail "a picture on standard output is not alone"
json maru-machine/1 maru sim lock --duration-ms 1 --save -
status 64 "only one of --json and --svg can go to standard output" maru sim map --items 100 --workers 2 --json --svg -
status 64 "only one of --svg and --save can go to standard output" maru sim lock --duration-ms 1 --svg - --save -
status 64 "only one of --out and --json can go to standard output" maru tune io --budget 1 --json --out - -- true
status 64 "only one of --json and --svg can go to standard output" maru tune gc --budget 1 --json --svg - -- true
# Not after minutes of simulating; the status's limit is 30 s.
status 64 "has no picture" maru sim lock --tuning --svg "$work/none.svg"
status 64 "has no picture" maru sim io --verdict --runs 100000 --svg "$work/none.svg"
status 64 "has no picture" maru sim boost --study --svg "$work/none.svg"
seed_machine=$here/../../../bench/lock/mwrl/seed-machine.json
json maru-sim/1 maru sim lock --json --duration-ms 5
json maru-sim/1 maru sim lock --waiting --cores 4 --json
status 64 "tells apart fifo" maru sim lock --lock ttas
status 64 "no key 'range'" maru sim lock --lock cna:range=4
status 64 "a deadline such as" maru sim lock --lock cna:deadline=never
status 64 "no more threads than cores" maru sim lock --threads 25
status 64 "must cost some time" maru sim lock --hold-ns 0 --think-ns 0
status 65 "No such file" maru sim lock --machine /nowhere/m
status 65 "maru-machine/1 is needed" maru sim lock --machine <(echo '{"schema":"x","lock":{}}')
status 65 "unknown cost 'far'" maru sim lock --machine <(echo '{"schema":"maru-machine/1","lock":{"far":1}}')
status 69 "cannot write /nowhere/m" maru sim lock --duration-ms 1 --save /nowhere/m
json maru-sim/1 maru sim io --json --periods 20
status 64 "unknown policy 'wrong'" maru sim io --policy wrong
status 64 "unknown load 'wrong'" maru sim io --load wrong
status 64 "at least one core a socket" maru sim io --sockets 4 --cores 3
status 65 "line 1 is no line of maru top --record" maru sim io --record <(echo x)
status 65 "No such file" maru sim io --record /nowhere/r
status 0 "" maru sim io --load unplugged --policy auto --timeline --svg "$work/io.svg"
first=$(timeout 60 maru sim lock --duration-ms 5 --machine "$seed_machine" --save "$work/machine.json")
[ "$first" = "$(timeout 60 maru sim lock --duration-ms 5)" ] || fail "the file of the seed's machine is not the default"
cmp -s "$seed_machine" "$work/machine.json" || fail "a machine does not come back as it was written"
timeout 20 maru sim map | true
[ "${PIPESTATUS[0]}" -ne 70 ] || fail "a closed pipe is taken for a defect"

# ---- standard output that cannot be written: a short answer, and one larger than the buffer
printf 'int f(int x) { while (x > 0) x--; return x; }' | tee "$work/A.txt" >"$work/B.txt"
for what in --version 'sim lock --help' 'sim map' "similar --lang text $work/A.txt $work/B.txt" "similar --lang text --html - $work/A.txt $work/B.txt"; do
  for ending in '>&-' '>/dev/full' '<&- >&-'; do
    status 69 "standard output" bash -c "exec maru $what $ending"
  done
  timeout 30 bash -c "exec maru $what >&- 2>&-"
  [ $? -eq 69 ] || fail "the status is lost where nothing can be written: $what"
done

# ---- tune
status 65 "cannot execute 'no-such-command'" maru tune gc -- no-such-command
status 65 "-rtsopts" maru tune gc -- true
status 69 "/nowhere/libexec/maru/maru-reaper is not there" env MARU_PREFIX=/nowhere maru tune gc -- true
status 65 "cannot execute '/etc'" maru tune io -- /etc
status 65 "ended with status 1" maru tune gc -- false
for what in gc io; do
  status 65 "'sleep' was not done within the budget of 500 ms" maru tune $what --budget 0.5 -- sleep 1000
done
# What it writes to is looked at before the time is spent.
for option in --json=/nowhere/t --svg=/nowhere/t; do
  status 69 "cannot write /nowhere/t" maru tune gc --budget 2 "$option" -- sleep 1000
done
status 69 "cannot make the folder /dev/null" maru tune io --budget 2 --out /dev/null/t -- sleep 1000
status 69 "cannot make the folder /dev/null/maru/profiles" env XDG_CONFIG_HOME=/dev/null maru tune wait --budget 2 -- sleep 1000
status 64 "a time such as" maru tune gc --budget soon -- true
status 64 "30 days (720h) are the longest" maru tune io --budget 999999999999999999999999999999h -- true
status 64 "30 days (720h) are the longest" maru tune io --budget 720.1h -- true
status 64 "Missing: COMMAND" maru tune gc
status 64 "objective is one of time, cpu, pause" maru tune gc --objective speed -- true
status 64 "unknown axis 'colour'" maru tune gc --only allocation,colour -- true
printf '%s\n' 'import qualified Data.IntMap.Strict as M' 'main :: IO ()' \
  'main = print (M.size (foldr (\i -> M.insert (i * 7919 `mod` 100003) i) M.empty [1 .. 60000 :: Int]))' >"$work/Churn.hs"
ghc -v0 -O -rtsopts -with-rtsopts=-A16k -outputdir "$work/churn.o" -o "$work/churn" "$work/Churn.hs"
# By far the smallest allocation area that a program can have: any other is better.
timeout 400 maru tune gc --budget 5m --only allocation --svg "$work/gc.svg" --json="$work/gc.json" --out "$work/churn.json" -- "$work/churn" >"$work/gc" 2>/dev/null ||
  fail "tune gc"
python3 - "$work" <<'PYTHON' || fail "what tune gc found"
import json, sys, xml.dom.minidom
work = sys.argv[1]
document, profile = json.load(open(work + "/gc.json")), json.load(open(work + "/churn.json"))
data = document["data"]
assert document["gain"] and document["line"].startswith("gain: "), document["line"]
assert "-A" in profile["environment"]["GHCRTS"] and any(line.startswith("-A: ") for line in document["advice"]), document
assert data["objective"] == "time" and data["ratio"]["low"] > 1 and data["searched_to_its_end"], data
assert data["runs"] == 1 + sum(len(row["values"]) for row in data["rows"]), data["runs"]
assert data["statistics"]["num_GCs"] < data["baseline_statistics"]["num_GCs"]
assert "-A: " in open(work + "/gc").read()
xml.dom.minidom.parse(work + "/gc.svg")
PYTHON
# A profile that was found is kept before all else.
timeout 400 maru tune gc --budget 5m --only allocation --json=/dev/full --out "$work/kept.json" -- "$work/churn" >/dev/null 2>"$work/err"
[ $? -eq 69 ] && grep -q maru-profile/1 "$work/kept.json" || fail "a profile is lost with another file: $(cat "$work/err")"
status 64 "such as p99.9=200us" maru tune lock --slo p99.9 -- true
status 64 "from 50 to 99.999" maru tune lock --slo p100=1ms -- true
status 64 "impossible" maru tune lock --slo p99=10ns -- true
status 64 "10ms to 3600s" maru tune lock --slo p99=1ms --window 1us -- true
status 64 "longer than the budget" maru tune lock --slo p99=1ms --budget 1 --window 2s -- true
status 65 "cannot execute 'no-such-command'" maru tune lock --slo p99=1ms --budget 0.1 --window 50ms -- no-such-command
status 65 "cannot execute './no-such-command'" maru tune lock --slo p99=1ms -- ./no-such-command
status 64 "no group in parentheses" maru tune lock --slo p99=1ms --metric 'TPS: [0-9]+' -- true
status 64 "'(TPS'" maru tune lock --slo p99=1ms --metric '(TPS' -- true
status 64 "one or the other" maru tune lock --slo p99=1ms --metric '(1)' --window 1s -- true

# ---- files that may not grow
status 125 "no memory for the report: File too large (raise ulimit -f)" bash -c '(ulimit -f 0 && exec maru run --report - -- true) 2>&1 | cat >&2; exit "${PIPESTATUS[0]}"'
# By default the command itself still dies of it.
status 153 "" bash -c "ulimit -f 1 && exec maru run --quiet --explain -- head -c 4096 /dev/zero >'$work/files/long'"

# ---- what is ignored stays ignored
# The last eight digits: signal 33 is libc's own.
ignored() { bash -c "trap '' INT TSTP PIPE XFSZ; exec \"\$@\"" bash "$@" 2>/dev/null | grep -o '.\{8\}$'; }
plain=$(ignored grep SigIgn /proc/self/status)
for options in --quiet --explain; do # without the run-time system, and with it
  under=$(ignored maru run "$options" -- grep SigIgn /proc/self/status)
  [ -n "$plain" ] && [ "$plain" = "$under" ] || fail "the command of run $options ignores $under, not $plain"
done

# ---- mistakes name what was meant, and the help of their own command
status 64 "did you mean 'similar'?" maru simlar
status 64 "maru: --lock is given twice; see 'maru run --help'" maru run --lock fifo --lock=cna -- true
status 64 "maru: --seed is given twice; see 'maru sim map --help'" maru sim map --seed 1 --seed 2
status 64 "maru: --tuning does not go with the options before it; see 'maru sim lock --help'" maru sim lock --study --tuning
status 64 "maru: --collector does not go with the options before it" maru sim map --study --collector
status 64 "maru: --workers does not go with the options before it" maru sim map --study --workers 3
status 64 "maru: --collector does not go with the options before it" maru sim map --seed 3 --collector
status 64 "handoff_range needs a power of two from 1 to 65536, not '3'" maru sim lock --lock cna:handoff_range=3
status 64 "Invalid option \`--no-such-option'" maru run --no-such-option --no-such-option -- true
status 64 "did you mean '--budget'?" maru tune gc --budgt 3 -- true
status 64 "Invalid option \`--lok' (did you mean '--lock'?); see 'maru run --help'" maru run --lok fifo -- true
status 64 "did you mean '--once'?" maru top --onc
status 64 "Invalid option \`-v'; see 'maru doctor --help'" maru doctor -v
status 64 "expects an argument; see 'maru run --help'" maru run --lock
for option in access globals transport output recover; do
  status 64 "option --$option: unknown $option 'other'; known: " maru launch -n 2 "--$option" other -- true
done
status 64 "option --journal: a number from 1 to 1048576 is needed, not 'x'" maru launch -n 2 --journal x -- true
status 64 "see 'maru tune gc --help'" maru tune gc --budget 3x -- true
status 64 "see 'maru sim map --help'" maru sim map --no-such-option
# ---- help, man pages, completions
help() {
  for words in "" similar "similar generate" "similar index" run attach launch boost "boost advise" top doctor sim "sim map" "sim stm" "sim lock" "sim io" \
    "sim boost" tune "tune gc" "tune wait" "tune io" "tune lock"; do
    echo "== maru $words"
    # shellcheck disable=SC2086
    timeout 20 maru $words --help
  done
}
help >"$work/help"
[ -z "${UPDATE:-}" ] || cp "$work/help" "$here/help.txt"
# Blank lines are the parser library's: it places them otherwise from 0.17 on.
diff -uB "$here/help.txt" "$work/help" || fail "the help has changed; UPDATE=1 test/cli.sh rewrites it"

commands=$(timeout 20 maru --help | sed -n '/^Available commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$commands" ] || fail "no commands in the help"
for name in $commands; do
  page=$package/../../docs/man/maru-$name.1
  [ -f "$page" ] || { fail "no man page for $name"; continue; }
  text=$(sed 's/\\-/-/g; s/\\f[BIR]//g' "$page")
  grep -q '^\.SH EXIT STATUS' <<<"$text" || fail "maru-$name.1 lists no exit status"
  inner=$(timeout 20 maru "$name" --help | sed -n '/^Available commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
  for words in "$name" ${inner:+$(printf "$name/%s " $inner)}; do
    for option in $(timeout 20 maru ${words/\// } --help | grep -oE -- '--[a-z-]+' | sort -u); do
      grep -qE -- "$option([^a-z-]|\$)" <<<"$text" || fail "maru-$name.1 does not explain $option"
    done
  done
done
for page in "$package"/../../docs/man/maru-*.1; do
  name=$(basename "$page" .1)
  grep -q '^\.so ' "$page" || sed 's/\\-/-/g' "$package/../../docs/man/maru.1" | grep -q "$name" || fail "maru.1 does not name $name"
done
for shell in bash zsh fish; do
  timeout 20 maru "--$shell-completion-script" maru | grep -q maru || fail "no completion for $shell"
done
timeout 20 maru --bash-completion-index 2 --bash-completion-word maru --bash-completion-word run \
  --bash-completion-word --wa | grep -qx -- --wait || fail "--wait is not completed"

if [ "$failures" -gt 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all checks of the built command passed"
