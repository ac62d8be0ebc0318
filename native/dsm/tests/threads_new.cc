/* threads_new.cc: a program's own operator new and delete serve every form of them, in threads too.
 * Built by the system's compiler and by maru-cc, it prints the same.
 *
 *     threads-new
 */
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

static const long MARK = 4711;
static long made, freed;

/* A block that another function gave or frees is found out: the mark lies before it. */
void *operator new(std::size_t size) {
  long *block = static_cast<long *>(std::malloc(size + 2 * sizeof(long)));
  if (block == nullptr)
    throw std::bad_alloc();
  made++;
  block[0] = MARK;
  return block + 2;
}

void operator delete(void *place) noexcept {
  if (place == nullptr)
    return;
  long *block = static_cast<long *>(place) - 2;
  if (block[0] != MARK) {
    std::fputs("not so: every block is one of ours\n", stderr);
    std::_Exit(1);
  }
  block[0] = 0;
  freed++;
  std::free(block);
}

struct counted {
  long value[5] = {};
  ~counted() { value[0] = 1; }
};

static void use() {
  delete new counted;
  delete[] new counted[3];
  delete[] new int[7];
  delete new (std::nothrow) counted;
  delete[] new (std::nothrow) counted[2];
}

int main() {
  long before = made - freed, begun = made;
  use();
  std::printf("main: %ld made, %ld kept\n", made - begun, made - freed - before);
  begun = made;
  std::thread thread([&] {
    long mine = made;
    use();
    begun = made - mine;
  });
  thread.join();
  std::printf("a thread: %ld made, %ld kept\n", begun, made - freed - before);
}
