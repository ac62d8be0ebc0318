/* What an item of map/peers does, the same code in every language. */
#ifndef MARU_PEERS_WORK_H
#define MARU_PEERS_WORK_H

/* Spins until this thread has used so many microseconds of processor time since the call: the work
 * is the same on a loaded machine and in every language. */
void peers_spin(long us);

/* Kills this process the first time that anybody calls it with this path, and creates the file. */
void peers_die_once(const char *path);

/* How the large input is read: the place of the k-th look of an item, in so many bytes. */
long peers_place(long item, long look, long size);

/* Processor time in nanoseconds: of this process (0), or of its children that were waited for (1).
 */
long long peers_cpu_ns(int children);

/* For R's .C, which passes addresses. */
void peers_spin_r(const int *us);
void peers_die_once_r(char **path);

#endif
