// iostreams: a program of maru/dsm.h that prints by C++'s streams, for jobs that lose nodes.
//
//     iostreams STEPS MILLISECONDS [apart|caught|global|imbued|word|named|reads]     works for so
//     long a step
//
// Format, exceptions and handlers are set once, in the beginning. `apart`: not synchronised with
// stdio, and never flushed. `caught`: waits in a handler of an exception. The others: with what no
// checkpoint can hold; `reads`: node 0 has read its input ahead.
#include <maru/dsm.h>

#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <locale>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

enum : std::uint32_t { meet = 1 };

struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
};

void no_memory() {
  std::cout << "no memory\n";
  std::set_new_handler(nullptr);
}

void work(long ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < end)
    maru_checkpoint();
}

void step(long number, long ms) {
  work(ms);
  std::cout << "step " << std::setw(4) << number << ' ' << static_cast<double>(number) / 7 << '\n';
  std::wcerr.width(static_cast<std::streamsize>(number));
  maru_dsm_barrier(meet);
}

void step_caught(long number, long ms) {
  try {
    throw std::runtime_error("step " + std::to_string(number));
  } catch (const std::runtime_error &error) {
    step(number, ms);
    std::cout << error.what() << '\n';
  }
}

std::ostringstream named;

void begin(const std::string &what) {
  const std::locale commas(std::locale::classic(), new Commas);
  if (what == "apart" || what == "reads")
    std::ios_base::sync_with_stdio(false);
  std::cout << std::fixed << std::setprecision(3) << std::setfill('*');
  std::cout.exceptions(std::ios_base::badbit);
  std::set_new_handler(no_memory);
  if (what == "global")
    std::locale::global(commas);
  if (what == "imbued")
    std::cout.imbue(commas);
  if (what == "word")
    std::cout.iword(std::ios_base::xalloc()) = 1;
  if (what == "named")
    named.imbue(std::locale("C.UTF-8"));
  std::string word;
  if (what == "reads" && maru_dsm_node() == 0)
    std::cin >> word;
}

void end() {
  try {
    volatile std::size_t much = std::size_t{1} << 60;
    std::cout << static_cast<void *>(new char[much]) << '\n';
  } catch (const std::bad_alloc &) {
    std::cout << "told so\n";
  }
  std::cout << static_cast<int>(std::cout.exceptions()) << ' ' << std::wcerr.width() << '\n';
}

} // namespace

int main(int count, char **arguments) {
  const long steps = count > 1 ? std::atol(arguments[1]) : 10,
             ms = count > 2 ? std::atol(arguments[2]) : 0;
  const std::string what = count > 3 ? arguments[3] : "";
  maru_dsm_init();
  begin(what);
  for (long number = 0; number < steps; number++)
    what == "caught" ? step_caught(number, ms) : step(number, ms);
  end();
  maru_dsm_exit();
}
