/* io.h: the parts of libmaru-io.so, and what each may assume (internal).
 *
 * From the top; each calls only those below it, and 57-io holds them to that:
 *
 *   start.c         configuration, a thread's end, fork
 *   leave.c         the symbols by which a program leaves a request behind or restricts itself
 *   calls.c, descriptors.c   the symbols that read and write, and that make and close descriptors
 *   delegate.c      which calls contexts make, and what becomes of the answers
 *   hint.c          reads ahead of sequential streams
 *   serve.c         what contexts do: calls, one after another, or as one
 *   files.c         what a descriptor is, remembered until somebody closes it
 *   slots.c         a thread's request on its way to a context and back
 *   contexts.c      the threads that make calls for others: starting, ending
 *   counters.c      lines on the board
 *   process.c       the process and its threads, system calls, the log
 *
 * Everything on the path of a call is async-signal-safe, allocates nothing and leaves errno
 * as the call left it.  A call is made directly whenever anything is not as expected.
 */
#ifndef MARU_PRELOAD_IO_H
#define MARU_PRELOAD_IO_H

#include <maru/io.h>
#include <maru/wait.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IO_COUNT_MOST 0x7ffff000u /* what the kernel moves at once */
#define EXPORT __attribute__((visibility("default")))

/* ---- process.c ----------------------------------------------------------- */

struct io_process {
  enum maru_io_mode mode;
  _Atomic bool direct;    /* somebody restricted itself: nothing is delegated any more */
  _Atomic bool sealed;    /* its system calls are filtered: we make none of our own any more */
  _Atomic uint32_t epoch; /* steps when threads may have changed how they are scheduled */
  pid_t pid;              /* a child of vfork, or of a fork that we did not see, has another */
  pthread_t first;        /* its first thread */
};
extern struct io_process io_process;

/* A filter may kill whoever makes a call that the program does not make itself. */
static inline bool io_is_sealed(void) {
  /* Relaxed: the thread that is filtered has set it. */
  return atomic_load_explicit(&io_process.sealed, memory_order_relaxed);
}

/* One a thread. */
struct io_self {
  struct maru_io_line *line;
  int16_t slot;             /* + 1; 0: none yet; -1: never */
  int cancel;               /* its cancel state before its request; -1: not changed yet */
  struct io_answer *answer; /* where that of its request is wanted (slots.c) */
  bool gone;                /* its destructor ran */
  bool real_time;
  uint32_t epoch;
};
extern __thread struct io_self io_self __attribute__((tls_model("initial-exec")));

/* The next library's symbol of that name. Ends the program where there is none (a libc without a
 * symbol that is called through us does not exist). */
void *io_next_symbol(const char *name);

/* For good, with the reason on the board. */
void io_go_direct(const char *why);
/* Before its system calls are filtered. */
void io_seal(void);
void io_say(const char *text);
bool io_same_process(void);
/* Called with the first line or slot of a thread, and for a process's first thread. */
void io_thread_begins(void);
/* What is called when such a thread ends.  False: there are too many keys. */
bool io_hear_threads(void (*ends)(void *));
/* Opens the run's board; its section, or NULL. */
struct maru_io_section *io_section_open(void);
/* The real syscall(2) of libc: -errno instead of errno, which it leaves alone. */
long io_raw(long number, long a, long b, long c, long d, long e, long f);

/* ---- counters.c ---------------------------------------------------------- */

/* `section` NULL: counts where nobody looks. */
void io_counters_open(struct maru_io_section *section);
struct maru_io_section *io_section(void);
/* The thread's line, taken at the first call. */
struct maru_io_line *io_line_take(void);
void io_line_leave(void);

static inline struct maru_io_line *io_line(void) {
  struct maru_io_line *line = io_self.line;
  return line != NULL ? line : io_line_take();
}

void io_add_shared(_Atomic uint64_t *counter, uint64_t more);
extern struct maru_io_line *io_shared_line;

/* Relaxed: one writer, and readers want no order.  A handler that interrupts between load and
 * store may lose its own counts: a statistic, not worth a locked instruction. */
static inline void io_add(struct maru_io_line *line, _Atomic uint64_t *counter, uint64_t more) {
  if (__builtin_expect(line == io_shared_line, 0)) {
    io_add_shared(counter, more);
    return;
  }
  uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
  atomic_store_explicit(counter, now + more, memory_order_relaxed);
}

/* ---- files.c ------------------------------------------------------------- */

#define IO_FDS 65536

/* What is known of a descriptor, packed: generation << 8 | uses << 4 | kind; uses are counted while
 * the kind is not known.  LOOKING: somebody looks, or has found nothing there. */
enum io_kind { IO_UNKNOWN = 0, IO_LOOKING, IO_REGULAR, IO_STREAM, IO_DATAGRAM, IO_OTHER };
static inline enum io_kind io_kind_of(uint32_t entry) { return (enum io_kind)(entry & 0xf); }

extern _Atomic uint32_t io_files[IO_FDS];

uint32_t io_file_look(int fd);
/* Looked up when it was used a few times since it was forgotten (files.c).  0: nothing is known. */
static inline uint32_t io_file(int fd) {
  if ((unsigned)fd >= IO_FDS)
    return 0;
  /* Acquire: with the entry comes the state of its stream. */
  uint32_t entry = atomic_load_explicit(&io_files[fd], memory_order_acquire);
  return io_kind_of(entry) > IO_LOOKING ? entry : io_file_look(fd);
}
/* The number will stand for something else: waits for requests in flight. */
void io_forget(int fd);
void io_forget_from(unsigned first, unsigned last);
/* In a forked child: what is remembered may be half replaced by a thread that is not here. */
void io_files_fork(void);

/* ---- calls.c ------------------------------------------------------------- */

/* The next library's, for all calls. */
void io_find_symbols(void);

/* ---- contexts.c ---------------------------------------------------------- */

enum io_context_class { IO_FILE_CONTEXT = 0, IO_NET_CONTEXT, IO_HINT_CONTEXT, IO_CONTEXT_CLASSES };

struct context;
/* What the contexts of each class do when somebody rings; false: there was nothing to do. */
void io_contexts_open(bool (*calls)(struct context *), bool (*hints)(struct context *));
/* Sets address space aside for the stacks that the mode needs.  Once in a process, and in a child
 * of _Fork, where libc still lists the parent's threads on theirs.  Where there is none, contexts
 * have stacks that libc maps. */
void io_contexts_reserve(void);
/* Starts those of calls, where the caller may allocate: its threads may block signals and start
 * none. */
void io_contexts_start(void);
/* Has the context of that class, on whatever node, look for work; starts it if need be. */
void io_context_ring(enum io_context_class class);
/* Binds the calling context to the node's CPUs. */
void io_settle_on_node(unsigned node);
/* Ends and joins them; they start again on demand. */
void io_contexts_retire(void);
void io_contexts_forget(void); /* in a forked child */
/* The process's first thread leaves, and not the process. */
void io_contexts_outlive(void);

/* ---- slots.c ------------------------------------------------------------- */

struct io_request {
  long number; /* of the system call */
  long arguments[6];
  int fd;
  uint32_t entry; /* what `fd` was when it was decided to delegate */
};

/* True: *result is what the call returned, or -errno; a signal that it caused was raised in
 * this thread.  False: it was not made. */
bool io_delegate(enum io_context_class class, const struct io_request *request, long *result);
/* Whether the thread may delegate now: not in a handler over a request of its own, not real-time.
 */
bool io_may_delegate(void);
/* Until no context makes a call on these descriptors. */
void io_wait_for_requests(unsigned first, unsigned last);
/* Ends the request over which a handler interrupted its thread. It is done or taken back, and
 * its answer is with the call, should that go on. Before whatever may leave the handler. */
void io_settle(void);
void io_slot_leave(void);
void io_slots_forget(void); /* in a forked child */

/* ---- serve.c ------------------------------------------------------------- */

/* Makes the calls that wait for the context; false: there were none. */
bool io_serve(struct context *context);

/* ---- hint.c -------------------------------------------------------------- */

/* After a read of `bytes` bytes at `offset` (-1: the file's own position). */
void io_hint_read(int fd, uint32_t entry, int64_t offset, size_t bytes);
void io_hint_fork(void);
/* What the helper does; false: there was nothing to do. */
bool io_hint_work(struct context *helper);

#endif
