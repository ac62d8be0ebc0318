/* alive.h: whether the host at a connection's other end still answers (internal to libmaru-dsm).
 *
 * A process that is stopped is not dead. Its kernel acknowledges what comes, keep-alives and probes
 * of a closed window included, for as long as it is stopped. The kernel of a dead host answers
 * nothing.  So a connection is lost when its host leaves something unanswered. Where nothing is on
 * the way the kernel asks (keep-alives), a second after the last answer, and breaks the connection
 * itself after three.  Where something is, it would go on asking for a quarter of an hour. So this
 * file looks, and waits from the look that finds something asked or repeated. Keep-alives come a
 * second apart: two of them have been asked after MR_IDLE_MS. The first repeat comes 200 to 500 ms
 * after the silence began, the second twice as long behind it, the third four times. MR_SILENT_MS
 * is for that third one to come, up to a round trip of 90 ms: a short outage may have lost two.
 * With looks 250 ms apart both are some 2.75 s at most. What is left of MR_LOST_MS is for hosts
 * that are busy. (TCP_USER_TIMEOUT does not serve: it counts the time of a closed window, too.)
 *
 * A kernel asks at a closed window ever more seldom, at last every two minutes.  So the death of a
 * host whose process was stopped before is noticed after as long as that had been, at most that.
 */
#ifndef MARU_DSM_ALIVE_H
#define MARU_DSM_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

#define MR_SILENT_MS 1750
#define MR_IDLE_MS 1250

struct mr_alive {
  int64_t since;    /* when it was first seen that something is unanswered; 0: nothing is */
  int64_t answered; /* when the last answer came */
  uint32_t known;   /* repeats before that */
};

/* What the kernel says of a connection. */
struct mr_signs {
  uint32_t repeats; /* of the oldest that is not acknowledged */
  uint32_t probes;  /* since the last answer: keep-alives, and of a closed window */
  uint32_t answer;  /* ms since it came, whatever it acknowledged */
  bool idle;        /* nothing is on the way, nor waits for a window */
};

/* Has the kernel ask where nothing is on the way. */
void mr_alive_tune(int fd);
/* To be asked every 250 ms; more seldom, and it finds out later.  `now`: maru_now_ns. */
bool mr_alive_lost(struct mr_alive *alive, int fd, int64_t now);
/* The same of these signs. */
bool mr_alive_judge(struct mr_alive *alive, const struct mr_signs *signs, int64_t now);

/* When somebody looks, again and again. */
struct mr_looks {
  int64_t pause, last; /* ns from one to the next; the last one */
  int64_t awake;       /* ns since the beginning, without what this process was stopped for */
};

/* Whether it is time.  What this process slept through counts as one pause: others could not be
 * heard meanwhile. */
bool mr_looks_due(struct mr_looks *looks, int64_t now);

#endif
