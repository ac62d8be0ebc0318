/* threads_counted.cc: a library's own thread counts holders while threads of the program do, by one
 * copy of what libstdc++ has inline.  Built twice, without optimisation: with LIBRARY, and as the
 * program.
 */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <pthread.h>

void start();
long finish();

#ifdef LIBRARY
/* Memory of libc's. */
template <class T> struct own {
  typedef T value_type;
  own() {}
  template <class U> own(const own<U> &) {}
  T *allocate(size_t count) { return static_cast<T *>(malloc(count * sizeof(T))); }
  void deallocate(T *at, size_t) { free(at); }
};
template <class T, class U> bool operator==(own<T>, own<U>) { return true; }
template <class T, class U> bool operator!=(own<T>, own<U>) { return false; }

static pthread_t id;
static void *count(void *) {
  auto one = std::allocate_shared<int>(own<int>(), 1);
  std::weak_ptr<int> seen = one;
  for (int i = 0; i < 20000; i++) {
    auto again = one, locked = seen.lock();
  }
  return (void *)one.use_count();
}
void start() { pthread_create(&id, nullptr, count, nullptr); }
long finish() {
  void *holders;
  pthread_join(id, &holders);
  return (long)holders;
}
#else
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long turns;
static void *take_turns(void *unused) {
  for (int i = 0; i < 2000; i++) {
    pthread_mutex_lock(&mutex);
    turns++;
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

int main() {
  auto one = std::make_shared<int>(1);
  std::weak_ptr<int> seen = one;
  auto locked = seen.lock();
  pthread_t other;
  pthread_create(&other, nullptr, take_turns, nullptr);
  start();
  take_turns(nullptr);
  pthread_join(other, nullptr);
  printf("%ld turns, %ld holder, ", turns, finish());
  printf("%ld here\n", one.use_count());
}
#endif
