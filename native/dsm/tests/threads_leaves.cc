/* threads_leaves.cc: where a thread leaves by pthread_exit what lies in its frames is destroyed,
 * from the innermost on; threads_leaves.c has a frame of C among them. Built by the system's
 * compiler and by maru-cc, it prints the same.
 *
 *     threads-leaves [keeps]   "keeps": catches that and does not throw it again
 */
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

extern "C" void leave_through_c(void (*leave)(), void (*clean)(void *), void *argument);

static std::mutex mutex;
static std::string order;

static void note(const char *what) { order += std::string(" ") + what; }

static void say(const char *what) {
  std::printf("%s:%s\n", what, order.c_str());
  order.clear();
}

struct noted {
  const char *name;
  explicit noted(const char *name) : name(name) {}
  ~noted() { note(name); }
};

static void leave_here() {
  noted inner("inner");
  std::lock_guard<std::mutex> held(mutex);
  pthread_exit(nullptr);
}

static void note_cleanup(void *name) { note(static_cast<const char *>(name)); }

static void *leave(void *) {
  noted outer("outer");
  pthread_cleanup_push(note_cleanup, const_cast<char *>("pushed"));
  try {
    leave_through_c(leave_here, note_cleanup, const_cast<char *>("C"));
  } catch (...) {
    note("caught");
    throw;
  }
  pthread_cleanup_pop(0);
  return nullptr;
}

static void *keep(void *) {
  try {
    pthread_exit(nullptr);
  } catch (...) {
  }
  return nullptr;
}

static void run(void *(*body)(void *)) {
  pthread_t id;
  pthread_create(&id, nullptr, body, nullptr);
  pthread_join(id, nullptr);
}

/* What it was made from goes as well. */
static void of_std_thread() {
  struct counted {
    const char *name;
    counted(const char *name) : name(name) {}
    counted(counted &&other) : name(std::exchange(other.name, nullptr)) {}
    ~counted() {
      if (name != nullptr)
        note(name);
    }
    void operator()() { leave_here(); }
  };
  std::thread(counted("made from")).join();
}

static void notified() {
  std::condition_variable ended;
  bool is_set = false;
  std::thread thread([&] {
    std::unique_lock<std::mutex> held(mutex);
    static thread_local noted own("own");
    note("waits");
    is_set = true;
    std::notify_all_at_thread_exit(ended, std::move(held));
  });
  std::unique_lock<std::mutex> held(mutex);
  ended.wait(held, [&] { return is_set; });
  held.unlock();
  thread.join();
}

static void locked_twice() {
  std::shared_mutex shared;
  std::thread([&] {
    std::lock_guard<std::shared_mutex> held(shared);
    try {
      shared.lock();
    } catch (const std::system_error &error) {
      order = " " + error.code().message();
    }
  }).join();
}

int main(int count, char **) {
  if (count > 1) {
    run(keep);
    return 0;
  }
  run(leave);
  say("a thread leaves");
  mutex.lock();
  mutex.unlock();
  of_std_thread();
  say("a std::thread leaves");
  notified();
  say("notified at its end");
  locked_twice();
  say("locked twice");
  struct last {
    ~last() { std::puts("main leaves"); }
  } last;
  pthread_exit(nullptr);
}
