/* secret.c: what the nodes of a job know and nobody else (launch.h).
 *
 * It lies in a file in memory without a name that nodes inherit, and goes to another host's agent
 * by its standard input. It is never in an environment or a command line, which others can read.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* Takes the bytes. */
static void keep(struct job *job, uint8_t secret[MR_LAUNCH_SECRET]) {
  job->secret = memfd_create("maru-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (job->secret < 0 || write(job->secret, secret, MR_LAUNCH_SECRET) != MR_LAUNCH_SECRET ||
      fcntl(job->secret, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
    mr_launch_fail(STATUS_MARU_FAILED, "no memory for the job's secret", strerror(errno));
  explicit_bzero(secret, MR_LAUNCH_SECRET);
}

void mr_launch_secret_draw(struct job *job) {
  uint8_t secret[MR_LAUNCH_SECRET];
  if (getrandom(secret, sizeof secret, 0) != sizeof secret)
    mr_launch_fail(STATUS_MARU_FAILED, "no random numbers", strerror(errno));
  keep(job, secret);
}

void mr_launch_secret_tell(const struct job *job, FILE *stream) {
  uint8_t secret[MR_LAUNCH_SECRET];
  if (pread(job->secret, secret, sizeof secret, 0) != sizeof secret)
    mr_launch_fail(STATUS_MARU_FAILED, "cannot read the job's secret", strerror(errno));
  for (int i = 0; i < MR_LAUNCH_SECRET; i++)
    fprintf(stream, "%02x", secret[i]);
  explicit_bzero(secret, sizeof secret);
}

void mr_launch_secret_hear(struct job *job, char *text) {
  uint8_t secret[MR_LAUNCH_SECRET];
  for (int i = 0; i < MR_LAUNCH_SECRET; i++)
    if (strlen(text) != 2 * MR_LAUNCH_SECRET || sscanf(text + 2 * i, "%2hhx", &secret[i]) != 1)
      mr_launch_fail(STATUS_MARU_FAILED, "agent: no secret", "");
  explicit_bzero(text, strlen(text));
  keep(job, secret);
}

void mr_launch_secret_close(struct job *job) {
  close(job->secret);
  job->secret = -1;
}
