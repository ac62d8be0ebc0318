/* access.h: memory whose first reads and writes are seen (internal to
 * libmaru-dsm).
 *
 * An *area* is pages of a memfd, mapped twice.  The *program's view* is where
 * the computing threads load and store; what they may do there is set per page.
 * The *runtime's view* of the same pages may always be read and written.  An access beyond what is
 * allowed calls the area's fault function in the thread that made it. The function allows what is
 * needed (mr_area_allow) and returns, and the access is done again.
 *
 * Two ways to see accesses. userfaultfd: minor faults and write protection, signal in the faulting
 * thread. It takes user-mode faults only, so no privilege is needed; any pattern of pages costs one
 * mapping. mprotect: works on every kernel. It costs a mapping for each run of pages with equal
 * rights, of which a process may have vm.max_map_count.
 *
 * The kernel does not report accesses by system calls this way: read(2) into a page
 * that is not allowed fails with EFAULT.  Allow the range first.
 *
 * Signals: SIGBUS (userfaultfd) or SIGSEGV (mprotect).  A fault outside every area
 * goes to the handler that was there before, or has the signal's default action. So core dumps and
 * debuggers work as ever (gdb: "handle SIGBUS nostop noprint"). That handler runs with its own mask
 * and SA_NODEFER, but SA_RESETHAND and SA_RESTART do not count. The first area (or probe) of a way
 * installs our handler, which then stays: somebody may have kept its address. Nobody else may
 * change the signal's action meanwhile. The signal is blocked while the fault function runs.
 *
 * Children (fork) inherit neither the program's view nor the fault function: their faults
 * there are faults outside every area.  They may not use an area of their parent's.
 * Thread-safety: threads may fault and call mr_area_allow at once, on different
 * pages.  Errors are negative errno.
 */
#ifndef MARU_DSM_ACCESS_H
#define MARU_DSM_ACCESS_H

#include "core.h"

#include <stdbool.h>
#include <stdint.h>

enum mr_access_way { MR_BY_USERFAULTFD, MR_BY_MPROTECT, MR_ACCESS_WAYS };

#define MR_AREAS_MAX 16

struct mr_area;

/* `write`: what the access needs; where the machine does not tell, reading is
 * taken first.  0: it is allowed now.  Otherwise the fault is treated as one outside every
 * area. Runs in a signal handler, but one that interrupts nothing else than an access to the
 * area. It may call all that the accessing code is not in the middle of (a program that prints
 * from the area holds stdio's lock; no allocator touches it). */
typedef int mr_fault(void *context, uint32_t page, bool write);

/* PROT_EXEC where the program asks for a stack that is executed (gcc's nested functions write
 * code there), else 0. Its threads' stacks may lie in an area. So then an
 * area may be executed, too. */
int mr_access_code(void);

/* "userfaultfd", "mprotect". */
const char *mr_access_way_name(enum mr_access_way way);

/* 0 if this kernel and sandbox allow it, by trying. Else why not: -ENOSYS, -EPERM, or
 * -EOPNOTSUPP for a userfaultfd that lacks what is needed (before Linux 6.4). */
int mr_access_probe(enum mr_access_way way);

/* `pages` pages of zeros, nothing allowed.  `fault` NULL: accesses are not watched, `way` does not
 * matter, and everything is always allowed.  `address`: where the program's view must
 * be, or NULL for anywhere.  -EEXIST: something is mapped there; -ENOMEM; -EINVAL; -EMFILE: more
 * than MR_AREAS_MAX areas; as mr_access_probe. */
int mr_area_create(struct mr_area **area, enum mr_access_way way, void *address, uint32_t pages,
                   mr_fault *fault, void *context);
/* Memory of this process alone: no memfd, both views are one, nothing is watched and all is
 * allowed. Its pages cost what those of malloc cost, huge pages where the system gives such. It
 * has no window. -EEXIST, -ENOMEM, -EINVAL as above. */
int mr_area_create_lone(struct mr_area **area, void *address, uint32_t pages);
/* Whether this process made it, and is no child (fork) of one that did. Costs a load, no call. Any
 * thread, in signal handlers too; a child of vfork counts as its parent. */
bool mr_area_is_here(const struct mr_area *area);
/* No thread may access it any more. */
void mr_area_destroy(struct mr_area *area);

/* From now on the program sees the pages from `first` on at `address`, in place of what is
 * mapped there, whose bytes they take over.  Once an area, before anything is allowed.  The
 * window stays when the area is destroyed, and a child (fork) may go on reading it.
 * -EINVAL; -ENOMEM; as mr_access_probe. */
int mr_area_window(struct mr_area *area, void *address, uint32_t first);

/* From now on the program sees `memory` instead, a shared mapping of as many pages: there and at
 * the window.  Nothing is watched any more, and what was in the area before is not seen.  The
 * mapping is the area's, also where this fails.  -ENOMEM, or what the system said. */
int mr_area_replace(struct mr_area *area, void *memory);

/* Of a lone area, or one that was replaced. An access to the page calls the function, which may not
 * return 0.  -ENOMEM: too many mappings; -EMFILE; -EINVAL. */
int mr_area_guard(struct mr_area *area, uint32_t page, mr_fault *fault, void *context);

uint8_t *mr_area_program(const struct mr_area *area);
uint8_t *mr_area_runtime(const struct mr_area *area);
/* Of the memfd; the area's. -1: a lone one. */
int mr_area_descriptor(const struct mr_area *area);

/* From now on the program may do that much with `count` pages.  What it may no
 * more, every thread may no more when this returns.  -ENOMEM: too many mappings
 * (mprotect). */
int mr_area_allow(struct mr_area *area, uint32_t first, uint32_t count, enum mr_access access);

/* sigaction() for programs whose handlers run on a stack that is not watched. Where an area's
 * accesses are seen by that signal, the area stays first: what is no access to it has the action
 * that was set here. Handlers may use watched memory, the one of that signal too: so a fault in it
 * counts as a fault in it only where that is none of an area.  By one thread. */
struct sigaction;
int mr_access_sigaction(int signal, const struct sigaction *action, struct sigaction *old);
/* Whether it runs there for that alone: its action, as it was set, does not say so. */
bool mr_access_lends_stack(int signal);

#endif
