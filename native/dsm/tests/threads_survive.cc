// threads_survive.cc: threads of a program whose nodes are lost.  Built by the system's compiler
// and by maru-cc, without a loss and with some, it prints the same lines, in any order.
//
//     threads_survive THREADS ROUNDS
//
// In each of ROUNDS waves there are THREADS threads, and others that they wait for.  What a thread
// has of its own is looked at behind a lock: there a node may go on in another process.
#include <array>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <thread>
#include <vector>

namespace {

std::mutex lock;
std::condition_variable turned;
std::map<std::string, long> totals; // by `lock`
std::vector<std::exception_ptr> thrown;
long announced; // by `lock`
pthread_key_t key;
pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
sem_t rooms;
long rounds, threads;

void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

struct Own {
  long value = 11;
  ~Own() {
    std::lock_guard<std::mutex> held(lock);
    totals["destroyed"] += value;
  }
};
thread_local Own own;
thread_local std::array<long, 300> local;

void end_key(void *value) {
  std::lock_guard<std::mutex> held(lock);
  totals["keys"] += *static_cast<long *>(value);
  delete static_cast<long *>(value);
}

long shared_once() {
  static const std::vector<long> made = [] {
    std::lock_guard<std::mutex> held(lock);
    return std::vector<long>{static_cast<long>(totals.size() > 0), 41};
  }();
  return made[1];
}

long fibonacci(unsigned n) {
  if (n < 2)
    return n;
  if (n < 8)
    return fibonacci(n - 1) + fibonacci(n - 2);
  long left = 0;
  std::thread other([&] { left = fibonacci(n - 1); });
  long right = fibonacci(n - 2);
  other.join();
  return left + right;
}

void announce() {
  std::lock_guard<std::mutex> held(lock);
  announced++;
  turned.notify_all();
}

// What is caught stays caught, too.
void fail(long me) {
  try {
    throw std::runtime_error("of thread " + std::to_string(me));
  } catch (...) {
    for (int i = 0; i < 20; i++)
      announce();
    throw;
  }
}

// Whether what was before a lock is behind it.
void look(long me, unsigned round, long &sum) {
  char text[100];
  std::jmp_buf place;
  std::snprintf(text, sizeof text, "thread %ld in round %u", me, round);
  volatile bool jumped = false;
  if (setjmp(place) == 0) {
    announce();
    jumped = true;
    std::longjmp(place, 1);
  }
  require(jumped && text == "thread " + std::to_string(me) + " in round " + std::to_string(round),
          "a stack stays");
  require(local[me] == sum && own.value == 11 + sum, "thread-local variables stay");
  require(*static_cast<long *>(pthread_getspecific(key)) == me, "values of keys stay");
}

void work(long me) {
  long sum = 0;
  pthread_setspecific(key, new long(me));
  for (unsigned round = 0; round < 3; round++) {
    sem_wait(&rooms);
    sum += shared_once();
    sem_post(&rooms);
    sum += fibonacci(9);
    local[me] = sum;
    own.value = 11 + sum;
    look(me, round, sum);
    pthread_rwlock_rdlock(&table);
    long seen = static_cast<long>(thrown.size());
    pthread_rwlock_unlock(&table);
    pthread_rwlock_wrlock(&table);
    require(static_cast<long>(thrown.size()) >= seen, "what is shared stays");
    try {
      fail(me);
    } catch (...) {
      thrown.push_back(std::current_exception());
    }
    pthread_rwlock_unlock(&table);
  }
  std::lock_guard<std::mutex> held(lock);
  totals["sum"] += sum;
}

void *run(void *me) {
  work(reinterpret_cast<long>(me));
  return me;
}

void wave(long round, std::ofstream &log) {
  std::vector<pthread_t> all(threads);
  announced = 0;
  for (long i = 0; i < threads; i++)
    require(pthread_create(&all[i], nullptr, run, reinterpret_cast<void *>(i)) == 0,
            "pthread_create");
  {
    std::unique_lock<std::mutex> held(lock);
    while (announced < 63 * threads)
      turned.wait(held);
  }
  for (long i = 0; i < threads; i++) {
    void *me;
    require(pthread_join(all[i], &me) == 0 && me == reinterpret_cast<void *>(i), "pthread_join");
  }
  long lengths = 0;
  for (const std::exception_ptr &each : thrown)
    try {
      std::rethrow_exception(each);
    } catch (const std::exception &caught) {
      lengths += static_cast<long>(std::strlen(caught.what()));
    }
  thrown.clear();
  std::lock_guard<std::mutex> held(lock);
  setenv("ROUND", std::to_string(round + 1).c_str(), 1);
  for (const auto &[name, total] : totals)
    log << round << ' ' << name << ' ' << total << '\n';
  std::printf("round %ld: %ld, %ld letters\n", round, totals["sum"], lengths);
}

// By a timer, on each node of those where a thread looks.
thread_local volatile long beats;
void beat(int) { beats = beats + 1; }

void handles() {
  struct sigaction is;
  require(sigaction(SIGALRM, nullptr, &is) == 0 && is.sa_handler == beat &&
              (is.sa_flags & SA_ONSTACK) == 0,
          "handlers of signals stay");
}

void say_end() { std::printf("ended after round %s\n", std::getenv("ROUND")); }

} // namespace

int main(int count, char **arguments) {
  if (count != 3)
    return 64;
  threads = std::atol(arguments[1]);
  rounds = std::atol(arguments[2]);
  std::atexit(say_end);
  pthread_key_create(&key, end_key);
  sem_init(&rooms, 0, 2);
  std::ofstream log("threads-survive.log");
  const itimerval often{{0, 10000}, {0, 10000}};
  std::signal(SIGALRM, beat);
  setitimer(ITIMER_REAL, &often, nullptr);
  for (long round = 0; round < rounds; round++) {
    wave(round, log);
    handles();
  }
  std::signal(SIGALRM, SIG_IGN);
  log.close();
  std::ifstream again("threads-survive.log");
  for (std::string line; std::getline(again, line);)
    std::printf("log: %s\n", line.c_str());
}
