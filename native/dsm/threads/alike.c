/* alike.c: linked into programs that call maru_dsm_init: it is what makes them programs of which
 * every node runs main (parmacs/alike.c). */
#include <maru/parmacs.h>

extern const char maru_alike_here;
const char maru_alike_here = 1;

void __wrap_maru_dsm_init(void);
void __wrap_maru_dsm_init_unwatched(void);

void __wrap_maru_dsm_init(void) { maru_alike_init(1); }
void __wrap_maru_dsm_init_unwatched(void) { maru_alike_init(0); }
