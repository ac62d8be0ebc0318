// threads_streams.cc: what threads have of C++'s streams and handlers.  Built by the system's
// compiler and by maru-cc, it prints the same.
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <new>
#include <string>
#include <thread>

static void show() {
  std::cout << 2.0 / 3 << ' ' << true << ' ' << 255 << ' ' << std::setw(6) << 42 << std::endl;
}

static void in_a_thread() { std::thread(show).join(); }

// What main has set for no memory, or for an exception that nobody catches, is called in a thread.
static int lacks() {
  std::set_terminate([] {
    std::cout << "nobody catches it" << std::endl;
    std::_Exit(0);
  });
  std::set_new_handler([] {
    std::cout << "no memory" << std::endl;
    std::set_new_handler(nullptr);
  });
  std::thread([] {
    volatile size_t much = size_t(1) << 50;
    char *volatile memory = new char[much];
    delete[] memory;
  }).join();
  return 1;
}

// A thread reads the input, and counts its lines.
static int count() {
  int lines = 0;
  std::thread([&] {
    for (std::string line; std::getline(std::cin, line); lines++)
      ;
  }).join();
  std::cout << lines << std::endl;
  return 0;
}

int main(int arguments, char **argument) {
  if (arguments > 1)
    return argument[1] == std::string("lacks") ? lacks() : count();
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
