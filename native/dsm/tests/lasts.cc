// lasts.cc: a program of maru/dsm.h that has of libc what no memory of its own holds, for jobs that lose nodes.
//
//     lasts STEPS LOOPS     works for so many loops a step
//
// It jumps back to a place that it set in the beginning, out of many calls; it has a locale, an object that
// is static in a function, one that is thread-local, and functions of atexit and on_exit. What it prints
// at its end follows from that.
#include <maru/dsm.h>

#include <clocale>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace {

struct Says {
  const char *what;
  explicit Says(const char *text) : what(text) {}
  ~Says() {
    std::printf("%s\n", what);
    std::fflush(stdout);
  }
};

const Says before_main("before main");
thread_local const Says *own;
std::jmp_buf back;
sigjmp_buf far_back;
volatile long times;

const Says &inside() {
  static const Says says("static in a function");
  return says;
}

const Says &of_thread() {
  thread_local const Says says("thread-local");
  return says;
}

void last() { std::puts("atexit"); }
void last_with(int status, void *text) { std::printf("on_exit %d %s\n", status, static_cast<char *>(text)); }

void work(long loops) {
  volatile long sum = 0;
  for (long i = 0; i < loops; i++)
    sum = sum + i;
}

[[noreturn]] void go_down(int depth) {
  char room[100];
  std::snprintf(room, sizeof room, "%d", depth);
  if (depth > 0)
    go_down(std::atoi(room) - 1);
  if (times % 2 == 0)
    std::longjmp(back, 1);
  siglongjmp(far_back, 2);
}

} // namespace

int main(int count, char **arguments) {
  static char text[] = "text";
  const long steps = count > 1 ? std::atol(arguments[1]) : 10, loops = count > 2 ? std::atol(arguments[2]) : 0;
  maru_dsm_init();
  std::atexit(last);
  on_exit(last_with, text);
  inside();
  own = &of_thread();
  if (std::setlocale(LC_ALL, "C.UTF-8") == nullptr)
    return 77;
  const int jumped = setjmp(back) + sigsetjmp(far_back, 1);
  if (times < steps) {
    work(loops);
    maru_dsm_barrier(1);
    times = times + 1;
    go_down(20);
  }
  std::printf("%ld %d %s %d %s\n", static_cast<long>(times), jumped > 0, std::setlocale(LC_ALL, nullptr), static_cast<int>(MB_CUR_MAX), own->what);
  maru_dsm_exit();
  return 0;
}
