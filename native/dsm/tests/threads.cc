/* threads.cc: threads of C++ in a program: objects, containers and thread_local variables, mutexes
 * and condition variables, by two locks of each kind at once.  Built by the system's compiler and
 * by maru-cc, it prints the same.
 *
 *     threads-cc [THREADS]
 */
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

static std::map<std::string, long> before_main = {{"one", 1},
                                                  {"a name too long for its own place", 2}};
static std::mutex mutex;
static std::condition_variable changed;
static std::shared_mutex shared;
static std::once_flag once, twice;
static long turn, throws, ended, calls, made, tries;

/* Destroyed at the end of each thread that used one. */
struct guest {
  long value = 0;
  ~guest() {
    std::lock_guard<std::mutex> lock(mutex);
    ended += value;
  }
};
static thread_local guest visitor;

static void require(bool holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
  }
}

/* The first to try throws: the next one does it. */
static void try_twice() {
  try {
    std::call_once(twice, [] {
      if (throws++ == 0)
        throw 1;
    });
  } catch (int) {
    std::call_once(twice, [] { throws++; });
  }
  require(throws == 2, "what threw is called again, once");
}

/* Made once, by the thread that comes first; the others wait for it. */
struct slow {
  long number;
  slow() {
    usleep(200000);
    std::lock_guard<std::mutex> lock(mutex);
    number = ++made;
  }
};
static long only() {
  static slow one;
  return one.number;
}

/* The first to try throws: the next one makes it. */
struct second_try {
  second_try() {
    std::lock_guard<std::mutex> lock(mutex);
    if (tries++ == 0)
      throw 1;
  }
};
static void make_twice() { static second_try one; }
static void try_to_make() {
  try {
    make_twice();
  } catch (int) {
    make_twice();
  }
  require(tries == 2, "what threw while it was made is made again, once");
}

static const std::string &name() {
  static std::string made_before_main = "a name that was made before main";
  return made_before_main;
}
static const size_t length = name().size();

static void take_turns(long me, long all, std::vector<std::string> &said) {
  visitor.value = me + 1;
  std::call_once(once, [] { calls++; });
  require(calls == 1, "what was called once is seen");
  try_twice();
  require(only() == 1 && made == 1, "what is static in a function is made once");
  try_to_make();
  require(name().size() == length, "and what was made before main");
  for (int round = 0; round < 5; round++) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return turn % all == me; });
    said.push_back("thread " + std::to_string(me) + ", round " + std::to_string(round));
    turn++;
    changed.notify_all();
  }
  std::unique_lock<std::shared_mutex> lock(shared);
  before_main["by thread " + std::to_string(me)] = me;
}

int main(int count, char **arguments) {
  long all = count > 1 ? atol(arguments[1]) : 2;
  std::vector<std::string> said;
  std::vector<std::thread> threads;
  auto numbers = std::make_unique<std::vector<int>>(1000, 2);
  for (long i = 0; i < all; i++)
    threads.emplace_back(take_turns, i, all, std::ref(said));
  for (auto &thread : threads)
    thread.join();
  long sum = 0;
  std::thread adds([&] {
    for (int number : *numbers)
      sum += number;
  });
  adds.join();
  for (const std::string &line : said)
    printf("%s\n", line.c_str());
  for (const auto &entry : before_main)
    printf("%s %ld\n", entry.first.c_str(), entry.second);
  bool thrown = false;
  try {
    adds.join();
  } catch (const std::system_error &) {
    thrown = true;
  }
  std::lock_guard<std::mutex> lock(mutex);
  printf("%ld %ld %ld %d %ld %s\n", turn, ended, sum, thrown, only(), name().c_str());
  return 0;
}
