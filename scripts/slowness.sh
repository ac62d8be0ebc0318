# shellcheck shell=bash
# Sourced where limits of time are set.

# How many times slower than alone this machine is now: MARU_TEST_SLOW, else the processes that are ready for each CPU,
# on average over the last minute; a whole number from 1 to 10.
slowness() {
  local load cpus
  read -r load _ </proc/loadavg
  cpus=$(nproc)
  load=$(((10#${load/./} + 50 * cpus) / (100 * cpus)))
  load=${MARU_TEST_SLOW:-$load}
  echo $((load < 1 ? 1 : load > 10 ? 10 : load))
}
