/* sim_names.h: what programs of examples/dsm call, under names of the simulator's (sim_programs.c);
 * libmaru-dsm has its own. */
#define maru_dsm_init sim_dsm_init
#define maru_dsm_exit sim_dsm_exit
#define maru_dsm_node sim_dsm_node
#define maru_dsm_nodes sim_dsm_nodes
#define maru_dsm_alloc_at sim_dsm_alloc_at
#define maru_dsm_lock sim_dsm_lock
#define maru_dsm_unlock sim_dsm_unlock
#define maru_dsm_barrier sim_dsm_barrier
#define maru_dsm_fetch_add sim_dsm_fetch_add
#define clock_gettime sim_clock_gettime
