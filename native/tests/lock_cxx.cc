// Description: maru::mutex where the standard library takes a lockable: guards, several at once,
// conditions, deadlines.
#include <maru/lock.hpp>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                         \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)

static constexpr auto liveness = 60s; // asserted where something must happen

static maru::mutex declared; // initialised before any code runs
static_assert(std::is_nothrow_default_constructible_v<maru::mutex>);
static_assert(!std::is_copy_constructible_v<maru::mutex>);

template <class Mutex> static void guards(Mutex &mutex) {
  constexpr int threads = 4, rounds = 2000;
  long value = 0;
  std::vector<std::thread> visitors;
  for (int i = 0; i < threads; i++)
    visitors.emplace_back([&] {
      for (int round = 0; round < rounds; round++) {
        std::lock_guard<Mutex> guard(mutex);
        value++;
      }
    });
  for (auto &visitor : visitors)
    visitor.join();
  CHECK(value == static_cast<long>(threads) * rounds);
}

// Two threads take the same two in opposite order; each step needs both.
static void several() {
  maru::mutex one;
  maru::cna_mutex other("cna:handoff_range=4");
  long value = 0;
  std::thread visitor([&] {
    for (int i = 0; i < 2000; i++) {
      std::scoped_lock both(one, other);
      value++;
    }
  });
  for (int i = 0; i < 2000; i++) {
    std::scoped_lock both(other, one);
    value++;
  }
  visitor.join();
  CHECK(value == 4000);
}

static void conditions() {
  maru::mutex mutex;
  std::condition_variable_any changed;
  std::deque<int> queue;
  long sum = 0;
  bool over = false;
  std::thread consumer([&] {
    for (;;) {
      std::unique_lock<maru::mutex> lock(mutex);
      CHECK(changed.wait_for(lock, liveness, [&] { return over || !queue.empty(); }));
      if (queue.empty())
        return;
      sum += queue.front();
      queue.pop_front();
    }
  });
  for (int i = 1; i <= 1000; i++) {
    std::lock_guard<maru::mutex> guard(mutex);
    queue.push_back(i);
    changed.notify_one();
  }
  {
    std::lock_guard<maru::mutex> guard(mutex);
    over = true;
    changed.notify_one();
  }
  consumer.join();
  CHECK(sum == 500500);
}

struct other_clock { // none that maru/lock.h knows
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<other_clock>;
  static constexpr bool is_steady = true;
  static time_point now() {
    return time_point(std::chrono::duration_cast<duration>(
        std::chrono::steady_clock::now().time_since_epoch() + 5min));
  }
};

static void deadlines(maru::mutex &mutex) {
  std::unique_lock<maru::mutex> held(mutex);
  std::thread([&] {
    CHECK(!mutex.try_lock());
    auto before = std::chrono::steady_clock::now();
    CHECK(!mutex.try_lock_for(20ms));
    CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() + 20ms));
    CHECK(!mutex.try_lock_until(other_clock::now() + 20ms));
    CHECK(std::chrono::steady_clock::now() - before >= 59ms); // that clock shows whole milliseconds
    CHECK(!mutex.try_lock_until(std::chrono::steady_clock::now() - 1s));
  }).join();
  std::thread waiter([&] {
    std::unique_lock<maru::mutex> lock(mutex, std::defer_lock);
    CHECK(lock.try_lock_for(liveness));
  });
  held.unlock();
  waiter.join();
}

// Times that no clock will show, and such that none ever showed.
static void endless(maru::mutex &mutex) {
  std::unique_lock<maru::mutex> held(mutex);
  std::thread([&] {
    CHECK(!mutex.try_lock_for(std::chrono::hours::min()));
    CHECK(!mutex.try_lock_until(std::chrono::system_clock::time_point::min()));
    CHECK(!mutex.try_lock_until(std::chrono::steady_clock::time_point::min()));
    CHECK(!mutex.try_lock_until(other_clock::time_point::min()));
  }).join();
  auto waits = [&](auto &&take) {
    return std::thread([&mutex, take] {
      CHECK(take());
      mutex.unlock();
    });
  };
  std::thread waiters[] = {
      waits([&] { return mutex.try_lock_for(std::chrono::hours::max()); }),
      waits([&] { return mutex.try_lock_for(std::chrono::nanoseconds::max()); }),
      waits([&] { return mutex.try_lock_for(std::chrono::duration<double>(1e300)); }),
      waits([&] { return mutex.try_lock_until(std::chrono::system_clock::time_point::max()); }),
      waits([&] { return mutex.try_lock_until(std::chrono::steady_clock::time_point::max()); }),
      waits([&] { return mutex.try_lock_until(other_clock::time_point::max()); })};
  std::this_thread::sleep_for(20ms); // so that they wait
  held.unlock();
  for (auto &waiter : waiters)
    waiter.join();
}

template <class Act> static int error_of(Act act) {
  try {
    act();
  } catch (const std::system_error &error) {
    CHECK(error.code().category() == std::generic_category());
    return error.code().value();
  }
  return 0;
}

static void refusals() {
  CHECK(error_of([] { maru::mutex mutex("nonsense"); }) == EINVAL);
  CHECK(error_of([] { maru::mutex mutex("cna:handoff_range=3"); }) == EINVAL);
  maru::basic_mutex<MARU_LOCK_KINDS> unknown;
  CHECK(error_of([&] { unknown.lock(); }) == EINVAL);
  CHECK(error_of([&] { unknown.try_lock(); }) == EINVAL);
}

int main() {
  maru::cna_mutex cna;
  maru::mutex told("mcs:wait=block");
  guards(declared);
  guards(cna);
  guards(told);
  several();
  conditions();
  deadlines(declared);
  endless(declared);
  refusals();
  CHECK(declared.native_handle()->kind == MARU_LOCK_DEFAULT);
}
