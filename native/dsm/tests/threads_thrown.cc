/* threads_thrown.cc: whose memory an exception lies in, and what `new` gives: what a thread of the
 * job throws is the program's, also within a library; a library's own thread and a program that
 * creates no threads (ALONE) have libstdc++'s. A library's own thread has libc's memory from `new`,
 * too. Built three times: with LIBRARY, with ALONE, and as the program.
 */
#include <cstdint>
#include <cstdio>
#include <pthread.h>

uintptr_t thrown_in_library(), thrown_by_its_thread();
/* Deletes the block, and makes another. */
void replace_by_its_thread(char **block);

static uintptr_t thrown() {
  try {
    throw 1;
  } catch (int &caught) {
    return (uintptr_t)&caught;
  }
}

#ifdef LIBRARY
uintptr_t thrown_in_library() { return thrown(); }
static void *throws(void *) { return (void *)thrown(); }
uintptr_t thrown_by_its_thread() {
  pthread_t id;
  void *at;
  return pthread_create(&id, nullptr, throws, nullptr) == 0 && pthread_join(id, &at) == 0
             ? (uintptr_t)at
             : 0;
}
static void *replaces(void *at) {
  char **block = static_cast<char **>(at);
  delete *block;
  *block = new char;
  return nullptr;
}
void replace_by_its_thread(char **block) {
  pthread_t id;
  if (pthread_create(&id, nullptr, replaces, block) == 0)
    pthread_join(id, nullptr);
}
#else
static const uintptr_t NEAR = (uintptr_t)4 << 30;

/* The program's memory is where `new` finds it. */
static void tell(const char *who, uintptr_t at) {
  static char *beside = new char;
  bool programs = at - (uintptr_t)beside + NEAR < 2 * NEAR;
  printf("%s: %s\n", who, programs ? "the program's" : "its own");
}

#ifndef ALONE
static void *nothing(void *unused) { return unused; }
static void create() {
  pthread_t id;
  if (pthread_create(&id, nullptr, nothing, nullptr) == 0)
    pthread_join(id, nullptr);
}
#else
static void create() {}
#endif

int main() {
  create();
  tell("main", thrown());
  tell("main, in a library", thrown_in_library());
  tell("a thread of a library", thrown_by_its_thread());
  char *block = new char;
  replace_by_its_thread(&block);
  tell("new in a thread of a library", (uintptr_t)block);
  delete block;
}
#endif
