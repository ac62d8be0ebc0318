/* threads_kept.cc: a library that keeps what a program of threads gave it until its own destructors
 * run, which is after the program's; with the argument `leave` they end the process, with `wait`
 * they take their time.  Built twice: with LIBRARY, and as the program.
 */
#include <cstdio>
#include <map>
#include <string>
#include <unistd.h>

long *keep(const std::string &name);

#ifdef LIBRARY
struct kept : std::map<std::string, long> {
  ~kept() {
    long sum = 0;
    for (auto &entry : *this)
      sum += entry.second;
    printf("kept %ld\n", sum);
    fflush(stdout);
    if (count("wait") > 0)
      sleep(40);
    if (count("leave") > 0)
      _exit(0);
  }
};
static kept all;
long *keep(const std::string &name) { return &all[name]; }
#else
#include <mutex>
#include <thread>
#include <vector>

static std::mutex mutex;

/* What the library keeps is shared, but not its variables: main alone calls it. */
int main(int count, char **arguments) {
  std::vector<std::thread> threads;
  std::vector<long *> places;
  if (count > 1)
    *keep(arguments[1]) = 0;
  for (long i = 0; i < 1000; i++)
    places.push_back(keep("a name too long for its own place, " + std::to_string(i)));
  for (size_t me = 0; me < 2; me++)
    threads.emplace_back([&, me] {
      std::lock_guard<std::mutex> lock(mutex);
      for (size_t i = me; i < places.size(); i += 2)
        *places[i] = (long)i;
    });
  for (auto &thread : threads)
    thread.join();
}
#endif
