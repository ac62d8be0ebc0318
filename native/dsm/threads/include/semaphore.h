/* semaphore.h of maru-cc: the system's, but for names, which another host does not know. */
#ifndef MARU_CC_SEMAPHORE_H
#define MARU_CC_SEMAPHORE_H

#include_next <semaphore.h>

#ifdef __cplusplus
extern "C" {
#endif
sem_t *maru_cc_refuses_a_named_semaphore(void)
    __attribute__((__error__("maru-cc: a named semaphore is one host's; use sem_init")));
#ifdef __cplusplus
}
#endif

#define sem_open(...) maru_cc_refuses_a_named_semaphore()

#endif
