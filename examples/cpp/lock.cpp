// Two accounts, two maru::mutex: transfers in both directions lock both, in whatever order they
// come.
//
//     c++ -std=c++17 lock.cpp $(pkg-config --cflags --libs maru) -pthread
#include <maru/lock.hpp>

#include <cstdio>
#include <mutex>
#include <thread>

struct account {
  maru::mutex mutex;
  long money = 1000;
};

static void transfer(account &from, account &to, long times) {
  for (long i = 0; i < times; i++) {
    std::scoped_lock both(from.mutex, to.mutex);
    from.money--;
    to.money++;
  }
}

int main() {
  account one, other;
  std::thread there(transfer, std::ref(one), std::ref(other), 2000);
  std::thread back(transfer, std::ref(other), std::ref(one), 1000);
  there.join();
  back.join();
  std::printf("%ld %ld\n", one.money, other.money);
}
