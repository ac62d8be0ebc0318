/* calls.h: what the parts of mpi_calls share. */
#ifndef MARU_PRELOAD_MPI_TESTS_CALLS_H
#define MARU_PRELOAD_MPI_TESTS_CALLS_H

#include <mpi.h>
#include <stdbool.h>

extern int rank, size, next, before; /* in a ring of all ranks */

/* A piece of this rank's output. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_status(const char *what, MPI_Status *s, MPI_Datatype type);
unsigned sum_of(const int *values, int count);
void fill(int *values, int count, int seed);
/* Ranks do not come to a call together. */
void dawdle(void);

void rooted(MPI_Comm comm, int me, int n, int root, int count);
void to_all(MPI_Comm comm, int me, int n, int count);
void in_place(void);
void in_order(void);
void splits(void);
void neighbours(void);
void many(void);

#endif
