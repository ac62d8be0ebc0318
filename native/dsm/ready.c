#define _GNU_SOURCE
#include "ready.h"

#include "node.h"

#include <ctype.h>
#include <errno.h>
#include <maru/board.h>
#include <maru/wait.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_ready {
  struct maru_board board;
  unsigned first, here; /* the nodes of this host */
  struct maru_channel *channels[MR_JOB_NODES_MAX][MR_LISTENERS];
  struct maru_channel **own;
  struct maru_wait_policy policies[MR_LISTENERS];
};

/* "FIRST:N,N,...@BOARD": the first node of this host, its channels' numbers, the next one's, ... */
static bool read_channels(struct mr_ready *r, const char *text, struct maru_wait_table *table) {
  char *end;
  unsigned count = 0;
  unsigned long first = strtoul(text, &end, 10);
  if (!isdigit((unsigned char)*text) || first >= MR_JOB_NODES_MAX)
    return false;
  r->first = (unsigned)first;
  for (char stop = ':'; *end == stop && count < MR_JOB_NODES_MAX * MR_LISTENERS; stop = ',') {
    const char *begin = end + 1;
    unsigned long number = strtoul(begin, &end, 10);
    if (!isdigit((unsigned char)*begin) || number >= MARU_WAIT_CHANNELS)
      return false;
    r->channels[count / MR_LISTENERS][count % MR_LISTENERS] = &table->channels[number];
    count++;
  }
  r->here = count / MR_LISTENERS;
  return *end == '@' && count % MR_LISTENERS == 0;
}

/* NULL: a node of another host. */
static struct maru_channel **channels_of(struct mr_ready *r, uint16_t node) {
  return node >= r->first && node - r->first < r->here ? r->channels[node - r->first] : NULL;
}

static int find_channels(struct mr_ready *r, const char *text, uint16_t me) {
  struct maru_wait_table *table;
  int rc = maru_wait_table_of(&r->board, &table);
  if (rc < 0)
    return rc;
  if (!read_channels(r, text, table) || (r->own = channels_of(r, me)) == NULL)
    return -EINVAL;
  return 0;
}

static int open_board(struct mr_ready *r, const char *text, uint16_t me) {
  const char *path = strchr(text, '@');
  int rc = path != NULL ? maru_board_open(&r->board, path + 1) : -EINVAL;
  if (rc < 0)
    return rc;
  maru_board_forget_fd(&r->board);
  for (int who = 0; who < MR_LISTENERS; who++)
    (void)maru_wait_policy_init(&r->policies[who], MARU_WAIT_BLOCK); /* a kind that there is */
  rc = find_channels(r, text, me);
  if (rc < 0)
    maru_board_close(&r->board);
  return rc;
}

struct mr_ready *mr_ready_open(uint16_t me) {
  const char *text = getenv("MARU_DSM_CHANNELS");
  if (text == NULL)
    return NULL;
  struct mr_ready *r = calloc(1, sizeof *r);
  int rc = r != NULL ? open_board(r, text, me) : -ENOMEM;
  if (rc == 0)
    return r;
  fprintf(stderr, "maru: --boost does nothing for node %u: cannot use the board: %s\n", me,
          strerror(-rc));
  free(r);
  return NULL;
}

void mr_ready_close(struct mr_ready *ready) {
  if (ready == NULL)
    return;
  maru_board_close(&ready->board);
  free(ready);
}

/* ---- listening ------------------------------------------------------------------ */

void mr_ready_attach(struct mr_ready *ready, enum mr_listener who) {
  int rc = ready != NULL ? maru_channel_attach(ready->own[who], &ready->policies[who]) : 0;
  if (rc < 0)
    fprintf(stderr, "maru: --boost does nothing for a thread of this node: %s\n", strerror(-rc));
}

void mr_ready_detach(struct mr_ready *ready, enum mr_listener who) {
  if (ready != NULL)
    (void)maru_channel_attach(NULL, &ready->policies[who]); /* never fails */
}

static bool is_attached(const struct mr_ready *ready, enum mr_listener who) {
  return ready != NULL && ready->policies[who].channel != NULL;
}

void mr_ready_listens(struct mr_ready *ready, enum mr_listener who) {
  if (is_attached(ready, who))
    maru_channel_expect(&ready->policies[who]);
}

void mr_ready_leaves(struct mr_ready *ready, enum mr_listener who) {
  if (is_attached(ready, who))
    maru_channel_met(&ready->policies[who]);
}

void mr_ready_sends(struct mr_ready *ready, uint16_t to) {
  struct maru_channel **theirs = ready != NULL ? channels_of(ready, to) : NULL;
  for (int who = 0; theirs != NULL && who < MR_LISTENERS; who++)
    maru_channel_post(theirs[who]);
}
