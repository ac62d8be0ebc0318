// Description: C++'s own locks, made before main and by it, as their library uses them.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex early;
static std::recursive_mutex nested;
static std::timed_mutex timed;
static long count = [] {
  std::lock_guard<std::mutex> held(early); // before main, perhaps before the overlay
  return 0L;
}();

int main() {
  std::condition_variable changed;
  std::vector<std::thread> threads;
  int left = 8;
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; i++) {
        std::lock_guard<std::recursive_mutex> outer(nested), inner(nested);
        std::lock_guard<std::mutex> held(early);
        count++;
        if (timed.try_lock_for(std::chrono::microseconds(20)))
          timed.unlock();
      }
      std::lock_guard<std::mutex> held(early);
      left--;
      changed.notify_one();
    });
  {
    std::unique_lock<std::mutex> held(early);
    while (!changed.wait_for(held, std::chrono::milliseconds(1), [&] { return left == 0; }))
      continue;
  }
  for (auto &thread : threads)
    thread.join();
  if (count != 40000)
    std::printf("%ld of 40000\n", count);
  return count != 40000;
}
