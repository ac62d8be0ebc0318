/* Over 500 lines: what a signal handler finds of areas and of actions is one static object, and all
 * that touches it stands here. */
#define _GNU_SOURCE
#include "access.h"

#include "diff.h"
#include "shared.h"
#include "sparse.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Newer than the headers of Debian 12. */
#ifndef UFFDIO_CONTINUE_MODE_WP
#define UFFDIO_CONTINUE_MODE_WP ((__u64)1 << 1)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define FEATURES                                                                                   \
  (UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_PAGEFAULT_FLAG_WP |               \
   UFFD_FEATURE_WP_HUGETLBFS_SHMEM)
#define MODES (UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP)

#define SIGNALS 65
/* Blocked while a handler of the program's for a fault runs.  It is of libc's own (32, SIGCANCEL):
 * libc lets no program block it, and takes it out of every mask that is set. */
#define MARK (UINT64_C(1) << 31)

struct mr_area {
  enum mr_access_way way;
  bool open;  /* all is allowed, but for pages that are guarded; `allowed` is not there, or old */
  bool *here; /* a page: true, but in a child, where the kernel wipes it */
  uint32_t pages;
  uint8_t *program;
  uint8_t *runtime;
  /* Pages from `window_first` on are seen at `window` instead; none: window_first is `pages`. */
  uint8_t *window;
  uint32_t window_first;
  int fd, uffd;
  mr_fault *fault;
  void *context;
  /* enum mr_access, by page.  The kernel may take a page's mapping away at any time; but
   * what is MR_NONE here has none. */
  uint8_t allowed[];
};

/* A signal handler finds what it needs only here. */
static struct {
  pthread_mutex_t changing;
  struct mr_area *_Atomic areas[MR_AREAS_MAX];
  bool handles[MR_ACCESS_WAYS];
  struct sigaction before[MR_ACCESS_WAYS];
  bool takes; /* mr_access_sigaction was called */
  int code;   /* mr_access_code */
  struct {
    bool stack, bus, segv;
  } altered[SIGNALS]; /* what the kernel has otherwise than the program said */
} all = {.changing = PTHREAD_MUTEX_INITIALIZER};

static size_t bytes_of(const struct mr_area *area) { return (size_t)area->pages * MR_PAGE; }

static size_t window_bytes(const struct mr_area *area) {
  return (size_t)(area->pages - area->window_first) * MR_PAGE;
}

/* Where the program sees the page. */
static uint8_t *seen_at(const struct mr_area *area, uint32_t page) {
  return page < area->window_first ? area->program + (size_t)page * MR_PAGE
                                   : area->window + (size_t)(page - area->window_first) * MR_PAGE;
}

/* The page that the program sees there; `pages`: none. */
static uint32_t page_at(const struct mr_area *area, const uint8_t *address) {
  /* As numbers: the address may belong to no object of ours. */
  size_t from_start = (uintptr_t)address - (uintptr_t)area->program,
         from_window = (uintptr_t)address - (uintptr_t)area->window;
  if (from_start < (size_t)area->window_first * MR_PAGE)
    return (uint32_t)(from_start / MR_PAGE);
  if (from_window < window_bytes(area))
    return area->window_first + (uint32_t)(from_window / MR_PAGE);
  return area->pages;
}

uint8_t *mr_area_program(const struct mr_area *area) { return area->program; }
uint8_t *mr_area_runtime(const struct mr_area *area) { return area->runtime; }
int mr_area_descriptor(const struct mr_area *area) { return area->fd; }

const char *mr_access_way_name(enum mr_access_way way) {
  return way == MR_BY_USERFAULTFD ? "userfaultfd" : "mprotect";
}

/* ---- userfaultfd ------------------------------------------------------------- */

static int open_uffd(void) {
  long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  if (fd < 0)
    /* Older than that flag. */
    return errno == EINVAL ? -EOPNOTSUPP : -errno;
  struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
  if (ioctl((int)fd, UFFDIO_API, &api) < 0) {
    close((int)fd);
    return -EOPNOTSUPP;
  }
  return (int)fd;
}

static int protect_writes(struct mr_area *area, uint8_t *at, size_t size, bool on) {
  struct uffdio_writeprotect range = {.range = {(uintptr_t)at, size},
                                      .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};
  while (ioctl(area->uffd, UFFDIO_WRITEPROTECT, &range) < 0)
    if (errno != EAGAIN) /* the address space was changing */
      return -errno;
  return 0;
}

/* Gives the pages of the memfd a place in the program's view.  The kernel stops
 * where a page was never written or is mapped already; `mapped` says how far it came. */
static int map_pages(struct mr_area *area, uint8_t *at, size_t size, bool writable,
                     size_t *mapped) {
  struct uffdio_continue range = {.range = {(uintptr_t)at, size},
                                  .mode = writable ? 0 : UFFDIO_CONTINUE_MODE_WP};
  int rc = ioctl(area->uffd, UFFDIO_CONTINUE, &range) < 0 ? -errno : 0;
  *mapped = rc == 0 ? size : range.mapped > 0 ? (size_t)range.mapped : 0;
  return rc;
}

/* Page by page where some are mapped already. */
static int admit(struct mr_area *area, uint8_t *at, size_t size, bool writable) {
  for (size_t mapped; size > 0; at += mapped, size -= mapped) {
    int rc = map_pages(area, at, size, writable, &mapped);
    if (rc == 0 || mapped > 0)
      continue;
    if (rc == -EFAULT) {
      /* Never written: reading the runtime's view makes the memfd have it. */
      (void)*(volatile uint8_t *)(area->runtime + (size_t)page_at(area, at) * MR_PAGE);
      rc = map_pages(area, at, MR_PAGE, writable, &mapped);
    }
    if (rc == -EEXIST) {
      rc = protect_writes(area, at, MR_PAGE, !writable);
      mapped = MR_PAGE;
    }
    if (rc == -EAGAIN)
      continue; /* the address space was changing; nothing is mapped yet */
    if (rc < 0)
      return rc;
  }
  return 0;
}

static int allow_by_uffd(struct mr_area *area, uint8_t *at, size_t size, enum mr_access from,
                         enum mr_access to) {
  if (to == MR_NONE)
    return madvise(at, size, MADV_DONTNEED) < 0 ? -errno : 0;
  /* Where nothing seems to change, the mapping is gone: reclaimed, or dropped by madvise. */
  if (from == MR_NONE || from == to)
    return admit(area, at, size, to == MR_READ_WRITE);
  return protect_writes(area, at, size, to == MR_READ);
}

static int watch_range(struct mr_area *area, uint8_t *at, size_t size) {
  struct uffdio_register range = {.range = {(uintptr_t)at, size}, .mode = MODES};
  return ioctl(area->uffd, UFFDIO_REGISTER, &range) < 0 ? -EOPNOTSUPP : 0;
}

static int watch(struct mr_area *area) {
  area->uffd = open_uffd();
  if (area->uffd < 0)
    return area->uffd;
  int rc = watch_range(area, area->program, bytes_of(area));
  if (rc < 0)
    return rc;
  /* No feature tells whether a page can be mapped without write access (Linux 6.4). */
  rc = admit(area, area->program, MR_PAGE, false);
  if (rc == 0)
    rc = allow_by_uffd(area, area->program, MR_PAGE, MR_READ, MR_NONE);
  return rc == -EINVAL ? -EOPNOTSUPP : rc;
}

/* ---- either way ---------------------------------------------------------------- */

int mr_access_code(void) {
  const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);
  for (unsigned long left = getauxval(AT_PHNUM); header != NULL && left > 0; left--, header++)
    if (header->p_type == PT_GNU_STACK)
      return header->p_flags & PF_X ? PROT_EXEC : 0;
  return 0;
}

static int allow_by_mprotect(uint8_t *at, size_t size, enum mr_access to) {
  const int rights[] = {PROT_NONE, PROT_READ | all.code, PROT_READ | PROT_WRITE | all.code};
  return mprotect(at, size, rights[to]) < 0 ? -errno : 0;
}

static int allow_run(struct mr_area *area, uint32_t first, uint32_t count, enum mr_access from,
                     enum mr_access to) {
  uint8_t *at = seen_at(area, first);
  size_t size = (size_t)count * MR_PAGE;
  if (from == MR_NONE && to == MR_NONE)
    return 0;
  /* Before it is done: an error may come after some pages have been mapped. */
  if (to != MR_NONE)
    memset(area->allowed + first, to, count);
  int rc = area->way == MR_BY_USERFAULTFD ? allow_by_uffd(area, at, size, from, to)
                                          : allow_by_mprotect(at, size, to);
  if (rc == 0)
    memset(area->allowed + first, to, count);
  return rc;
}

int mr_area_allow(struct mr_area *area, uint32_t first, uint32_t count, enum mr_access access) {
  if (first > area->pages || count > area->pages - first || access > MR_READ_WRITE)
    return -EINVAL;
  if (area->fault == NULL || area->open)
    return 0;
  for (uint32_t end = first + count, run; first < end; first += run) {
    enum mr_access from = (enum mr_access)area->allowed[first];
    for (run = 1; first + run < end && area->allowed[first + run] == from &&
                  first + run != area->window_first;)
      run++;
    int rc = allow_run(area, first, run, from, access);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* ---- signals --------------------------------------------------------------------- */

static struct mr_area *area_of(const uint8_t *address) {
  for (int i = 0; i < MR_AREAS_MAX; i++) {
    /* Acquire: pairs with the release that entered the finished area. */
    struct mr_area *area = atomic_load_explicit(&all.areas[i], memory_order_acquire);
    if (area != NULL && page_at(area, address) < area->pages)
      return area;
  }
  return NULL;
}

/* The kernel's own set: 8 bytes, which come first in libc's. */
static uint64_t bits_of(const sigset_t *mask) {
  uint64_t bits;
  memcpy(&bits, mask, sizeof bits);
  return bits;
}

/* A fault of the program's own handler, in which its signal is blocked: the kernel ends such a
 * process.  Here the mark is blocked instead.  Whatever leaves the handler sets the mask, also
 * siglongjmp. */
static bool is_in_handler(const struct sigaction *action, const siginfo_t *info,
                          const ucontext_t *context) {
  return all.takes && info->si_code > 0 && !(action->sa_flags & SA_NODEFER) &&
         (bits_of(&context->uc_sigmask) & MARK) != 0;
}

static void mark(void) {
  const uint64_t bits = MARK;
  /* libc's own call would leave that out. */
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &bits, NULL, sizeof bits);
}

/* What is watched faults in every handler. */
static void let_faults(sigset_t *mask) {
  sigdelset(mask, SIGBUS);
  sigdelset(mask, SIGSEGV);
}

/* Not ours: as if we were not here. */
static void pass_on(int signal, siginfo_t *info, void *context, enum mr_access_way way) {
  const struct sigaction action = all.before[way], *before = &action;
  bool sent = info->si_code <= 0, plain = !(before->sa_flags & SA_SIGINFO);
  /* An access cannot be ignored: the kernel ends the process. */
  if (plain && before->sa_handler == SIG_IGN && sent)
    return;
  if ((plain && (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN)) ||
      is_in_handler(before, info, context)) {
    /* An access is made again when we return, and then has the default action; a
     * signal that somebody sent has to come again. */
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (sent)
      raise(signal);
    return;
  }
  /* The end of on_signal undoes it, or the handler's own jump does. */
  sigset_t mask = before->sa_mask, own;
  sigemptyset(&own);
  sigaddset(&own, signal);
  if (all.takes)
    let_faults(&mask);
  pthread_sigmask(SIG_BLOCK, &mask, NULL);
  /* Where this takes the program's handlers, those may use what is watched. */
  if (all.takes || (before->sa_flags & SA_NODEFER && !sigismember(&mask, signal)))
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
  if (before->sa_flags & SA_RESETHAND)
    all.before[way] = (struct sigaction){.sa_handler = SIG_DFL};
  if (all.takes && !(before->sa_flags & SA_NODEFER))
    mark();
  if (plain)
    before->sa_handler(signal);
  else
    before->sa_sigaction(signal, info, context);
}

static bool was_write(const ucontext_t *context, const struct mr_area *area, uint32_t page) {
#if defined(__x86_64__)
  (void)area;
  (void)page;
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  (void)context;
  return !area->open && area->allowed[page] == MR_READ;
#endif
}

/* What may not be executed: to allow that it is read would change nothing.  By userfaultfd a page
 * that is not there comes; the jump then is the kernel's to refuse. */
static bool was_jump(const ucontext_t *context, const void *address) {
#if defined(__x86_64__)
  uintptr_t at = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  uintptr_t at = (uintptr_t)context->uc_mcontext.pc;
#else
#error "where is the program counter of a ucontext_t?"
#endif
  return all.code == 0 && at == (uintptr_t)address;
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  enum mr_access_way way = signal == SIGBUS ? MR_BY_USERFAULTFD : MR_BY_MPROTECT;
  int error = errno;
  const uint8_t *address = info->si_addr;
  /* A signal that somebody sent has no address. */
  struct mr_area *area = info->si_code > 0 ? area_of(address) : NULL;
  int rc = -EFAULT;
  /* A child has a copy of all this, but not the memory, and no part in the job. */
  if (area != NULL && area->way == way && mr_area_is_here(area) &&
      !(way == MR_BY_MPROTECT && was_jump(context, address))) {
    uint32_t page = page_at(area, address);
    rc = area->fault(area->context, page, was_write(context, area, page));
  }
  if (rc < 0)
    pass_on(signal, info, context, way);
  errno = error;
}

static int handle(enum mr_access_way way) {
  if (all.handles[way])
    return 0;
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  int signal = way == MR_BY_USERFAULTFD ? SIGBUS : SIGSEGV;
  /* First, so that the handler finds it filled in. */
  if (sigaction(signal, NULL, &all.before[way]) < 0 || sigaction(signal, &action, NULL) < 0)
    return -errno;
  all.handles[way] = true;
  return 0;
}

/* Of what is no area's. */
static int act(int signal, const struct sigaction *action, struct sigaction *old) {
  struct sigaction with, was;
  if (action != NULL) {
    with = *action;
    with.sa_flags |= SA_ONSTACK;
    let_faults(&with.sa_mask);
  }
  if (sigaction(signal, action != NULL ? &with : NULL, &was) < 0)
    return -1;
  if (old != NULL) {
    *old = was;
    if (all.altered[signal].stack)
      old->sa_flags &= ~SA_ONSTACK;
    if (all.altered[signal].bus)
      sigaddset(&old->sa_mask, SIGBUS);
    if (all.altered[signal].segv)
      sigaddset(&old->sa_mask, SIGSEGV);
  }
  if (action != NULL) {
    all.altered[signal].stack = !(action->sa_flags & SA_ONSTACK);
    all.altered[signal].bus = sigismember(&action->sa_mask, SIGBUS) == 1;
    all.altered[signal].segv = sigismember(&action->sa_mask, SIGSEGV) == 1;
  }
  return 0;
}

static int act_behind(enum mr_access_way way, const struct sigaction *action,
                      struct sigaction *old) {
  const struct sigaction was = all.before[way];
  if (action != NULL) {
    all.before[way] = *action;
    all.takes = true;
  }
  if (old != NULL)
    *old = was;
  return 0;
}

int mr_access_sigaction(int signal, const struct sigaction *action, struct sigaction *old) {
  enum mr_access_way way = signal == SIGBUS ? MR_BY_USERFAULTFD : MR_BY_MPROTECT;
  struct sigaction said, was;
  sigset_t every, before;
  if (action != NULL)
    said = *action; /* which may be watched, as may `old` */
  sigfillset(&every);
  pthread_sigmask(SIG_BLOCK, &every, &before);
  const struct sigaction *given = action != NULL ? &said : NULL;
  int rc = (signal == SIGBUS || signal == SIGSEGV) && all.handles[way]
               ? act_behind(way, given, &was)
               : act(signal, given, &was);
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc == 0 && old != NULL)
    *old = was;
  errno = error;
  return rc;
}

bool mr_access_lends_stack(int signal) { return all.altered[signal].stack; }

/* ---- life -------------------------------------------------------------------------- */

static int enter(struct mr_area *area) {
  pthread_mutex_lock(&all.changing);
  int rc = handle(area->way), i = 0;
  while (i < MR_AREAS_MAX && atomic_load_explicit(&all.areas[i], memory_order_relaxed) != NULL)
    i++;
  if (rc == 0 && i == MR_AREAS_MAX)
    rc = -EMFILE;
  if (rc == 0)
    /* Release: a handler that finds the area finds it finished. */
    atomic_store_explicit(&all.areas[i], area, memory_order_release);
  pthread_mutex_unlock(&all.changing);
  return rc;
}

static void leave(struct mr_area *area) {
  pthread_mutex_lock(&all.changing);
  for (int i = 0; i < MR_AREAS_MAX; i++)
    if (atomic_load_explicit(&all.areas[i], memory_order_relaxed) == area)
      /* Relaxed: by contract no thread faults in it any more. */
      atomic_store_explicit(&all.areas[i], NULL, memory_order_relaxed);
  pthread_mutex_unlock(&all.changing);
}

static int rights_at_first(const struct mr_area *area) {
  bool closed = area->fault != NULL && area->way == MR_BY_MPROTECT;
  return closed ? PROT_NONE : PROT_READ | PROT_WRITE | all.code;
}

static int map_views(struct mr_area *area, void *address) {
  int fd = mr_sealed_memfd("maru-dsm", bytes_of(area));
  if (fd < 0)
    return fd;
  int rights = rights_at_first(area);
  int place = address != NULL ? MAP_FIXED_NOREPLACE : 0;
  area->runtime = mmap(NULL, bytes_of(area), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  area->program = mmap(address, bytes_of(area), rights, MAP_SHARED | place, fd, 0);
  int error = errno;
  area->fd = fd;
  if (area->runtime == MAP_FAILED)
    area->runtime = NULL;
  if (area->program == MAP_FAILED) {
    area->program = NULL;
    return -error;
  }
  /* A kernel that does not know the flag takes the address as a hint. */
  if (address != NULL && area->program != address)
    return -EEXIST;
  return area->runtime != NULL ? 0 : -ENOMEM;
}

static int mark_process(struct mr_area *area) {
  bool *here = mmap(NULL, MR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (here == MAP_FAILED)
    return -errno;
  area->here = here;
  *here = true;
  return madvise(here, MR_PAGE, MADV_WIPEONFORK) < 0 ? -errno : 0;
}

bool mr_area_is_here(const struct mr_area *area) { return *(const volatile bool *)area->here; }

static int set_up(struct mr_area *area, void *address) {
  all.code = mr_access_code();
  int rc = mark_process(area);
  if (rc == 0)
    rc = map_views(area, address);
  if (rc < 0)
    return rc;
  /* One page at a time is allowed or not; and a child could not be watched.  That
   * the kernel knows no huge pages does no harm. */
  madvise(area->program, bytes_of(area), MADV_NOHUGEPAGE);
  madvise(area->runtime, bytes_of(area), MADV_NOHUGEPAGE);
  madvise(area->program, bytes_of(area), MADV_DONTFORK);
  if (area->fault == NULL)
    return 0;
  if (area->way == MR_BY_USERFAULTFD)
    rc = watch(area);
  return rc < 0 ? rc : enter(area);
}

int mr_area_create_lone(struct mr_area **area, void *address, uint32_t pages) {
  if (pages == 0 || pages > MR_PAGES_MAX || sysconf(_SC_PAGESIZE) != MR_PAGE)
    return -EINVAL;
  struct mr_area *a = calloc(1, sizeof *a);
  if (a == NULL)
    return -ENOMEM;
  *a = (struct mr_area){.open = true, .pages = pages, .window_first = pages, .fd = -1, .uffd = -1};
  int place = address != NULL ? MAP_FIXED_NOREPLACE : 0;
  all.code = mr_access_code();
  void *at = mmap(address, bytes_of(a), PROT_READ | PROT_WRITE | all.code,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | place, -1, 0);
  int rc = at == MAP_FAILED ? -errno : address != NULL && at != address ? -EEXIST : 0;
  a->program = a->runtime = at == MAP_FAILED ? NULL : at;
  if (rc == 0)
    rc = mark_process(a);
  if (rc < 0) {
    mr_area_destroy(a);
    return rc;
  }
  madvise(a->program, bytes_of(a), MADV_DONTFORK);
  *area = a;
  return 0;
}

int mr_area_create(struct mr_area **area, enum mr_access_way way, void *address, uint32_t pages,
                   mr_fault *fault, void *context) {
  if (pages == 0 || pages > MR_PAGES_MAX || way >= MR_ACCESS_WAYS ||
      sysconf(_SC_PAGESIZE) != MR_PAGE)
    return -EINVAL;
  struct mr_area *a = calloc(1, sizeof *a + pages);
  if (a == NULL)
    return -ENOMEM;
  *a = (struct mr_area){.way = way,
                        .pages = pages,
                        .window_first = pages,
                        .fd = -1,
                        .uffd = -1,
                        .fault = fault,
                        .context = context};
  int rc = set_up(a, address);
  if (rc < 0) {
    mr_area_destroy(a);
    return rc;
  }
  *area = a;
  return 0;
}

void mr_area_destroy(struct mr_area *area) {
  leave(area);
  if (area->program != NULL)
    munmap(area->program, bytes_of(area));
  if (area->runtime != NULL && area->runtime != area->program)
    munmap(area->runtime, bytes_of(area));
  if (area->window != NULL)
    mprotect(area->window, window_bytes(area), PROT_READ | PROT_WRITE | all.code);
  if (area->here != NULL)
    munmap(area->here, MR_PAGE);
  if (area->uffd >= 0)
    close(area->uffd);
  if (area->fd >= 0)
    close(area->fd);
  free(area);
}

int mr_area_window(struct mr_area *area, void *address, uint32_t first) {
  if (first >= area->pages || area->window_first != area->pages ||
      (uintptr_t)address % MR_PAGE != 0)
    return -EINVAL;
  size_t size = (size_t)(area->pages - first) * MR_PAGE;
  int rights = rights_at_first(area);
  mr_sparse_copy(area->runtime + (size_t)first * MR_PAGE, address, size);
  if (mmap(address, size, rights, MAP_SHARED | MAP_FIXED, area->fd, (off_t)first * MR_PAGE) ==
      MAP_FAILED)
    return -errno;
  area->window = address;
  area->window_first = first;
  madvise(address, size, MADV_NOHUGEPAGE);
  bool watched = area->fault != NULL && area->way == MR_BY_USERFAULTFD;
  return watched ? watch_range(area, address, size) : 0;
}

/* Past libc's name: UCX, which MPICH brings, stands before that and drops the last argument. */
static bool move_to(void *to, void *from, size_t old, size_t size) {
  return syscall(SYS_mremap, from, old, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != -1;
}

int mr_area_replace(struct mr_area *area, void *memory) {
  uint8_t *from = memory;
  size_t size = bytes_of(area), window = window_bytes(area);
  leave(area);
  area->open = true;
  /* Of a shared mapping 0 bytes that are moved are a second one. */
  if ((all.code != 0 && allow_by_mprotect(from, size, MR_READ_WRITE) < 0) ||
      (window > 0 && !move_to(area->window, from + (size - window), 0, window)) ||
      !move_to(area->program, from, size, size)) {
    int error = errno;
    munmap(memory, size);
    return -error;
  }
  /* A child has no part in the job. */
  madvise(area->program, size, MADV_DONTFORK);
  return 0;
}

int mr_area_guard(struct mr_area *area, uint32_t page, mr_fault *fault, void *context) {
  bool entered = area_of(area->program) == area;
  if (!area->open || page >= area->pages)
    return -EINVAL;
  area->way = MR_BY_MPROTECT;
  area->fault = fault;
  area->context = context;
  int rc = entered ? 0 : enter(area);
  return rc == 0 ? allow_by_mprotect(seen_at(area, page), MR_PAGE, MR_NONE) : rc;
}

static int no_fault(void *context, uint32_t page, bool write) {
  (void)context;
  (void)page;
  (void)write;
  return -EFAULT;
}

/* All that is used is tried once; nobody touches the page. */
int mr_access_probe(enum mr_access_way way) {
  struct mr_area *area;
  int rc = mr_area_create(&area, way, NULL, 1, no_fault, NULL);
  if (rc < 0)
    return rc;
  rc = mr_area_allow(area, 0, 1, MR_READ);
  if (rc == 0)
    rc = mr_area_allow(area, 0, 1, MR_READ_WRITE);
  if (rc == 0)
    rc = mr_area_allow(area, 0, 1, MR_NONE);
  mr_area_destroy(area);
  return rc == -EINVAL ? -EOPNOTSUPP : rc;
}
