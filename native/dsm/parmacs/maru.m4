divert(-1)
dnl maru.m4: the ANL macros (PARMACS) on the shared memory of a maru job.
dnl
dnl     m4 -Ulen -Uindex maru.m4 program.C >program.c
dnl
dnl A macro's name without arguments is left as it is: comments may speak of LOCK.  Fields are
dnl declared with their semicolon, as the programs expect.

define(`MARU_WITH', `ifelse($1, 0, ``$2'', `$3')')

define(`INCLUDES', `#include <maru/parmacs.h>')
define(`MAIN_ENV', `INCLUDES')
define(`EXTERN_ENV', `INCLUDES')
define(`ENV', `')
define(`NEWPROC', `')
define(`MAIN_INITENV', `{;}')
define(`MAIN_END', `{exit(0);}')

dnl CREATE(body) makes one process, CREATE(body, n) n - 1 and is the nth itself.
define(`CREATE', `MARU_WITH($#, `$0', `{maru_parmacs_create((void (*)(void))($1), ifelse($#, 1, 1, ($2) - 1)); ifelse($#, 1, `', `$1();')}')')
dnl The same of a body with an argument, which is memory of the process that creates.
define(`CREATE_WITH_ARG', `MARU_WITH($#, `$0', `{maru_parmacs_create_with((void (*)(void *))($1), (void *)($2), ifelse($#, 2, 1, ($3) - 1)); ifelse($#, 2, `', `$1((void *)($2));')}')')
define(`WAIT_FOR_END', `MARU_WITH($#, `$0', `{maru_parmacs_wait($1);}')')

define(`G_MALLOC', `MARU_WITH($#, `$0', `maru_parmacs_share($1, MARU_DSM_SITE);')')
define(`NU_MALLOC', `MARU_WITH($#, `$0', `maru_parmacs_share($1, MARU_DSM_SITE);')')
define(`G_FREE', `MARU_WITH($#, `$0', `((void)($1));')')
define(`NU_FREE', `MARU_WITH($#, `$0', `((void)($1));')')

define(`LOCKDEC', `MARU_WITH($#, `$0', `unsigned $1;')')
define(`LOCKINIT', `MARU_WITH($#, `$0', `{($1) = maru_parmacs_id();}')')
define(`LOCK', `MARU_WITH($#, `$0', `{maru_parmacs_lock($1);}')')
define(`UNLOCK', `MARU_WITH($#, `$0', `{maru_parmacs_unlock($1);}')')

define(`ALOCKDEC', `MARU_WITH($#, `$0', `unsigned $1[$2];')')
define(`ALOCKINIT', `MARU_WITH($#, `$0', `{long maru_i; for (maru_i = 0; maru_i < ($2); maru_i++) ($1)[maru_i] = maru_parmacs_id();}')')
define(`ALOCK', `MARU_WITH($#, `$0', `{maru_parmacs_lock(($1)[$2]);}')')
define(`AULOCK', `MARU_WITH($#, `$0', `{maru_parmacs_unlock(($1)[$2]);}')')
define(`AGETL', `MARU_WITH($#, `$0', `(($1)[$2])')')

define(`BARDEC', `MARU_WITH($#, `$0', `unsigned $1;')')
define(`BARINIT', `MARU_WITH($#, `$0', `{($1) = maru_parmacs_id();}')')
define(`BARRIER', `MARU_WITH($#, `$0', `{maru_parmacs_barrier($1, $2);}')')

define(`PAUSEDEC', `MARU_WITH($#, `$0', `unsigned $1;')')
define(`PAUSEINIT', `MARU_WITH($#, `$0', `{($1) = maru_parmacs_id();}')')
define(`SETPAUSE', `MARU_WITH($#, `$0', `{maru_parmacs_set($1, 1);}')')
define(`CLEARPAUSE', `MARU_WITH($#, `$0', `{maru_parmacs_set($1, 0);}')')
define(`WAITPAUSE', `MARU_WITH($#, `$0', `{maru_parmacs_await($1);}')')
define(`EVENT', `MARU_WITH($#, `$0', `unsigned $1;')')

define(`CONDVARDEC', `MARU_WITH($#, `$0', `unsigned $1;')')
define(`CONDVARINIT', `MARU_WITH($#, `$0', `{($1) = maru_parmacs_id();}')')
define(`CONDVARWAIT', `MARU_WITH($#, `$0', `{maru_parmacs_condition_wait($1, $2);}')')
define(`CONDVARSIGNAL', `MARU_WITH($#, `$0', `{maru_parmacs_signal($1);}')')
define(`CONDVARBCAST', `MARU_WITH($#, `$0', `{maru_parmacs_broadcast($1);}')')

define(`GSDEC', `MARU_WITH($#, `$0', `unsigned $1;')')
define(`GSINIT', `MARU_WITH($#, `$0', `{($1) = maru_parmacs_id();}')')
define(`GETSUB', `MARU_WITH($#, `$0', `{($2) = maru_parmacs_next($1, $3, $4);}')')

define(`RELEASE_FENCE', `{maru_dsm_fence();}')
define(`ACQUIRE_FENCE', `{maru_dsm_fence();}')
define(`FULL_FENCE', `{maru_dsm_fence();}')

define(`CLOCK', `MARU_WITH($#, `$0', `{($1) = maru_parmacs_clock();}')')
define(`SPLASH3_ROI_BEGIN', `')
define(`SPLASH3_ROI_END', `')

dnl Of m4's own: names that programs use for theirs.
undefine(`len', `index', `substr', `format', `shift', `incr', `decr', `eval', `translit', `unix')
divert(0)dnl
