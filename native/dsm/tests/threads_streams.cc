// threads_streams.cc: what C++'s streams are in threads.  Built by the system's compiler and by
// maru-cc, it prints the same.
#include <iomanip>
#include <iostream>
#include <string>
#include <thread>

static void show() {
  std::cout << 2.0 / 3 << ' ' << true << ' ' << 255 << ' ' << std::setw(6) << 42 << std::endl;
}

static void in_a_thread() { std::thread(show).join(); }

// Who reads is a thread, and counts what came.
static int count() {
  int lines = 0;
  std::thread([&] {
    for (std::string line; std::getline(std::cin, line); lines++)
      ;
  }).join();
  std::cout << lines << std::endl;
  return 0;
}

int main(int arguments, char **) {
  if (arguments > 1)
    return count();
  in_a_thread();
  std::cout << std::fixed << std::setprecision(2) << std::boolalpha;
  in_a_thread();
  std::cout << std::hex << std::showbase << std::setfill('*');
  std::cerr << std::hex;
  in_a_thread();
  std::thread([] {
    show();
    std::cout << std::scientific << std::dec;
    in_a_thread();
  }).join();
  std::thread([] {
    std::cerr << 255 << std::endl;
    std::cout << std::stoi("12") << std::endl;
  }).join();
  return 0;
}
