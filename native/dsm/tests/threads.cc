/* threads.cc: threads of C++ in a program: objects, containers and thread_local variables, mutexes
 * and condition variables, by two locks of each kind at once.  Built by the system's compiler and
 * by maru-cc, it prints the same.
 *
 *     threads-cc [THREADS]
 */
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

static const int HOLDS = 2000;
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

/* What one thread throws another may catch; also what a library throws, or a thread throws again.
 */
static std::exception_ptr thrown_by(long me) {
  try {
    if (me == 0)
      (void)std::string("short").at(7 + turn);
    throw std::runtime_error("thrown by thread " + std::to_string(me));
  } catch (...) {
    return std::current_exception();
  }
}
static std::exception_ptr passed_on(std::exception_ptr found) {
  std::exception_ptr again;
  std::thread passes([&] {
    try {
      std::rethrow_exception(found);
    } catch (...) {
      again = std::current_exception();
    }
  });
  passes.join();
  return again;
}
static void catch_theirs(long all) {
  std::vector<std::exception_ptr> theirs(all);
  std::vector<std::thread> threads;
  for (long i = 0; i < all; i++)
    threads.emplace_back([&theirs, i] { theirs[i] = thrown_by(i); });
  for (auto &thread : threads)
    thread.join();
  for (const std::exception_ptr &found : theirs)
    try {
      std::rethrow_exception(passed_on(found));
    } catch (const std::exception &caught) {
      printf("%s\n", caught.what());
    }
}

/* Each holder takes it, also by a weak_ptr or from itself, and lets go again and again; the last
 * one destroys it. */
static long destroyed, held_by_all;
struct held : std::enable_shared_from_this<held> {
  long by[16] = {};
  ~held() {
    std::lock_guard<std::mutex> lock(mutex);
    destroyed++;
    held_by_all = std::accumulate(by, by + 16, 0L);
  }
};
static void hold_it(long all) {
  auto one = std::make_shared<held>();
  std::weak_ptr<held> seen = one;
  std::vector<std::thread> threads;
  for (long i = 0; i < all; i++)
    threads.emplace_back([one, seen, i] {
      for (int round = 0; round < HOLDS; round++) {
        std::shared_ptr<held> again = round % 3 == 0   ? one
                                      : round % 3 == 1 ? seen.lock()
                                                       : one->shared_from_this();
        again->by[i]++;
      }
    });
  one.reset();
  for (auto &thread : threads)
    thread.join();
  require(seen.expired() && seen.lock() == nullptr && destroyed == 1,
          "the last one destroys what all held, once");
  printf("all held it %ld times\n", held_by_all);
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
  catch_theirs(all);
  hold_it(all);
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
