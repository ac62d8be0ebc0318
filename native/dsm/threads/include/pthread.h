/* pthread.h of maru-cc: the system's, but for what threads cannot have that run on the nodes of a
 * job.  Who calls that is told when it is compiled. */
#ifndef MARU_CC_PTHREAD_H
#define MARU_CC_PTHREAD_H

/* Its headers take locks that lie in libstdc++, which takes them by itself as well. */
#ifdef _GLIBCXX_DEBUG
#error "maru-cc: the locks of libstdc++'s debug mode are each node's own; use -D_GLIBCXX_ASSERTIONS"
#endif

#include_next <pthread.h>
#include <signal.h> /* it declares some */

#ifdef __cplusplus
extern "C" {
#endif
void maru_pthread_cleanup_push(void (*call)(void *), void *argument);
void maru_pthread_cleanup_pop(int call);

int maru_cc_refuses_an_end(void)
    __attribute__((__error__("maru-cc: a thread on another node cannot be cancelled; "
                             "let it look at a variable, under a mutex")));
int maru_cc_refuses_a_signal(void)
    __attribute__((__error__("maru-cc: a thread on another node gets no signal of this process's; "
                             "use a condition variable")));
int maru_cc_refuses_a_name(void)
    __attribute__((__error__("maru-cc: a thread on another node cannot be asked that")));
int maru_cc_refuses_a_wait(void)
    __attribute__((__error__("maru-cc: a thread can only be waited for until it has ended; "
                             "use pthread_join")));
#ifdef __cplusplus
}
#endif

#define pthread_cancel(...) maru_cc_refuses_an_end()
#define pthread_kill(...) maru_cc_refuses_a_signal()
#define pthread_sigqueue(...) maru_cc_refuses_a_signal()
#define pthread_getattr_np(...) maru_cc_refuses_a_name()
#define pthread_getname_np(...) maru_cc_refuses_a_name()
#define pthread_getcpuclockid(...) maru_cc_refuses_a_name()
#define pthread_getschedparam(...) maru_cc_refuses_a_name()
#define pthread_tryjoin_np(...) maru_cc_refuses_a_wait()
#define pthread_timedjoin_np(...) maru_cc_refuses_a_wait()
#define pthread_clockjoin_np(...) maru_cc_refuses_a_wait()

/* Where exceptions are, the system's own are run as frames are left. */
#ifndef __EXCEPTIONS
#undef pthread_cleanup_push
#undef pthread_cleanup_pop
#define pthread_cleanup_push(call, argument)                                                       \
  do {                                                                                             \
  maru_pthread_cleanup_push(call, argument)
#define pthread_cleanup_pop(calls)                                                                 \
  maru_pthread_cleanup_pop(calls);                                                                 \
  }                                                                                                \
  while (0)
#endif

#endif
