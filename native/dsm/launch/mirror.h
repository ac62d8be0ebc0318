/* mirror.h: checkpoints of a job on several hosts (internal to maru-launch).
 *
 * Each agent has a page and files as the launcher of a job of one host has them (keep.h): its nodes
 * see no difference.  The launcher has such a page as well, which no node sees, and decides by it.
 * Its words are told to the agents; what nodes say there is told to it.
 *
 * The files have two copies: one is the agent's, the other the launcher's, which keeps the images
 * of all nodes.  An agent ships an image before it tells that the image is written: of its pages
 * those that the last whole image has not.  So the checkpoint is committed when the launcher has it
 * all, and the death of a node, of a host, or of all hosts but the launcher's, loses none.  What
 * the last whole image has is never written over, in either copy.
 *
 * After a loss agents begin anew, with what the launcher has.
 */
#ifndef MARU_DSM_LAUNCH_MIRROR_H
#define MARU_DSM_LAUNCH_MIRROR_H

#include "frames.h"
#include "keep.h"

/* ---- the launcher ---- */

/* Tells an agent what its nodes go on from, before they start: those from `first`, so many. */
void mr_mirror_restore(struct job *job, int to, unsigned first, unsigned here);
/* The words that agents have to hear, if they have changed since the last call: their length, and
 * they are at *words until the next call; else 0. */
size_t mr_mirror_words(const struct keep *keep, const void **words);
/* A frame of an agent's, of a node of its; false: it is none of these. */
bool mr_mirror_hear(struct job *job, const struct mr_frame *frame, const char *body);

/* ---- an agent ---- */

/* Once it knows how many nodes there are; `journal`: bytes of each, or 0. */
void mr_mirror_begin(struct job *job, size_t journal);
/* With journals a node ended so: before the launcher hears of it. */
void mr_mirror_ended(struct job *job, unsigned number, int code);
/* A frame of the launcher's; false: it is none of these. */
bool mr_mirror_obey(struct job *job, const struct mr_frame *frame, const char *body);
/* So many bytes have come for node 0. */
void mr_mirror_gave(struct job *job, size_t length);

#endif
