/* door.c: what is preloaded into every process of a run: finds out at the first
 * call which MPI the process uses, and goes on in the shim for that MPI.
 *
 * Which MPI it is cannot be known before: mpirun and shells get the preload too, and
 * some programs (mpi4py) load their MPI late.  Where there is no shim for it, or a tool
 * wraps its calls, the calls go on as they would without us.
 *
 * Every argument of these functions is an integer of at most a word, or a pointer, and
 * is handed on as it came.
 */
#define _GNU_SOURCE
#include "calls.h"

#include <dlfcn.h>
#include <link.h>
#include <maru/board.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef long word;

enum call {
#define NUMBER(name, arguments) CALL_##name,
  MR_MPI_CALLS(NUMBER)
#undef NUMBER
      CALLS
};

static const char *const names[CALLS] = {
#define NAME(name, arguments) "MPI_" #name,
    MR_MPI_CALLS(NAME)
#undef NAME
};

/* The first part of a library's name, and the shim built for it. */
static const struct {
  const char *mpi, *shim;
} known[] = {{"libmpi.so.40", "libmaru-mpi-openmpi.so"},
             {"libmpich.so.12", "libmaru-mpi-mpich.so"}};

/* Relaxed: what a pointer leads to was there before the program's first thread asked for it. */
static void *_Atomic target[CALLS];
static pthread_once_t found = PTHREAD_ONCE_INIT;
/* Where the first call came from.  Relaxed: a thread that reads it has written or seen it. */
static const void *_Atomic first_caller;

static void say(const char *what, const char *about) {
  struct maru_board board;
  if (maru_board_open_env(&board) < 0)
    return;
  maru_board_say(&board, "wait", "MPI ranks pass: %s%s", what, about);
  maru_board_close(&board);
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* The loaded library that defines an MPI, and its name. */
static void *loaded_mpi(char name[256]) {
  struct link_map *map;
  Dl_info of;
  void *self = dlopen(NULL, RTLD_LAZY), *mpi = NULL;
  if (self == NULL || dlinfo(self, RTLD_DI_LINKMAP, &map) != 0)
    return NULL;
  for (; map != NULL && mpi == NULL; map = map->l_next) {
    /* Ours ask the MPI for the same names. */
    if (map->l_name[0] == '\0' || strncmp(last_part(map->l_name), "libmaru-mpi", 11) == 0)
      continue;
    void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    void *init = handle != NULL ? dlsym(handle, "PMPI_Init") : NULL;
    /* It may come from what this one depends on. */
    if (init != NULL && dladdr(init, &of) != 0) {
      mpi = dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
      snprintf(name, 256, "%s", last_part(of.dli_fname));
    }
    if (handle != NULL)
      dlclose(handle);
  }
  return mpi;
}

static void *shim_for(const char *mpi) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strncmp(mpi, known[i].mpi, strlen(known[i].mpi)) != 0)
      continue;
    Dl_info own;
    char path[4096];
    if (dladdr(target, &own) == 0)
      return NULL;
    int folder = (int)(last_part(own.dli_fname) - own.dli_fname);
    snprintf(path, sizeof path, "%.*s%s", folder, own.dli_fname, known[i].shim);
    void *shim = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (shim == NULL)
      say("its shim cannot be loaded: ", dlerror());
    return shim;
  }
  say("maru has no shim for this MPI: ", mpi);
  return NULL;
}

static void *base_of(const void *symbol) {
  Dl_info of;
  return dladdr(symbol, &of) != 0 ? of.dli_fbase : NULL;
}

/* A program that is not position-independent has a stub for a function whose address it takes: what
 * dlsym finds then is no definition. */
static bool is_stub(const void *symbol) {
  Dl_info of;
  const ElfW(Sym) *entry = NULL;
  return dladdr1(symbol, &of, (void **)&entry, RTLD_DL_SYMENT) != 0 && entry != NULL &&
         entry->st_shndx == SHN_UNDEF;
}

/* The library that the first call came from, with what was loaded for it; NULL: the program. */
static void *callers_libraries(void) {
  Dl_info of;
  const void *caller = atomic_load_explicit(&first_caller, memory_order_relaxed);
  return dladdr(caller, &of) != 0 ? dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

/* The definition that would be called without us: a tool's, or the MPI's.  A plugin may have both
 * for itself alone. */
static void *definition(enum call call, void *callers) {
  void *next = dlsym(RTLD_NEXT, names[call]);
  return next == NULL && callers != NULL ? dlsym(callers, names[call]) : next;
}

/* Whether another library, or the program, defines a call too: a tool for the profiling interface.
 * Behind us the shim's PMPI_ would pass it by.  Before us its PMPI_ passes the shim by, and its
 * blocking operations do not match the non-blocking ones of ranks without it. */
static const void *of_another(void *mpi, void *callers) {
  void *own = base_of(target), *theirs = base_of(dlsym(mpi, "PMPI_Init"));
  for (int call = 0; call < CALLS; call++) {
    const void *first = dlsym(RTLD_DEFAULT, names[call]), *next = definition(call, callers);
    if (first != NULL && base_of(first) != own && !is_stub(first))
      return first;
    if (next != NULL && base_of(next) != theirs)
      return next;
  }
  return NULL;
}

static void *shim_beside_none(void *mpi, const char *name, void *callers) {
  Dl_info other;
  const void *symbol = of_another(mpi, callers);
  if (symbol == NULL)
    return shim_for(name);
  if (dladdr(symbol, &other) != 0)
    say("its calls are wrapped (PMPI) by ", last_part(other.dli_fname));
  return NULL;
}

static void find(void) {
  char name[256];
  void *mpi = loaded_mpi(name), *callers = callers_libraries();
  void *shim = mpi != NULL ? shim_beside_none(mpi, name, callers) : NULL;
  for (int call = 0; call < CALLS; call++) {
    if (shim != NULL)
      target[call] = dlsym(shim, names[call]);
    if (target[call] == NULL)
      target[call] = definition(call, callers);
    if (target[call] == NULL && mpi != NULL)
      target[call] = dlsym(mpi, names[call]);
  }
}

static void *reach(enum call call, const void *caller) {
  const void *nobody = NULL;
  atomic_compare_exchange_strong_explicit(&first_caller, &nobody, caller, memory_order_relaxed,
                                          memory_order_relaxed);
  pthread_once(&found, find);
  if (target[call] == NULL) {
    fprintf(
        stderr,
        "maru: no MPI library is loaded that defines %s; without --wait a program can see that\n",
        names[call]);
    abort();
  }
  return target[call];
}

#define T0
#define T1 word a
#define T2 T1, word b
#define T3 T2, word c
#define T4 T3, word d
#define T5 T4, word e
#define T6 T5, word f
#define T7 T6, word g
#define T8 T7, word h
#define T9 T8, word i
#define T12 T9, word j, word k, word l
#define A0
#define A1 a
#define A2 A1, b
#define A3 A2, c
#define A4 A3, d
#define A5 A4, e
#define A6 A5, f
#define A7 A6, g
#define A8 A7, h
#define A9 A8, i
#define A12 A9, j, k, l

#define DOOR(name, arguments)                                                                      \
  EXPORT int MPI_##name(T##arguments) {                                                            \
    void *to = atomic_load_explicit(&target[CALL_##name], memory_order_relaxed);                   \
    return ((int (*)(T##arguments))(                                                               \
        to != NULL ? to : reach(CALL_##name, __builtin_return_address(0))))(A##arguments);         \
  }
MR_MPI_CALLS(DOOR)
