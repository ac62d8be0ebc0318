#!/usr/bin/env python3
"""Seeded faults in the protocol: each must be caught by the core's tests.

usage: mutants.py [WORD]      only mutants whose description holds WORD

A mutant is one replacement in one source file; a replacement that no longer
fits its file is an error.  Prints one line each, then "N passed, M failed".
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests"))
from own_group import outcome  # noqa: E402

SOURCES = ["acquire.c", "core.c", "deadlock.c", "effects.c", "fetch.c", "given.c", "habits.c", "history.c", "pages.c", "progress.c", "races.c", "save.c", "shown.c", "sync.c", "wanted.c", "manager.c", "intervals.c", "latch.c", "locks.c", "message.c", "diff.c"]
# The quickest first; the first finding ends a mutant.
TESTS = {"manager_steps": "1", "core_litmus": "300", "core_clean": "1", "core_edges": "50", "core_deadlock": "1", "core_habits": "1", "core_homes": "1", "core_ways": "1", "core_random": "30000", "history_steps": "1", "given_stretch": "1", "races_steps": "1", "diff_pages": "300"}
# Where a source has a test of its own, that is the quickest to find.
OWN = {"habits.c": "core_habits", "deadlock.c": "core_deadlock", "history.c": "history_steps", "given.c": "given_stretch", "races.c": "races_steps", "save.c": "core_random", "diff.c": "diff_pages"}
FLAGS = ["-std=gnu11", "-O1", "-w", "-fPIC", f"-I{HERE.parent.parent}/include", f"-I{HERE.parent.parent}/tests"]
# Linked with every test, and what the sources need of others.
HELPERS = ["world", "latched", "repeated"]
LIBRARIES = [HERE.parents[2] / "build/lib/libmaru.a", "-lpthread"]
CORE = "libcore.so"
NAMED = f"-Wl,-soname,{CORE}"
SECONDS = 60

MUTANTS = [
    ("a trial takes a lock that is held", "manager.c", "  if (object->free) {\n    grant_lock(s, from, MR_TRY,", "  if (true) {\n    grant_lock(s, from, MR_TRY,"),
    ("a trial does not ask a lock back", "manager.c", "!object->kept && object->asked == NOBODY", "true"),
    ("two are asked for the same lock", "manager.c", "    if (object->asked == NOBODY) {\n", "    {\n"),
    ("an answer about an old turn counts for a new one", "manager.c", "  if (object->value == s->request->argument)\n    object->kept", "  object->kept"),
    ("anybody's answer ends the trials", "manager.c", "  if (object->asked != s->request->from)\n    return -EPERM;\n", ""),
    ("every trial takes what came back", "manager.c", "    if (s->object->free)\n      grant_lock", "    if (true)\n      grant_lock"),
    ("a release that crosses the next one's name frees the lock", "manager.c", "bool last = object->tail == s->request->from;", "bool last = true;"),
    ("anybody may keep a lock", "manager.c", "grant_lock(s, from, MR_LOCK, before == from);", "grant_lock(s, from, MR_LOCK, true);"),
    ("nobody keeps a lock", "manager.c", "grant_lock(s, from, MR_LOCK, before == from);", "grant_lock(s, from, MR_LOCK, false);"),
    ("the next is named to itself", "manager.c", "name_next(s, before, object->value - 1, from);", "name_next(s, from, object->value - 1, before);"),
    ("a swap minds not what there is", "manager.c", "  if (before == s->request->expected)\n", ""),
    ("what a swap expects does not travel", "sync.c", "    mr_put(&core->out, &expected, sizeof expected);", "    mr_put(&core->out, &(int64_t){0}, sizeof expected);"),
    ("the next waits for a turn that is over", "locks.c", "if (turn == lock->turn && !lock->held)", "if (false)"),
    ("the next gets the lock after any turn", "locks.c", "if (turn == lock->turn && !lock->held)", "if (!lock->held)"),
    ("the next gets a lock that is held", "locks.c", "if (turn == lock->turn && !lock->held)", "if (turn == lock->turn)"),
    ("what was given away is kept, too", "locks.c", "  lock->keeps = false;\n  core->counters.given++;", "  core->counters.given++;"),
    ("the next is given to twice", "locks.c", "    lock->next = 0;\n", ""),
    ("a holder that is asked keeps the lock", "locks.c", "  lock->keeps = false;\n  if (lock->held)", "  if (lock->held)"),
    ("a holder that is asked says nothing", "locks.c", "    core->lock_is_held(core, id, lock->turn);", "    ;"),
    ("the next hears of the first release only", "locks.c", "  memcpy(lock->released, core->time, bytes);", "  if (lock->released[core->config.me] == 0)\n    memcpy(lock->released, core->time, bytes);"),
    ("the next hears of no write", "locks.c", "  mr_put_intervals(core, to, lock->released);\n", ""),
    ("a turn may come again", "locks.c", " || turn <= lock->turn", ""),
    ("a trial that took the lock says no", "sync.c", "return pending->op == MR_TRY;", "return 0;"),
    ("a lock that is kept is asked for", "sync.c", "!takes(op) || !mr_lock_retake(core, id)", "true"),
    ("who holds a lock may take it again", "sync.c", "(op == MR_LOCK && held) || ", ""),
    ("nobody is the last at a barrier", "manager.c", "node == s->request->from);", "0);"),
    ("two nodes that meet hear nothing of each other's writes", "sync.c", "  if (acquire(core, meeting->time) < 0)\n    return;\n", ""),
    ("a node that came once counts at the next barrier, too", "sync.c", "  meeting->heard = false;\n", ""),
    ("two nodes meet at different barriers", "sync.c", " || meeting->id != pending->id", ""),
    ("who waits for the other of two is forgotten by its image", "save.c", "core->meeting = (struct meeting){.heard = true, .id = other->id};", ";"),
    ("copies stay where a saved core goes on", "save.c", "  mr_mark_access(core, page, MR_NONE);\n  return true;", "  return true;"),
    ("a page that its home writes alone has a stamp", "save.c", " && !core->pages[page].alone ?", " ?"),
    ("a saved page has no version", "save.c", "    p->version = 1;\n", ""),
    ("a saved lock is kept by nobody", "save.c", ".keeps = saved.keeps == 1", ".keeps = false"),
    ("a saved lock has no next", "save.c", "{lock->turn, id, lock->next,", "{lock->turn, id, 0,"),
    ("a saved node waits for nothing", "save.c", "  if (head->waits == 0)\n    return;\n  core", "  if (true)\n    return;\n  core"),
    ("homes are where they were at first when saved ones go on", "save.c", "  if (node != first_home(core, page))\n    mr_note_home(core, page, node);\n", ""),
    ("saved waiters have no argument", "manager.c", ".next = NOBODY, .argument = waiter.argument}", ".next = NOBODY}"),
    ("a node rests that has changes of its own", "save.c", "!core->stopped && core->dirty_count == 0 &&", "!core->stopped &&"),
    ("a node that waits keeps what it wrote", "save.c", "  if (core->dirty_count > 0)\n    send_home(core);\n", ""),
    ("a node that has sent home what it wrote asks again", "sync.c", "core->pending.phase == CLEANING)\n    wait_on", "false)\n    wait_on"),
    ("a grant does not wait until all is home", "sync.c", "  if (pending->phase == ASKING)\n    return take_effect", "  if (true)\n    return take_effect"),
    ("a signal does not wait until all is home", "sync.c", "pending->stage == SLEEPS && pending->phase != CLEANING", "pending->stage == SLEEPS"),
    ("a grant that waited is lost", "sync.c", "  if (pending->granted) {\n    pending->granted = false;", "  if (false) {\n    pending->granted = false;"),
    ("a signal that waited is lost", "sync.c", "  } else if (pending->stage == SLEEPS && pending->woken) {\n    next_stage", "  } else if (false) {\n    next_stage"),
    ("nobody is signalled while its place in the queue waits", "sync.c", "(pending->stage == STANDS && pending->granted)", "false"),
    ("a grant that waits comes again", "sync.c", " || pending->granted ||\n", " ||\n"),
    ("a grant that waited brings nothing", "sync.c", "  memcpy(core->granted, time, core->config.nodes * sizeof *time);\n", ""),
    ("one look is enough to call a job stuck", "deadlock.c", "  if (!look->again) {", "  if (false) {"),
    ("messages under way do not keep a job from being stuck", "deadlock.c", "return all && under_way == 0;", "return all;"),
    ("who computes does not keep a job from being stuck", "deadlock.c", "return all && under_way == 0;", "return under_way == 0;"),
    ("what happens between two looks does not count", "deadlock.c",
     "    if (look->first[q].received != look->second[q].received)\n", "    if (false)\n"),
    ("looks count as messages", "core.c", "core->received += rc >= 0 && !mr_looks(header.type);", "core->received += rc >= 0;"),
    ("a wait beside the core that is over does not count", "deadlock.c", "  core->sent++;\n  core->received++;\n", "  (void)core;\n"),
    ("who waits beside the core is not seen", "deadlock.c", "core->config.sink->apart != NULL", "false"),
    ("a node that has taken a lock waits for it still", "latch.c", "  return holder != MR_LATCH_NOBODY && holder != me;", "  return holder != MR_LATCH_NOBODY;"),
    ("a condition keeps a lock beside the core", "sync.c", "    core->config.sink->unlock(core->config.context, pending->lock);\n", ""),
    ("who was signalled asks the core for a lock beside it", "sync.c", "    pending->stage = RETURNS;\n    if (!core->locks_apart) {", "    pending->stage = RETURNS;\n    if (true) {"),
    ("a stuck job is never called so", "deadlock.c", "seen.wait.waits = waits == 1;", "seen.wait.waits = false;"),
    ("anybody's word about any look is taken", "deadlock.c", "look->awaited == 0 || ", ""),
    ("an ordered write counts as a race", "races.c",
     "past->interval > time[past->writer]", "past->interval >= time[past->writer]"),
    ("bytes beside count as a race", "races.c",
     "(uint64_t)diff->masks[next++] << block % 8 * 8;", "(uint64_t)255 << block % 8 * 8;"),
    ("a race is named again and again", "races.c", "    both->word[w] &= ~page->said->word[w];\n", ""),
    ("a page's past goes with what all acquired of one node", "races.c",
     "past[i].interval > floor[page->past[i].writer]", "past[i].interval > floor[0]"),
    ("only the first run of bytes is named", "races.c", "first = end + 1)", "first = MR_PAGE)"),
    ("homes move where races are looked for", "core.c",
     "(config->races == NULL || config->homes == MR_HOMES_STAY)", "true"),
    ("a release does not wait for its diffs", "sync.c",
     "  if (!mr_flush(core))\n    mr_flushed(core);", "  mr_flush(core);\n  mr_flushed(core);"),
    ("a page stays valid that is one version behind", "pages.c",
     "if (p->needed > p->version && access", "if (p->needed > p->version + 1 && access"),
    ("the home takes every writer for the only one", "pages.c",
     "p->twin || base < p->version;", "p->twin;"),
    ("the home forgets that it writes itself", "pages.c",
     "p->twin || base < p->version;", "base < p->version;"),
    ("others' changes count as the home's own", "pages.c",
     "  if (core->pages[page].twin || core->config.compares)\n    store_diff(core, twin_of(core, page));", ""),
    ("what the home has not released is sent", "fetch.c",
     "return core->pages[page].twin ? twin_of(core, page) : memory_of(core, page);", "return memory_of(core, page);"),
    ("the home does not count its own intervals", "pages.c",
     "notice(core, page, changed(core, page));", "notice(core, page, core->pages[page].version);"),
    ("a fresh copy buries own changes", "fetch.c",
     "  mr_diff_apply_masked(own, memory);\n", ""),
    ("a fresh copy's twin is the old one", "fetch.c",
     "  store(core, copy, twin);\n", ""),
    ("a copy counts as newer than it is", "fetch.c",
     "p->version = copy->version;", "p->version = copy->version + 1;"),
    ("one's own diff makes an old copy new", "pages.c",
     "if (version == p->version + 1)", "if (version > p->version)"),
    ("no twin is made", "pages.c",
     "  memcpy(twin_of(core, page), bytes, MR_PAGE);\n", ""),
    ("a page stays writable after the interval's end", "pages.c",
     "      mr_set_access(core, core->dirty[i], MR_READ);\n  mr_settle(core);", "      ;"),
    ("a twin outlives its interval", "pages.c",
     "p->flying = p->twin = false;", "p->flying = false;"),
    ("a release leaves no trace at the manager", "sync.c",
     "    mr_time_join(mr_manager_time(d->core->manager, d->slot), d->released, d->core->config.nodes);", "    ;"),
    ("the newest interval is not acquired", "acquire.c",
     "number <= time[q]; number++) {\n      const struct mr_interval *interval = mr_intervals_at",
     "number < time[q]; number++) {\n      const struct mr_interval *interval = mr_intervals_at"),
    ("an acquisition is not remembered", "acquire.c",
     "  mr_time_join(core->time, time, core->config.nodes);\n  return 0;", "  return 0;"),
    ("an acquisition counts without its notices", "acquire.c",
     "        mr_invalidate(core, &interval->notices[i]);", "        ;"),
    ("write notices are left out", "progress.c",
     "core->floor[q]) + 1;", "core->floor[q]) + 2;"),
    ("what one has acquired counts for all", "progress.c",
     "  mr_time_meet(round->least, heard->least, core->config.nodes);\n", ""),
    ("the floor rises before all are in the round", "progress.c",
     "return in == core->config.nodes;", "return in + 1 >= core->config.nodes;"),
    ("what others know of the floor is ignored", "progress.c", "  raise_floor(core, core->lowest);\n", ""),
    ("one enters a round without its own part", "progress.c",
     "  memcpy(round->least, core->time, core->config.nodes * sizeof *round->least);",
     "  memset(round->least, 255, core->config.nodes * sizeof *round->least);"),
    ("what a log holds is forgotten", "progress.c",
     "  mr_time_join(held, time, core->config.nodes);\n}", "}"),
    ("a floor is believed that is above what one has", "progress.c",
     "core->lowest[q] <= core->time[q]", "true"),
    ("a round two ahead is believed", "progress.c",
     "heard->number <= core->round.number + 1 && !spare", "!spare"),
    ("nothing is ever dropped from the log", "progress.c",
     "    mr_intervals_trim(core->log, q, core->floor[q]);\n", "    ;\n"),
    ("a fetch-and-add is no release", "sync.c",
     "op == MR_FLAG_SET ||\n         op == MR_FETCH_ADD ||", "op == MR_FLAG_SET ||"),
    ("a flag is no acquisition", "sync.c", "op == MR_BARRIER || op == MR_WAIT || op == MR_FLAG_AWAIT ||", "op == MR_BARRIER || op == MR_WAIT ||"),
    ("a signal that comes early is lost", "sync.c", "    if (!pending->woken)\n      return;", "    return;"),
    ("a node sleeps without standing in the queue", "sync.c",
     ".stage = condition ? STANDS : SINGLE", ".stage = condition ? LEAVES : SINGLE"),
    ("messages of another epoch count", "core.c", "header.epoch != core->config.epoch || ", ""),
    ("messages of another incarnation count", "core.c",
     " || header.incarnation != core->incarnations[from]", ""),
    ("a message may be shorter than it says", "core.c", "header.length != reader.left ||", ""),
    ("a lock has two holders", "manager.c",
     "  if (object->free) {\n    grant_lock(s, from, MR_LOCK,", "  if (true) {\n    grant_lock(s, from, MR_LOCK,"),
    ("a lock is forgotten when it is handed on", "locks.c",
     "    give(core, id, lock, next, true);", "    ;"),
    ("anybody may unlock", "sync.c",
     "(op == MR_UNLOCK && !held)", "false"),
    ("whoever came last gets the lock first", "manager.c",
     "  if (s->object->first == NOBODY)\n    s->object->first = node;\n  else\n"
     "    s->manager->waiters[s->object->last].next = node;\n  s->object->last = node;",
     "  s->manager->waiters[node].next = s->object->first;\n  s->object->first = node;"),
    ("a barrier waits for all nodes", "manager.c",
     "s->object->arrived < parties", "s->object->arrived < s->manager->nodes"),
    ("a flag wakes whoever waits", "manager.c",
     "waiter->argument == s->object->value", "waiter->waits"),
    ("a flag that is set opens for every value", "manager.c",
     "s->object->value == s->request->argument", "s->object->value != 0"),
    ("a flag's queue has lost its end", "manager.c", "  s->object->last = kept;\n", ""),
    ("a refused request makes the object", "manager.c",
     "  if (rc < 0)\n    object->kind = before;\n", ""),
    ("a refused request releases", "sync.c",
     "  if (rc == 0)\n    keep_released(&decision);\n  else if", "  keep_released(&decision);\n  if (rc == 0)\n    ;\n  else if"),
    ("a diff is read while it is being written", "pages.c",
     "      mr_set_access(core, core->dirty[i], MR_READ);\n  mr_settle(core);",
     "      mr_set_access(core, core->dirty[i], MR_READ);"),
    ("a release comes without its notices", "sync.c", "releases(op) && !mr_covered(core, time)", "false"),
    ("a request tells of what is yet to come", "sync.c",
     "  if (time[core->config.me] > core->time[core->config.me])\n    return mr_fail(core, -EPROTO, \"a request",
     "  if (false)\n    return mr_fail(core, -EPROTO, \"a request"),
    ("a page comes older than its notice", "fetch.c",
     "copy.version < core->pages[copy.page].needed", "false"),
    ("any answer wakes a sleeper", "sync.c", "!answered(op) || ", ""),
    ("anybody refuses", "sync.c",
     " ||\n      header->subject % core->config.nodes != header->from)\n    return -EBADMSG;\n  return mr_fail",
     ")\n    return -EBADMSG;\n  return mr_fail"),
    ("a known interval comes with other notices", "intervals.c",
     "same(mr_intervals_at(log, node, number), notices, count, diffs) ? 0 : -EPROTO", "0"),
    ("a stopped core says that all is well", "effects.c",
     "return core->stopped ? -ECANCELED : 0; }", "return core->stopped ? 0 : 0; }"),
    ("changed bytes are stored with their neighbours", "diff.c",
     "    to[k] = (uint8_t)(word >> 8 * k);",
     "    *(volatile uint64_t *)to = (*(volatile uint64_t *)to & ~(UINT64_C(255) << 8 * k)) | "
     "(word & UINT64_C(255) << 8 * k);"),
    ("a barrier opens one too early", "manager.c",
     "s->object->arrived < parties", "s->object->arrived + 1 < parties"),
    ("a semaphore lets everybody through", "manager.c",
     "    s->object->value--;\n    grant(s, dequeue(s)", "    grant(s, dequeue(s)"),
    ("a flag wakes only the first", "manager.c",
     "      *link = waiter->next;", "      *link = NOBODY;"),
    ("a broadcast wakes only the first", "manager.c",
     "while (s->object->first != NOBODY)\n    signal_one", "if (s->object->first != NOBODY)\n    signal_one"),
    ("any object may be of any kind", "manager.c",
     "object->kind != UNUSED && object->kind != steps[request->op].kind", "false"),
    ("a mask names all bytes", "diff.c", "(uint8_t)((high >> 7)", "(uint8_t)(0 * (high >> 7)) | (uint8_t)~((high >> 7) * 0"),
    ("the home's own diffs leave no trace in the past", "pages.c",
     "notice(core, page, changed(core, page));", "notice(core, page, ++p->version);"),
    ("the past forgets the oldest diff asked for", "history.c",
     "version > have; version--", "version > have + 1; version--"),
    ("a gap of one too many is served", "history.c",
     "past->newest - have > history->gap", "past->newest - have > history->gap + 1"),
    ("only the newest diff counts", "history.c", "bitmap[w] |= diff[w];", "bitmap[w] = diff[w];"),
    ("a stamp that is older hides a newer one", "history.c",
     "past->stamps[line] > after", "past->stamps[line] > after + 1"),
    ("a line is stamped only where it begins", "history.c",
     ">> line % 8 * 8 & 0xff) != 0", ">> line % 8 * 8 & 1) != 0"),
    ("a line is sent without its end", "history.c",
     "UINT64_C(0xff) << line % 8 * 8", "UINT64_C(0x7f) << line % 8 * 8"),
    ("what was before the past is known", "history.c",
     "have < past->since || have > past->newest ||\n      past->newest", "past->newest"),
    ("a past with a hole is believed", "history.c", "version != past->newest + 1 || ", ""),
    ("a stamp may be of any age", "history.c",
     "!history->stamps || have < past->since ||", "!history->stamps ||"),
    ("a part is stored in place of own changes' twin alone", "fetch.c",
     "  store(core, copy, memory);\n  store(core, copy, twin);", "  store(core, copy, twin);"),
    ("a part that is too long for the limit is sent as it is", "history.c",
     "return -EFBIG;", "return blocks;"),
    ("a batch ends with its first copy", "fetch.c",
     "  if (pending->awaited > 0)\n    return 0;", "  pending->awaited = 0;"),
    ("the second page of a batch is not stored", "fetch.c",
     "    take_copy(core, &copy);", "    copy.page = header->subject;\n    take_copy(core, &copy);"),
    ("a batch asks for every page in one place", "fetch.c",
     "mr_core_home(core, core->batch[first + count]) == mr_core_home(core, core->batch[first])", "true"),
    ("a part bears masks", "fetch.c", " && !core->diff.masked", ""),
    ("the same copy comes twice", "fetch.c",
     "      return access_of(core, page) == MR_NONE;", "      return true;"),
    ("a home gives pages that are not its own", "fetch.c",
     "!mr_answers_for(core, page) ||", ""),
    ("a fetch is answered under another name", "fetch.c", "(first && page != header->subject)", "false"),
    ("what protect has to say is forgotten", "effects.c", "  mr_settle(core);\n  core->settling.page", "  core->settling.page"),
    ("pages that are apart are protected together", "effects.c",
     "core->settling.page + core->settling.count == page", "true"),
    ("news are not answered", "sync.c", "    mr_send_news(core, from, MR_NEWS_HEARD);\n", "    ;\n"),
    ("news count during a fetch", "sync.c", "phase == FETCHING || (phase == IDLE", "(phase == IDLE"),
    ("news are not acquired", "sync.c", "header->type == MR_NEWS && mr_acquire(core, time) < 0", "false"),
    ("news come without their notices", "sync.c", "header->type == MR_NEWS && !mr_covered(core, time)", "false"),
    ("news tell of what is yet to come", "sync.c",
     "time[core->config.me] > core->time[core->config.me] ||\n", ""),
    ("a log may be of any size in memory", "progress.c", "  bool large =", "  bool large = false &&"),
    ("a home leaves in silence", "pages.c", "    detail = KEPT_MOVES | ", "    detail = 0 & "),
    ("a home that has left is still one", "pages.c", "  mr_note_home(core, page, to);\n  core", "  core"),
    ("a home moves to a writer that is not alone", "pages.c",
     "  if (shared) {\n    p->in_row = 0;\n  } else if (leaves", "  if (leaves"),
    ("a home goes from its readers", "pages.c", " && p->read == 0", ""),
    ("writers in turns are no reason to stay", "pages.c", "    p->moves += p->unsteady && p->moves < UINT8_MAX;\n", ""),
    ("a home never hears of its readers", "fetch.c", "  mr_note_reader(core, page, to);\n", ""),
    ("who reads once is a reader for ever", "pages.c", "  p->read -= p->read > 0;\n", ""),
    ("who was a home answers for the new one", "fetch.c", "bool here = home == core->config.me;", "bool here = true;"),
    ("who was a home keeps the diff", "pages.c",
     "  if (!at_home(core, page))\n    return pass_on(core, header, reader);\n", ""),
    ("the answer goes to who passed it on", "fetch.c",
     "  uint16_t origin = (uint16_t)header->value;", "  uint16_t origin = header->from;"),
    ("a new home's past begins where its old one ended", "pages.c",
     "  encode_again(core, page);\n  mr_history_add(core->history, page, version, core->diff.bitmap);\n", ""),
    ("whoever is told becomes a home", "pages.c",
     "version != p->version + 1 || p->needed > version || access_of(core, page) == MR_NONE", "false"),
    ("a diff makes a copy new that was two behind", "pages.c",
     "p->version + 1 != notice->version", "p->version + 1 > notice->version"),
    ("a diff comes with a notice and says nothing of bytes", "pages.c", " || !core->diff.masked", ""),
    ("an interval bears the diffs of the one before", "pages.c", "  core->carried.length = 0;\n", ""),
    ("a diff stays with the first notice", "acquire.c", "    diff += interval->notices[i].length;\n", ""),
    ("a diff goes without masks", "pages.c",
     "  if (!core->diff.masked)\n    mr_diff_mask(&core->diff, twin_of(core, page));\n  uint8_t *room", "  uint8_t *room"),
    ("one way counts for all who ask", "fetch.c", "  struct way *way = &core->ways[to];", "  struct way *way = &core->ways[0];"),
    ("what one home takes counts for all", "fetch.c", "learn(&core->ways[header->from], ", "learn(&core->ways[0], "),
    ("nobody sends news", "progress.c", "  if (many || large)", "  if (false)"),
    ("a home does not hear that its page was taken", "pages.c",
     "    core->pages[page].alone = false;\n}", "    ;\n}"),
    ("a page is shown while its home writes it", "pages.c",
     "memory_of(core, page));\n    mr_show(core, page);\n", "memory_of(core, page));\n"),
    ("what a home has not released is shown", "pages.c", "mr_shown_show(shown, MR_SHOWN_TWIN, p->version);", "mr_shown_show(shown, MR_SHOWN, p->version);"),
    ("what a home writes alone is shown", "pages.c", "  else if (access_of(core, page) != MR_READ_WRITE)\n    mr_shown_show", "  else\n    mr_shown_show"),
    ("a diff comes into a page that is shown", "pages.c", "  hide(core, page);\n  apply(core, page);\n", "  apply(core, page);\n"),
    ("nobody takes a page", "shown.c", "  if (place_of(word) == MR_SHOWN_ALONE) {", "  if (false) {"),
    ("the home does not hear that its page was taken", "shown.c", "  return place_of(word) == MR_SHOWN;", "  return false;"),
    ("the memory is copied for the twin", "shown.c", "? twin : memory", "? memory : memory"),
    ("an old page is copied", "fetch.c", "                         &copy.version) < 0 ||\n      copy.version < core->pages[page].needed)", "                         &copy.version) < 0)"),
    ("a home counts as alone from the start", "pages.c",
     "(core->config.nodes == 1 || core->pages[page].alone)", "true"),
    ("a home stays alone with a page that is fetched", "fetch.c", "  mr_end_alone(core, page);\n", ""),
    ("a home that said what it writes loses that where the page is given", "pages.c", " || core->config.unseen)", ")"),
    ("what was written alone counts as known", "pages.c", "  mr_history_forget(core->history, page);\n", ""),
    ("a page is sent while its home may write it", "pages.c",
     "    mr_set_access(core, page, MR_READ);\n    mr_settle(core);\n  }\n", "  }\n"),
    ("what came unasked is shown before its use", "fetch.c", "    if (!mr_habits_brought(core->habits, core->wanted[i]))\n", ""),
    ("a page is asked for twice at once", "wanted.c", "  if (i > 0 && core->wanted[i - 1] == page)\n    return false;\n", ""),
    ("a batch is in the order of wishes", "wanted.c", "while (i > 0 && comes_before(core, page, core->wanted[i - 1]))", "while (false)"),
    ("three pages are a row", "habits.c", "#define ROW_AFTER 3u", "#define ROW_AFTER 2u"),
    ("a row goes on behind a gap", "habits.c", "    if (access_of(core, (uint32_t)p) == MR_NONE)\n      return false;\n  return true;\n}\n\n/* A page that was", "    ;\n  return true;\n}\n\n/* A page that was"),
    ("a row does not end with its stretch", "habits.c", "row->stretch != core->habits->stretch || row->step == 0", "row->step == 0"),
    ("a row brings what was used before", "habits.c", " && core->habits->of[page].at == 0", ""),
    ("a row brings one page", "habits.c", "(2u << doublings) - 1", "1"),
    ("a row does not end with memory", "habits.c", "p >= 0 && p < core->config.pages", "p < core->config.pages"),
    ("a row has no way back", "habits.c", "way / row->step < 1 ||", "way < 1 ||"),
    ("what came in vain comes again", "habits.c", "  habit->proofs = 0;\n", ""),
    ("what follows need not be expected first", "habits.c", "  if (habit->proofs > 0)\n    return true;", "  return true;"),
    ("a page beside is written whether it was or not", "pages.c",
     "  p->written = core->diff.blocks != 0;\n  if (p->written && ", "  p->written = true;\n  if (core->diff.blocks != 0 && "),
    ("no page is written beside another", "wanted.c", "follows || is_rewritten(core, p)", "follows"),
    ("a home hides what it may write", "wanted.c", "(!p->alone || p->hidden)", "true"),
    ("nobody writes in order", "wanted.c", "follows || is_rewritten(core, p)", "is_rewritten(core, p)"),
    ("an order of writes has gaps", "wanted.c", "(write ? MR_READ_WRITE : MR_READ)", "MR_READ"),
    ("no stretch ends", "sync.c", "  mr_habits_part(core->habits);\n", ""),
    ("nobody looks after a page that is trusted", "habits.c", "  if (habit->proofs % LOOKED_AFTER != 0) {", "  if (true) {"),
    ("nobody is trusted", "habits.c", "if (habit->proofs % LOOKED_AFTER != 0)", "if (false)"),
    ("a use that was expected proves nothing", "habits.c", "habit->brought || habit->expected == habits->stretch", "habit->brought"),
    ("who got a change with its notice is forgotten", "pages.c",
     "    p->alone = !notice(core, page, changed(core, page));", "    notice(core, page, changed(core, page));\n    p->alone = true;"),
    ("a home that may be repeated stops where its page is fetched", "pages.c", "(core->config.replays || core->config.unseen)", "core->config.unseen"),
    ("what a home gives is not what it compares with", "pages.c", "            config->sink->gives != NULL ? config->sink->gives(config->context, page, memory)\n                                        : memory);", "            memory);"),
    ("a node that stands still keeps what was fetched of it meanwhile", "save.c", "(phase != ASKING && phase != IDLE)", "phase != ASKING"),
    ("who stands still tells nobody", "save.c", "  if (core->pending.phase == phase && !has_told(core))\n    tell_all(core);\n", "  core->told_all = core->time[core->config.me];\n"),
    ("who stands still hears later", "save.c", "  return !core->config.replays || !core->has_later;", "  return true;"),
    ("a copy has the bytes of another page where a node goes on", "save.c", "size_t number = (size_t)parts->head.pages_count;", "size_t number = 0;"),
    ("who is alone with a page is forgotten with the history", "save.c", "    core->pages[page].alone = true;\n", "    core->pages[page].alone = page_of == NULL;\n"),
    ("what was given and is something else now passes", "given.c", "      return false;\n  }", "      return true;\n  }"),
    ("news change what a program that computes may access", "sync.c", "  return phase == FETCHING || (phase == IDLE && core->config.replays);", "  return phase == FETCHING;"),
    ("a copy that is old is new where a history begins", "save.c", "    mr_mark_access(core, page, MR_NONE);\n", ""),
    ("what a node has learnt is forgotten with the history", "save.c", "  return mr_habits_load(core->habits, core->config.pages, &parts->habits) ? 0 : -EBADMSG;", "  return 0;"),
    ("a node that repeats has learnt nothing", "save.c", "    rc = load_traits(core, &parts);\n", "    rc = page_of == NULL ? load_traits(core, &parts) : 0;\n"),
    ("what it wrote beside a page is forgotten with the history", "save.c", "written = saved.written == 1;", "written = false;"),
    ("what came unasked is shown with what is beside it", "wanted.c", "if (core->pages[p].hidden && !mr_habits_brought(core->habits, p))", "if (core->pages[p].hidden)"),
    ("versions begin anew with a history", "save.c", "    mr_take(&parts->versions, &core->pages[page].version, sizeof core->pages[page].version);", "    core->pages[page].version = 1;"),
    ("where a page has gone is forgotten with the history", "save.c", "  int rc = load_homes(core, &parts.homes);\n", "  int rc = 0;\n"),
    ("a node that goes on may access what it could", "save.c", "    core->config.sink->protect(core->config.context, 0, core->config.pages, MR_NONE);\n", ""),
    ("that the other one has come to the barrier is forgotten with the history", "save.c", "  if (parts.head.met == 1)\n    core->meeting", "  if (false)\n    core->meeting"),
]


def build(work, source):
    """Objects of the sources are shared; only the changed one is compiled anew."""
    compiler = os.environ.get("CC", "cc")
    command = [compiler, *FLAGS, "-c", f"-iquote{HERE.parent}", str(source), "-o", str(work / (source.stem + ".o"))]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise SystemExit(f"maru: {source} does not compile:\n{result.stdout}")


def link(program, *inputs):
    subprocess.run([os.environ.get("CC", "cc"), "-o", program, *map(str, inputs)], check=True)


# Of the core as it is, whose tests the suite runs at length.
UNCHANGED = 2000


def verdict(common, test, core, most=None):
    """What the test says of the core in that folder; None: it passed."""
    schedules = TESTS[test] if most is None else str(min(int(TESTS[test]), most))
    environment = dict(os.environ, LD_LIBRARY_PATH=str(core), MARU_DSM_SCHEDULES=schedules, MARU_DSM_PAIRS=schedules, MARU_DSM_SECONDS=schedules, MARU_DSM_SEED="1")
    ended = outcome([common / test], SECONDS, env=environment)
    if ended is None:
        return "does not end"
    status, printed = ended
    if status == 0:
        return None
    lines = printed.strip().splitlines()
    return lines[-1] if lines else f"status {status}"


def try_mutant(common, mutant):
    description, name, old, new = mutant
    text = (HERE.parent / name).read_text()
    if text.count(old) != 1:
        return False, f"FAILED  {description}: no longer fits {name}"
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        source = work / name
        source.write_text(text.replace(old, new))
        build(work, source)
        link(work / CORE, "-shared", NAMED, work / f"{source.stem}.o", *(common / f"{s[:-2]}.o" for s in SOURCES if s != name), *LIBRARIES)
        for test in sorted(TESTS, key=lambda t: t != OWN.get(name)):
            said = verdict(common, test, work)
            if said is not None:
                return True, f"ok      {description} ({test}: {said[:90]})"
    return False, f"FAILED  {description}: not caught"


def survive(common, mutant):
    """One that is known to: caught after all it is no survivor."""
    caught, line = try_mutant(common, mutant)
    if caught or not line.endswith(": not caught"):
        return False, f"FAILED  {mutant[0]}: is not to be listed as a survivor: {line}"
    return True, f"ok      {mutant[0]} (survives, as listed)"


def main(survivors=()):
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [m for m in [*MUTANTS, *survivors] if word in m[0]]
    if not chosen:
        raise SystemExit(f"maru: no mutant's description holds '{word}'")
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        common = pathlib.Path(folder)
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("MARU_JOBS", os.cpu_count() or 1))) as pool:
            sources = [HERE.parent / name for name in SOURCES] + [HERE / f"{name}.c" for name in [*HELPERS, *TESTS]]
            list(pool.map(lambda source: build(common, source), sources))
            link(common / CORE, "-shared", NAMED, *(common / f"{s[:-2]}.o" for s in SOURCES), *LIBRARIES)
            for test in TESTS:
                link(common / test, common / f"{test}.o", *(common / f"{h}.o" for h in HELPERS), common / CORE, *LIBRARIES)
            for test, said in pool.map(lambda t: (t, verdict(common, t, common, UNCHANGED)), TESTS):
                if said is not None:
                    raise SystemExit(f"maru: {test} fails without a mutant: {said}")
            for caught, line in pool.map(lambda m: (survive if m in survivors else try_mutant)(common, m), chosen):
                passed += caught
                print(line, flush=True)
    print(f"{passed} passed, {len(chosen) - passed} failed")
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
