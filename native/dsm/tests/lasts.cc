// lasts.cc: a program of maru/dsm.h that has of libc what no memory of its own holds, for jobs that lose nodes.
//
//     lasts STEPS MILLISECONDS     works for so long a step
//
// It jumps back to a place that it set in the beginning, out of many calls; it has a locale, an object that
// is static in a function, one that is thread-local, and functions of atexit and on_exit. It is in the middle
// of its options and of a text of words, and has the time of two moments. It ignores a signal, and is in another
// folder and umask than in the beginning. What it prints at its end follows from that.
#include <maru/dsm.h>

#include <chrono>
#include <clocale>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <sys/stat.h>
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

void print_process() {
  char folder[64] = "";
  const auto pipes = std::signal(SIGPIPE, SIG_DFL);
  std::printf("in %s, umask %o, pipes %s\n", getcwd(folder, sizeof folder) != nullptr ? folder : "none", umask(0), pipes == SIG_IGN ? "ignored" : "not");
}

void work(long ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < end)
    continue;
}

void print_rest(int count, char **arguments, const std::tm *day, const char *text) {
  char said[64];
  std::strftime(said, sizeof said, "%F %T %Z", day);
  std::printf("%s, %s", said, text);
  const char *word = std::strtok(nullptr, " ");
  std::printf("%s, %d of %d, %s\n", word != nullptr ? word : "no word", optind, count, getopt(count, arguments, "a:b") == 'b' ? "b" : "no b");
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
  const long steps = count > 1 ? std::atol(arguments[1]) : 10, ms = count > 2 ? std::atol(arguments[2]) : 0;
  maru_dsm_init();
  std::atexit(last);
  on_exit(last_with, text);
  inside();
  own = &of_thread();
  if (std::setlocale(LC_ALL, "C.UTF-8") == nullptr)
    return 77;
  static char words[] = "one two three";
  const time_t moments[] = {0, 86400};
  char *options[] = {arguments[0], const_cast<char *>("-a"), const_cast<char *>("1"), const_cast<char *>("-b"), nullptr};
  static char put[] = "LASTS_PUT=put";
  char literal[] = "HOME";
  if (setenv("LASTS_OLD", "old", 1) < 0 || clearenv() < 0 || std::getenv("LASTS_OLD") != nullptr || std::getenv(literal) != nullptr)
    return 81;
  for (int i = 0; i < 99; i++)
    setenv(("LASTS_" + std::to_string(i)).c_str(), "many", 1);
  if (setenv("TZ", "XYZ-3", 1) < 0 || setenv("LASTS_NOT", "is", 1) < 0 || putenv(put) < 0 || putenv(const_cast<char *>("LASTS_CONSTANT=is")) < 0 || unsetenv("LASTS_NOT") < 0)
    return 79;
  if (chdir("/proc") < 0 || std::signal(SIGPIPE, SIG_IGN) == SIG_ERR)
    return 80;
  umask(0123);
  const char *zone = std::getenv("TZ");
  const char *told = std::ctime(&moments[0]);
  const std::tm *day = std::localtime(&moments[1]);
  if (std::strtok(words, " ") == nullptr || getopt(4, options, "a:b") != 'a')
    return 78;
  const int jumped = setjmp(back) + sigsetjmp(far_back, 1);
  if (times < steps) {
    work(ms);
    maru_dsm_barrier(1);
    times = times + 1;
    go_down(20);
  }
  std::printf("%ld %d %s %d %s\n", static_cast<long>(times), jumped > 0, std::setlocale(LC_ALL, nullptr), static_cast<int>(MB_CUR_MAX), own->what);
  print_rest(4, options, day, told);
  print_process();
  std::printf("%s %s %s %s\n", zone, std::getenv("LASTS_98"), std::getenv("LASTS_PUT"), std::getenv("LASTS_NOT") == nullptr && std::getenv("LASTS_OLD") == nullptr && std::getenv("LASTS_CONSTANT") != nullptr ? "no" : "yes");
  maru_dsm_exit();
  return 0;
}
