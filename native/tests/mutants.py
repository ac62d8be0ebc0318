#!/usr/bin/env python3
"""Plants one fault after another in the board, the channel and the daemon; a test notices each.

usage: mutants.py NATIVE-FOLDER COMPILER [--all] [WORD...]

Without --all a third of those whose tests take no more than a second or so: the board, the channel,
the daemon's engine and what it does to threads.  With it all of them, and all parts of the daemon;
that needs root.
WORDs choose the faults whose names hold one of them.

A fault replaces one text that occurs exactly once in its file (a list that the code has outgrown is
an error, too).  Prints PASS and the test that noticed it, or FAIL; those of SURVIVORS may
go unnoticed, each for the reason that stands there.  Status 1 if the code as shipped fails, or if
another fault goes unnoticed.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

from own_group import outcome

LIBRARY = ["board/board.c", "board/channels.c", "channel/crew.c", "channel/log.c", "channel/stream.c", "channel/totals.c"]
LIBRARY += [f"base/{name}.c" for name in "numbers process shared task text topology".split()]
LIBRARY += [f"wait/{name}.c" for name in
            "asleep attach awake channel clock coop lowered measure named policy priority wait".split()]
DAEMON = [f"boost/{name}.c" for name in
          "maru-boost act admission boards clerk engine look options rescuer subject worker".split()]
DAEMON += ["base/arguments.c", "base/json.c"]
UNITS = {"boost/tests/engine.c": "boost/engine.c", "boost/tests/subject.c": "boost/subject.c"}
WRAPPED = ["-Wl,--wrap=mr_sched_set", "-Wl,--wrap=prlimit64"]
SECONDS = 60  # an ordinary run takes 16 at most, with the daemon
QUICK_SECONDS = 15  # 1 at most

BOARD_TESTS = ["board_sections", "board_lines", "board_hostile", "board_threads"]
CREW_TESTS = ["crew_claims", "channel_strays", "crew_threads", "crew_seats", "kill_every_instruction"]
DAEMON_TESTS = ["boost/places", "boost/attack", "boost/search", "boost/crowds", "boost/kills"]
# In what order the tests of a file are asked.
TESTS = {
    "board/board.c": BOARD_TESTS,
    "base/text.c": ["board_lines"],
    "base/shared.c": ["board_hostile"],
    "base/task.c": ["boost/subject"],
    "channel/log.c": ["log_records", "channel_strays", "log_release", "kill_every_instruction"],
    "channel/stream.c": ["stream_records"],
    "channel/crew.c": CREW_TESTS,
    "boost/engine.c": ["boost/engine"],
    "boost/subject.c": ["boost/subject"],
}

BOARD, TEXT, SHARED, TASK = "board/board.c", "base/text.c", "base/shared.c", "base/task.c"
LOG, STREAM, CREW = "channel/log.c", "channel/stream.c", "channel/crew.c"
ENGINE, SUBJECT, BOARDS, CLERK = "boost/engine.c", "boost/subject.c", "boost/boards.c", "boost/clerk.c"
ADMISSION, ACT, LOOK, WORKER = "boost/admission.c", "boost/act.c", "boost/look.c", "boost/worker.c"
RESCUER, OPTIONS = "boost/rescuer.c", "boost/options.c"

# name, file, text, what stands there instead
FAULTS = [
    # ---- board
    ("a board may shrink", BOARD, "seals >= 0 && (seals & F_SEAL_SHRINK) &&", "seals >= 0 &&"),
    ("a file is taken for a board by what it holds", SHARED,
     "if (!S_ISREG(seen.stx_mode) || makedev(seen.stx_dev_major, seen.stx_dev_minor) != device)", "if (0)"),
    ("a FIFO is opened", SHARED, "int fd = open(path, O_PATH | O_CLOEXEC);", "int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);"),
    ("a board is anybody's", BOARD, "int fd = status->st_uid == user ? open_memfd(found, status) : -EACCES;",
     "int fd = open_memfd(found, status);"),
    ("root opens every user's board", BOARD, "return maru_board_open_of(board, path, geteuid());",
     "struct stat s;\n  return stat(path, &s) < 0 ? -errno : maru_board_open_of(board, path, s.st_uid);"),
    ("a file may be shorter than a header", BOARD, " && (uint64_t)status->st_size >= sizeof(struct header))", ")"),
    ("the size may be another than the header's", BOARD, "return LOAD(header->size) == size ? 0 : -EPROTO;", "return 0;"),
    ("the layout's version is not looked at", BOARD, "LOAD(header->version) != MARU_BOARD_VERSION", "false"),
    ("there need be no magic", BOARD, "memory_order_acquire) != MAGIC)", "memory_order_acquire) != MAGIC && false)"),
    ("an owner is believed that has not begun then", BOARD, "mr_start_time(claim.pid) == claim.start_time &&", "true &&"),
    ("an owner may be another user", BOARD, "task.users[0] == board->user &&", "true &&"),
    ("an owner may be dead", BOARD, "poll(&end, 1, 0) == 0;", "true;"),
    ("a section may begin before the board's end and reach beyond", BOARD, " ||\n      size > board->size - offset)", ")"),
    ("a section may begin anywhere", BOARD, "offset < sizeof(struct header) || offset > board->size ||", "offset < sizeof(struct header) ||"),
    ("a section may lie on the header", BOARD, "offset < sizeof(struct header) || ", ""),
    ("a section need not be aligned", BOARD, "offset % ALIGNMENT != 0 || offset <", "offset <"),
    ("a name has no end", BOARD, " || section->name[MARU_BOARD_NAME_MAX] != '\\0'", ""),
    ("an entry is read before it is ready", BOARD, "memory_order_acquire) & READY))\n    return 0;", "memory_order_acquire) & READY) && LOAD(entry->key) == 0)\n    return 0;"),
    ("any version will do", BOARD, "section.version != version || ", ""),
    ("any size will do", BOARD, " || section.size < size)", ")"),
    ("who loses the race keeps its room", BOARD, "  rc = has_room(board, size, &used);\n", "  rc = allocate(board, size, &used);\n"),
    ("what has no room takes an entry", BOARD, "  rc = has_room(board, size, &used);\n", "  rc = 0, used = 0;\n"),
    ("room that is gone leaves its name unusable", BOARD, "maru_notify_store(&entry->ready, REFUSED);", "(void)entry;"),
    ("a refused entry is another's for ever", BOARD, "return again ? 0 : -EEXIST;", "return -EEXIST;"),
    ("room is given twice", BOARD, "*offset + ((size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)),", "*offset,"),
    ("room is not rounded up", BOARD, "*offset + ((size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)),", "*offset + size,"),
    ("the room's bound is not looked at", BOARD, "return size > board->size - *used ? -ENOSPC : 0;", "return 0;"),
    ("what is used may be a lie", BOARD, "  if (*used < sizeof(struct header) || *used % ALIGNMENT != 0 || *used > board->size)\n    return -EPROTO;\n", ""),
    ("two have one name", BOARD, "return has_name(entry, words) ? -EEXIST : 1;", "return 1;"),
    ("who comes while a section is added does not wait", BOARD, "      rc = await_added(board, key, deadline_ns);", "      rc = -ETIMEDOUT;"),
    ("who comes waits for ever", BOARD, "int64_t deadline_ns = maru_now_ns() + ADDED_NS;", "int64_t deadline_ns = MARU_WAIT_FOREVER;"),
    ("who waits is not woken when there is no room", BOARD, "maru_wait_while(&entry->ready, 0, READY | REFUSED, &policy,",
     "maru_wait_while(&entry->ready, 0, READY, &policy,"),
    ("all lines that are claimed are read", BOARD, "*first = *end > LINES ? *end - LINES : 0;", "*first = 0;"),
    ("a line is read that is not whole", BOARD, "  if (hash != hash_words(number, words, LINE_WORDS))", "  if (false)"),
    ("an overwritten line is read as another", BOARD, "  if (said - number > LINES)\n    return -ESTALE;\n", ""),
    ("what was not said is read", BOARD, "  if (number >= said)\n    return -ENOENT;\n", ""),
    ("a line's hash does not cover its number", BOARD, "hash_words(number, words, LINE_WORDS), memory_order_release", "hash_words(0, words, LINE_WORDS), memory_order_release"),
    ("a line goes as it is to a terminal", BOARD, "  mr_plain(text);", ""),
    # ---- text
    ("C1 goes to a terminal", TEXT, "{0x7f, 0x9f}", "{0x7f, 0x7f}"),
    ("C0 goes to a terminal", TEXT, "{0x00, 0x1f}", "{0x00, 0x07}"),
    ("text is turned around", TEXT, "{0x2028, 0x202e}", "{0x2028, 0x2029}"),
    ("text is isolated", TEXT, "{0x2060, 0x206f}", "{0x2060, 0x2064}"),
    ("marks of direction stay", TEXT, "{0x200b, 0x200f}", "{0x200b, 0x200d}"),
    ("tags stay", TEXT, "{0xe0000, 0xe007f}", "{0xe0000, 0xe0001}"),
    ("control characters may be written too long", TEXT, "*point < least[size] || ", ""),
    ("surrogates are characters", TEXT, " || surrogate ? 0", " ? 0"),
    ("there is no last character", TEXT, "*point > 0x10ffff || ", ""),
    ("a character may end anywhere", TEXT, "if ((at[i] & 0xc0) != 0x80)", "if (at[i] == 0)"),
    ("other languages are not text", TEXT, "point >= obeyed[i].first && point <= obeyed[i].last", "point >= 0x80 || point < 0x20"),
    # ---- task
    ("the saved user is not read", TASK, "found += read_numbers(at, task->users, 4) == 4;", "found += read_numbers(at, task->users, 4) == 4, task->users[2] = task->users[0];"),
    ("groups are not read", TASK, "task->group_count = 4 + read_numbers(at, task->groups + 4, MR_TASK_GROUPS - 4);", "task->group_count = 4;"),
    # ---- log
    ("a record may be longer than the log", LOG, "if (!(word & COMMITTED) || record_size(length) > log->capacity - log->next)", "if (!(word & COMMITTED))"),
    ("a record need not be committed", LOG, "if (!(word & COMMITTED) || ", "if ("),
    ("the log is read beyond its end", LOG, "  if (log->next >= log->capacity)\n    return 0;\n", ""),
    ("the next word is not cleared", LOG, "  if (end < log->capacity)\n    atomic_store_explicit(&record_at(log, end)->word, 0, memory_order_relaxed);\n", ""),
    ("a record is published before its index", LOG, "  record->index = index;\n", ""),
    ("more is reserved than there is room", LOG, "record_size(length) > log->capacity - last)", "length > log->capacity - last)"),
    ("a length may overflow", LOG, "length > CAPACITY_MAX || ", ""),
    ("a close hides the last record", LOG, "  *word = next_word(log);\n  return *word != 0 ? 1 : -EPIPE;", "  return -EPIPE;"),
    ("the end is never seen", LOG, "return *word != 0 ? 1 : -EPIPE;", "return *word != 0 ? 1 : 0;"),
    ("records are not told apart by kind", LOG, ".kind = word >> KIND_SHIFT & KIND_MAX", ".kind = 0"),
    ("a kind may be of any size", LOG, "  if (kind > KIND_MAX)\n    return -EINVAL;\n", ""),
    ("pages are never given back", LOG, "if (log->current - log->released < RELEASE_STEP)", "if (1)"),
    ("the page that is read is given back", LOG, "uint64_t keep = log->current & ~(mr_page_round(1) - 1);", "uint64_t keep = log->next & ~(mr_page_round(1) - 1);"),
    ("a log may have no room", LOG, "if (capacity == 0 || capacity > CAPACITY_MAX)", "if (capacity > CAPACITY_MAX)"),
    ("records are counted twice", LOG, "count + 1, memory_order_relaxed", "count + 2, memory_order_relaxed"),
    # ---- stream
    ("a length is believed", STREAM, "h->length <= LENGTH_MAX && h->kind", "h->kind"),
    ("a kind is believed", STREAM, "h->kind <= KIND_MAX && ", ""),
    ("what is reserved may be anything", STREAM, " && h->reserved == 0 ? 0", " ? 0"),
    ("a record of another length is taken", STREAM, "h.length != length || ", ""),
    ("a received header is not looked at", STREAM, " || check(&h) < 0)", ")"),
    ("half a record is one", STREAM, "  if (have < *wanted)\n    return 0;\n", "  if (have + 32 < *wanted)\n    return 0;\n"),
    ("what was read is read again", STREAM, "  r->start += *wanted;\n", ""),
    ("chunks are not padded", STREAM, "padded(length) - length}};", "(length % 2 ? padded(length) - length : 0)}};"),
    ("an end is no end", STREAM, "    if (r->closed)\n      return -EPIPE;\n", "    if (r->closed)\n      return 0;\n"),
    ("too much may be sent", STREAM, "return length <= LENGTH_MAX && kind <= KIND_MAX;", "return true;"),
    # ---- crew
    ("a slot is taken from an unfinished chunk", CREW, "  if (state != state_of(crew, FREE, ticket, 0))\n", "  if (false)\n"),
    ("an impossible slot is waited for", CREW, "return may_become_free(crew, state, ticket) ? -EAGAIN : -EBADMSG;", "return -EAGAIN;"),
    ("an unfinished chunk is impossible", CREW, "return may_become_free(crew, state, ticket) ? -EAGAIN : -EBADMSG;", "return -EBADMSG;"),
    ("what is offered is not remembered", CREW, "  crew->offered[ticket & (crew->slots - 1)] = (struct offer){first, count};\n", ""),
    ("a claim is what the slot says", CREW, "chunk = (struct maru_chunk){.ticket = ticket, .first = offer->first, .count = offer->count};",
     "chunk = (struct maru_chunk){.ticket = ticket, .first = slot_of(crew, ticket)->first, .count = slot_of(crew, ticket)->count};"),
    ("tickets that were never given are claims", CREW, " && *ticket < crew->tickets)", ")"),
    ("a claim of another round counts", CREW, "state == state_of(crew, TAKEN, *ticket, worker)", "(state & 0x3ffff) == (state_of(crew, TAKEN, *ticket, worker) & 0x3ffff)"),
    ("a worker looks as far as the pages say", CREW, "return next < least || next > end ? least : next;", "return next;"),
    ("chunks are claimed twice", CREW, "    bool mine = atomic_compare_exchange_strong_explicit(",
     "    bool mine = true;\n    atomic_compare_exchange_strong_explicit("),
    ("a chunk is never free again", CREW, "state_of(crew, FREE, ticket + crew->slots, 0), memory_order_release);", "state_of(crew, FREE, ticket, 0), memory_order_release);"),
    ("a dead worker's chunk stays", CREW, "  if (find_claim(crew, worker, &ticket))\n    free_slot(crew, ticket);", "  (void)ticket;"),
    ("a closed crew takes chunks", CREW, "    return -EPIPE;\n  uint64_t ticket", "    ;\n  uint64_t ticket"),
    ("nobody is told of a chunk", CREW, "    maru_notify(&crew->shared->work);\n    return;", "    return;"),
    ("seated workers are not rung", CREW, "    maru_notify(&seat_of(crew, i)->word);", "    ;"),
    ("a seated worker leaves no mark", CREW, "atomic_fetch_or_explicit(&crew->shared->work, SITTING, memory_order_acq_rel);", "atomic_load_explicit(&crew->shared->work, memory_order_acquire);"),
    ("the mark stays", CREW, "  atomic_fetch_and_explicit(&crew->shared->work, WORD_VALUE, memory_order_acq_rel);\n", "  return;\n"),
    ("a worker may hold two chunks", CREW, "  if (worker_of(crew, worker)->held != 0)\n    return -EBUSY;\n", ""),
    ("a worker is never done", CREW, "  self->held = 0; /* first: see struct worker */\n", ""),
    ("a chunk's end wakes nobody", CREW, "  if (runs_low(crew))\n    maru_crew_ring(crew);\n", ""),
    ("each chunk's end wakes the coordinator", CREW, "  if (runs_low(crew))\n    maru_crew_ring(crew);\n", "  maru_crew_ring(crew);\n"),
    ("any worker number will do", CREW, "  if (worker >= crew->workers)\n    return -EINVAL;\n", ""),
    ("seats go back from a child", CREW, "if (crew->seated == getpid()) {", "if (crew->seated) {"),
    ("seats never go back", CREW, "if (crew->seated == getpid()) {", "if (false) {"),
    ("a crew is seated twice", CREW, "  if (crew->seated)\n    return -EALREADY;\n", ""),
    ("a crew that has no seats keeps one", CREW, "    maru_channel_release(crew->own);\n    return rc;", "    return rc;"),
    ("unclaimed chunks are not counted", CREW, "return first < end ? (uint32_t)(end - first) : 0;", "return 0;"),
]

# As root, with the daemon: slower.
FAULTS += [
    # ---- engine
    ("a raise never ends", ENGINE, "  if (now_ns < line->raised_until_ns)\n    return 0;\n  line->rests", "  return 0;\n  line->rests"),
    ("a raise goes on when it has served", ENGINE, "  if (line->pending_since_ns == 0)\n    return end_raise(line);\n", ""),
    ("who was raised is raised again at once", ENGINE, "  line->rests_until_ns = now_ns + TICKS_RAISED * period_ns;\n", ""),
    ("there is no cap", ENGINE, "return (s->state->raised_ns[view->cpu] + time_ns) * 100 <= percent &&", "return"),
    ("one user has all", ENGINE, "         (s->state->user_ns[view->user] + time_ns) * 100 * s->users <= percent * s->rules->cpus;", "         true;"),
    ("a raise costs its CPU nothing", ENGINE, "  s->state->raised_ns[view->cpu] += time_ns;\n", ""),
    ("a raise costs its user nothing", ENGINE, "  s->state->user_ns[view->user] += time_ns;\n", ""),
    ("many are raised on one CPU", ENGINE, "!may_raise(s, view) || s->busy[view->cpu] || ", "!may_raise(s, view) || "),
    ("one that moves takes its raise along", ENGINE, "if (s->busy[view->cpu] || (moved && !within_cap(s, view, left)))", "if (false)"),
    ("a move costs nothing", ENGINE, "    else if (moved)\n      charge(s, view, left);\n", ""),
    ("anybody is raised", ENGINE, "return view->known && view->seated && line", "return view->seated && line"),
    ("one whose CPU is not known is raised", ENGINE, "return view->known && view->seated && line", "return view->known && line"),
    ("what has just come is stuck", ENGINE, "s->rules->at_once ? 0 : s->period_ns", "0"),
    ("the first is always the first", ENGINE, "    s->state->next = view->number + 1;\n", ""),
    ("nobody is raised gently", ENGINE, "  if (rules->gently && rules->cap_percent > 0)\n    raise_gently(&s);\n", ""),
    ("a gentle raise ends with its message", ENGINE, "  if (pending_for(line, now_ns, period_ns))\n    line->raised_until_ns = now_ns + GENTLE_NS;\n", ""),
    ("the time slot goes to one user", ENGINE, "uint32_t user = (state->slot_user + k) % BOOST_USERS;", "uint32_t user = (uint32_t)__builtin_ctz(wants);"),
    ("a user's jobs have no turns", ENGINE, "if (job > least && (above == 0 || job < above))", "if (false)"),
    ("a job keeps its raise beyond its slot", ENGINE, "(!on || s->now_ns >= line->raised_until_ns)", "false"),
    ("nobody is woken", ENGINE, "      actions[i] |= BOOST_WAKE;", "      ;"),
    ("the lowered are restored though nobody was checked", ENGINE, "views[i].lowered && views[i].known && rules->restores", "views[i].lowered && rules->restores"),
    ("time is never forgotten", ENGINE, "  memset(state->user_ns, 0, sizeof state->user_ns);\n", ""),
    ("the period does not get shorter", ENGINE, "next = period_ns / 2;", "next = period_ns;"),
    ("the period gets as short as it likes", ENGINE, "next < BOOST_SHORTEST_NS  ? BOOST_SHORTEST_NS\n         : next", "next"),
    ("searches take what they like", ENGINE, "(FIND_PARTS - 1) * took_ns", "took_ns"),
    ("a quiet time makes it late", ENGINE, "part = part < BOOST_LONGEST_NS ? part : BOOST_LONGEST_NS;\n", ""),
    # ---- subject
    ("the real user alone counts", SUBJECT, "for (size_t i = 0; i < sizeof task->users / sizeof *task->users; i++)", "for (size_t i = 0; i < 1; i++)"),
    ("the saved user does not count", SUBJECT, "if (task->users[i] != owner)", "if (i != 2 && task->users[i] != owner)"),
    ("the effective user does not count", SUBJECT, "if (task->users[i] != owner)", "if (i != 1 && i != 3 && task->users[i] != owner)"),
    ("who is not named is served", SUBJECT, "  return false;\n}\n\n/* One line of maps", "  return true;\n}\n\n/* One line of maps"),
    ("a group brings another user's board", SUBJECT, " && task->users[0] == owner; i++)", "; i++)"),
    ("the board need not be mapped", SUBJECT, "  rc = has_mapped(subject->tgid, board);\n  if (rc == 0)\n", ""),
    ("a number may be another thread's", SUBJECT, "  if (mr_start_time(subject->tid) != subject->start)\n    return -ESRCH;\n  rc = has", "  rc = has"),
    ("nice 19 is lifted without a limit", SUBJECT, "         limit.rlim_cur >= (rlim_t)(20 - normal->nice);", "         true;"),
    ("a capability of another namespace counts", SUBJECT, "1 && same_user_namespace(subject->tgid);", "1;"),
    ("children escape their nice", SUBJECT, "return !below || may_come_back(subject, &child);", "return true;"),
    ("children escape SCHED_IDLE", SUBJECT, "normal->policy == SCHED_IDLE || (", "("),
    ("nobody is raised above nice 0's children", SUBJECT, "return !below || may_come_back(subject, &child);", "return !below;"),
    ("a quota is passed", SUBJECT, "if (how == BOOST_BY_FIFO && subject->has_quota)", "if (false)"),
    ("an administrator's nice 19 is undone by a raise", SUBJECT, "  else if (!may_come_back(subject, &subject->normal))\n    return -ENOTSUP;\n", ""),
    ("another user's process is raised", SUBJECT, "return status.st_uid == subject->owner ? 0 : -EPERM;", "return 0;"),
    ("there is no second look", SUBJECT, "  if (rc == 0 && lives(subject) < 0) {", "  if (false) {"),
    ("the second look undoes nothing", SUBJECT, "    (void)put(subject->tid, &found);\n", ""),
    ("the mark stays when the deed fails", SUBJECT, "  if (rc < 0)\n    atomic_store_explicit(&subject->touched, 0, memory_order_relaxed);\n", ""),
    ("one is raised twice", SUBJECT, "  if (atomic_load_explicit(&subject->touched, memory_order_relaxed))\n    return -EBUSY;\n  rc = may", "  rc = may"),
    ("somebody's raise is a place of its own", SUBJECT, "return looks_raised(sched) ? -EBUSY : is", "return is"),
    ("a lowered place is a place of its own", SUBJECT, ": is_lowered(sched) ? -EAGAIN : 0;", ": 0;"),
    ("gently from anywhere", SUBJECT, "  if (how == BOOST_GENTLY && !can_go_gently(&subject->normal))\n    return false;\n", ""),
    ("an administrator's policy is undone", SUBJECT, "  if (!mr_sched_equal(now, &up)) {", "  if (false) {"),
    ("reset-on-fork stays", SUBJECT, "    back.on_fork = subject->normal.on_fork;\n", ""),
    ("an administrator's nice under FIFO is undone", SUBJECT, "    back.nice = nice;\n", "    ;\n"),
    ("SCHED_IDLE keeps our nice", SUBJECT, "    (void)setpriority(PRIO_PROCESS, (id_t)subject->tid, subject->found_nice);\n", "    ;\n"),
    ("the rescuer lifts nice 19", SUBJECT, "is_lowered(&now) && may_come_back(&copy, &copy.normal);", "is_lowered(&now);"),
    ("the rescuer forgets the raised", SUBJECT, "  else if (rc == 0 && touched)\n    rc = put_down(&copy, &now);\n", ""),
    ("what was left is put where it claims", SUBJECT, "    if (mr_sched_equal(&up, &now))\n", ""),
    ("what was left goes up", SUBJECT, "claimed->nice > 0 ? claimed->nice : 0;", "claimed->nice;"),
    ("children are raised", SUBJECT, "struct mr_sched up = {.policy = normal->policy, .on_fork = 1};", "struct mr_sched up = {.policy = normal->policy};"),
    ("above the daemon", SUBJECT, "#define HIGHEST_RAISED 80", "#define HIGHEST_RAISED 99"),
    # ---- the rest of the daemon
    ("a board of any size is mapped", BOARDS, "(uint64_t)status->st_size > BOOST_BOARD_BYTES ? -EFBIG", "false ? -EFBIG"),
    ("two daemons look after a board", BOARDS, "  return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;", "  return 0;"),
    ("a board goes with its raises on", BOARDS, "  if (boost_board_settle(old) > 0)\n    return NULL;\n", ""),
    ("looks are charged to who owns /proc", CLERK, "account_of(clerk, charged(clerk, pid, holder.task.users[0]));",
     "account_of(clerk, fstat(dirfd(dir), &(struct stat){0}) == 0 && holder.task.users[0] != 0 && access(folder, R_OK) == 0 && ({ struct stat s; fstat(dirfd(dir), &s); s.st_uid == 0; }) ? 0 : charged(clerk, pid, holder.task.users[0]));"),
    ("looks are charged to each number", CLERK, "charged(clerk, pid, holder.task.users[0])", "holder.task.users[0]"),
    ("a user looks as long as he likes", CLERK, "*looked < LOOKS_A_USER && ", ""),
    ("who has no account is not looked at", CLERK, "  if (looked == NULL)\n    looked = &uncharged;\n", "  if (looked == NULL) {\n    closedir(dir);\n    return;\n  }\n"),
    ("a user has as many boards as he likes", CLERK, " && (geteuid() != 0 || known_of(clerk, user) < BOOST_BOARDS_A_USER)", ""),
    ("boards of others than named are opened", CLERK, " ||\n      !boost_serves(&clerk->served, &holder->task, status->st_uid))", ")"),
    ("a board is kept for ever", ADMISSION, "if (one->unseen < 2 || has_living(one))", "if (true)"),
    ("a thread that has gone stays", ADMISSION, "  if (!same && subject->tid != 0 && !admission_forget(one, i))\n    return false;\n", ""),
    ("what a dead daemon left stays", ADMISSION, "  if (ask->rc == -EBUSY)\n    put_back", "  if (false)\n    put_back"),
    ("one that cannot be raised is tried at each tick", ACT, "      one->lines[i].rests_until_ns = now_ns + REFUSED_NS;", "      ;"),
    ("an end that failed is not tried again", ACT, "    if (one->lines[i].raised_until_ns == 0 && boost_end_line(one, i) < 0)", "    if (false)"),
    ("the mark on the line stays", ACT, "    atomic_store_explicit(&one->table->channels[i].boosted, 0, memory_order_release);\n  return rc;", "    ;\n  return rc;"),
    ("lines count as the board says", LOOK, "  count = count < MARU_WAIT_CHANNELS ? count : MARU_WAIT_CHANNELS;\n", ""),
    ("a line that is denied is forgotten", LOOK, "one->used = count > one->used ? count : one->used;", "one->used = count;"),
    ("a line says where its thread is", LOOK, "  int cpu = boost_cpu(one->subjects[i].tid);", "  int cpu = (int)LOAD(one->table->channels[i].cpu);"),
    ("an ended daemon leaves its raises", WORKER, "  unsigned failed = boost_board_settle(one);", "  unsigned failed = 0;"),
    ("there is no sign of life", ACT, "  atomic_store_explicit(&one->table->heartbeat_ns, now_ns, memory_order_relaxed);\n", ""),
    ("the rescuer leaves everybody raised", RESCUER, "    if (self->boards.subjects[i].tid != 0)", "    if (false)"),
    ("a stopped worker is waited for", RESCUER, "return watch->looks > watch->looks_most || ", "return "),
    ("root raises by FIFO unasked", OPTIONS, "    self->how = BOOST_GENTLY;\n", ""),
    ("root's pb needs no word", OPTIONS, "    if (by_turns)\n      return refuse(\"as root", "    if (false)\n      return refuse(\"as root"),
    ("an ordinary user names others", OPTIONS, "geteuid() != 0 && self->served.user_count", "false && self->served.user_count"),
]

# Those that are noticed because a test does not end.
HANGING = ["who comes waits for ever", "a received header is not looked at", "a worker looks as far as the pages say"]

# Faults that no test is sure to notice, and why.
SURVIVORS = {
    "an owner may be dead": "a dead one has no start; only a number that is used again between two looks shows it",
    "room that is gone leaves its name unusable": "the room must go between two steps of another adder",
    "two have one name": "maru_board_find has looked before; only adders at the same instant show it",
    "an overwritten line is read as another": "its hash, which covers the number, says the same",
    "a close hides the last record": "the record must come between two looks of the consumer",
    "a board goes with its raises on": "the kernel must refuse the end of a raise just then",
    "boards of others than named are opened": "their threads are refused all the same; room alone is lost",
    "one that cannot be raised is tried at each tick": "it costs the daemon some time, nothing else",
    "an end that failed is not tried again": "the kernel must refuse the end of a raise just then",
    "root's pb needs no word": "what is left of the choice refuses it, in other words (55-boost knows them)",
    "one is raised twice": "what is raised looks raised, which is refused, too",
}


class Bench:
    def __init__(self, native, compiler, work):
        self.native, self.compiler, self.work = native, compiler, work
        self.flags = ["-std=gnu11", "-O1", "-w", "-fPIC", "-D_FILE_OFFSET_BITS=64"]
        self.flags += [f"-I{native / folder}" for folder in ("include", "base", "wait", "tests", "boost")]

    def command(self, *words):
        subprocess.run([str(word) for word in words], check=True)

    def compile(self, name, out, text=None):
        source = self.native / name
        words = [self.compiler, *self.flags, f"-I{source.parent}", "-c", "-o", out, "-x", "c", "-" if text else source]
        subprocess.run([str(word) for word in words], check=True, input=text and text.encode())
        return out

    def prepare(self, tests):
        """All as shipped: objects, library, daemon, tests."""
        self.objects = {}
        for name in LIBRARY + DAEMON:
            self.objects[name] = self.compile(name, self.work / (name.replace("/", "-") + ".o"))
        self.build(self.work, self.objects)
        for test in tests:
            source = f"boost/tests/{test[6:]}.c" if test.startswith("boost/") else f"tests/{test}.c"
            self.objects[source] = self.compile(source, self.work / (source.replace("/", "-") + ".o"))
            self.link_test(test, self.work, self.objects)

    def build(self, folder, objects):
        self.command(self.compiler, "-shared", "-Wl,-soname,libroom.so", "-o", folder / "libroom.so",
                     *(objects[name] for name in LIBRARY), "-lpthread")
        self.command(self.compiler, "-o", folder / "maru-boost", *(objects[name] for name in DAEMON),
                     f"-L{folder}", "-lroom", "-lpthread")

    def link_test(self, test, folder, objects):
        source = f"boost/tests/{test[6:]}.c" if test.startswith("boost/") else f"tests/{test}.c"
        unit = [objects[UNITS[source]]] if source in UNITS else []
        self.command(self.compiler, "-o", folder / test.replace("/", "-"), objects[source], *unit,
                     *(WRAPPED if test == "boost/subject" else []), f"-L{self.work}", "-lroom", "-lpthread")

    def run(self, test, folder):
        """None: it passes; else how it ends."""
        own = folder / test.replace("/", "-")
        program = own if own.exists() else self.work / test.replace("/", "-")
        arguments = [folder / "maru-boost"] if test in DAEMON_TESTS else []
        environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "MARU_TEST_ROUNDS": "300", "MARU_TEST_KILLS": "8"}
        ended = outcome([program, *arguments], SECONDS if test in DAEMON_TESTS else QUICK_SECONDS, env=environment)
        if ended is None:
            return "does not end"
        status, _ = ended
        if status in (0, 77):
            return None
        return f"ends by signal {-status}" if status < 0 else "fails"

    def plant(self, fault, number):
        """Which test noticed it, and how; None."""
        name, file, old, new = fault
        text = (self.native / file).read_text()
        if text.count(old) != 1:
            return f"LIST {file} holds {text.count(old)} times: {old!r}"
        folder = self.work / f"mutant-{number}"
        folder.mkdir()
        try:
            objects = {**self.objects, file: self.compile(file, folder / "mutant.o", text.replace(old, new))}
        except subprocess.CalledProcessError:
            return "LIST it does not compile"
        self.build(folder, objects)
        for test in tests_of(file):
            source = f"boost/tests/{test[6:]}.c"
            if UNITS.get(source) == file:
                self.link_test(test, folder, objects)
            how = self.run(test, folder)
            if how is not None:
                return f"{test} {how}"
        return None


def tests_of(file):
    return TESTS.get(file, DAEMON_TESTS)


def judge(fault, noticed):
    """Whether all is as it should be, and the line that says it."""
    name, reason = fault[0], SURVIVORS.get(fault[0])
    if noticed is not None and noticed.startswith("LIST "):
        return False, f"FAIL  {name}: {noticed[5:]}"
    if noticed is None and reason is not None:
        return True, f"PASS  {name}: not noticed: {reason}"
    return noticed is not None, f"{'PASS' if noticed else 'FAIL'}  {name}: {noticed or 'no test notices it'}"


def main():
    native, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    words = [word for word in sys.argv[3:] if word != "--all"]
    everything = "--all" in sys.argv
    if os.getuid() != 0 and everything:
        sys.exit("maru: mutants.py: --all needs root")
    chosen = [fault for n, fault in enumerate(FAULTS)
              if (everything or words or (fault[1] in TESTS and n % 3 == 0 and fault[0] not in HANGING)) and (os.getuid() == 0 or "boost/subject" not in tests_of(fault[1]))
              and (not words or any(word in fault[0] for word in words))]
    tests = sorted({test for fault in chosen for test in tests_of(fault[1])})
    jobs = int(os.environ.get("MARU_JOBS", os.cpu_count() or 1))
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # other users run the daemon there
        bench = Bench(native, compiler, pathlib.Path(folder))
        bench.prepare(tests)
        for test in tests:
            how = bench.run(test, bench.work)
            if how is not None:
                sys.exit(f"maru: mutants.py: the code as shipped fails: {test} {how}")
        # Tests of the daemon have the machine's real-time priority to themselves.
        quick = [n for n, fault in enumerate(chosen) if fault[1] in TESTS]
        slow = [n for n, fault in enumerate(chosen) if fault[1] not in TESTS]
        verdicts = {}
        for numbers, at_once in ((quick, jobs), (slow, 1)):
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                for n, noticed in zip(numbers, pool.map(lambda n: bench.plant(chosen[n], n), numbers)):
                    verdicts[n], line = judge(chosen[n], noticed)
                    print(line, flush=True)
    failed = sum(not good for good in verdicts.values())
    survived = sum(fault[0] in SURVIVORS for fault in chosen)
    print(f"{len(chosen) - failed - survived} of {len(chosen)} faults noticed, {survived} known to survive")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return failed > 0 or not chosen


if __name__ == "__main__":
    sys.exit(main())
