/* files: a program of maru/dsm.h that reads an input in pieces and writes results between barriers,
 * by each way to read and write; for jobs that lose nodes.
 *
 *     files INPUT STEPS [MILLISECONDS [WHAT]]
 *
 * INPUT has lines of WIDTH bytes, PIECE for each step.  The work has four parts, each with its own
 * way, which the nodes share out.  Each has INPUT open, and writes a line a step to out-PART here.
 * What they write follows from INPUT and STEPS alone, not from the number of nodes.
 *
 * WHAT is what no checkpoint can hold: append, both, locked, memory, nameless, pipe, twice, wide;
 * or what one can: unwritten, a file that stays empty; log, one for each part, opened for each line
 * that is appended.
 */
#include <maru/dsm.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <string>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <vector>
#include <wchar.h>

namespace {

constexpr int PARTS = 4, PIECE = 200, WIDTH = 8;
constexpr uint32_t MEET = 1;
unsigned long *cells; // shared

unsigned long mix(unsigned long x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdul;
  return x ^ x >> 29;
}

[[noreturn]] void fail(const char *what) {
  perror(what);
  exit(4);
}

struct Part {
  virtual ~Part() = default;
  virtual unsigned long next() = 0;
  virtual void tell(const char *line) = 0;
};

struct Stdio : Part {
  FILE *in, *out;
  char *line = nullptr;
  size_t room = 0;
  Stdio(const char *input, const std::string &output)
      : in(fopen(input, "r")), out(fopen(output.c_str(), "w")) {
    if (in == nullptr || out == nullptr)
      fail(input);
  }
  ~Stdio() override {
    free(line);
    fclose(in);
    if (fclose(out) != 0)
      fail("fclose");
  }
  unsigned long next() override {
    return getline(&line, &room, in) == WIDTH ? strtoul(line, nullptr, 10) : 1000000007;
  }
  void tell(const char *line) override { fprintf(out, "%s\n", line); }
};

/* Two descriptors of one opening. */
struct Raw : Part {
  int in, out[2], turn = 0;
  Raw(const char *input, const std::string &output)
      : in(open(input, O_RDONLY | O_CLOEXEC)), out{open(output.c_str(),
                                                        O_WRONLY | O_CREAT | O_TRUNC, 0666),
                                                   -1} {
    out[1] = dup(out[0]);
    if (in < 0 || out[1] < 0)
      fail(input);
  }
  ~Raw() override {
    close(in);
    close(out[0]);
    close(out[1]);
  }
  unsigned long next() override {
    char line[WIDTH + 1] = "";
    return read(in, line, WIDTH) == WIDTH ? strtoul(line, nullptr, 10) : 1000000007;
  }
  void tell(const char *line) override {
    for (const char *each : {line, "\n"})
      if (write(out[turn++ % 2], each, strlen(each)) != (ssize_t)strlen(each))
        fail("write");
  }
};

/* One reads nothing ahead, the other writes line by line, as does what has another's descriptor. */
struct Unbuffered : Part {
  FILE *in, *out, *nothing;
  Unbuffered(const char *input, const std::string &output)
      : in(fopen(input, "re")),
        out(fdopen(open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), "w")),
        nothing(fopen("/dev/null", "r+")) {
    if (in == nullptr || out == nullptr || nothing == nullptr)
      fail(input);
    setvbuf(in, nullptr, _IONBF, 0);
    setvbuf(out, nullptr, _IOLBF, 0);
  }
  ~Unbuffered() override {
    fclose(in);
    fclose(out);
    fclose(nothing);
  }
  unsigned long next() override {
    unsigned long value;
    return fscanf(in, "%lu", &value) == 1 ? value : 1000000007;
  }
  void tell(const char *line) override {
    fprintf(out, "%s\n", line);
    fprintf(nothing, "%s\n", line);
  }
};

struct Cxx : Part {
  std::ifstream in;
  std::ofstream out;
  Cxx(const char *input, const std::string &output) : in(input), out(output) {}
  unsigned long next() override {
    unsigned long value;
    return in >> value ? value : 1000000007;
  }
  void tell(const char *line) override { out << line << '\n'; }
};

std::unique_ptr<Part> make(int number, const char *input) {
  std::string output = "out-" + std::to_string(number);
  switch (number) {
  case 0:
    return std::make_unique<Stdio>(input, output);
  case 1:
    return std::make_unique<Raw>(input, output);
  case 2:
    return std::make_unique<Unbuffered>(input, output);
  default:
    return std::make_unique<Cxx>(input, output);
  }
}

void work_for(long ms) {
  timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do
    clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

void append(int part, long step) {
  FILE *log = fopen(("log-" + std::to_string(part)).c_str(), "a");
  if (log == nullptr || fprintf(log, "part %d, step %ld\n", part, step) < 0 || fclose(log) != 0)
    fail("log");
}

/* Half of what a step tells is told before a barrier. */
void do_step(long step, Part &early, std::vector<std::unique_ptr<Part>> &parts, long ms,
             bool logs) {
  int nodes = (int)maru_dsm_nodes(), me = (int)maru_dsm_node();
  std::vector<unsigned long> sums;
  unsigned long first = early.next();
  for (int i = me; i < PARTS; i += nodes) {
    unsigned long sum = cells[(i + 1) % PARTS] + first + (unsigned long)i;
    for (int k = 0; k < PIECE; k++)
      sum = mix(sum + parts[i]->next());
    sums.push_back(sum);
    parts[i]->tell(("step " + std::to_string(step)).c_str());
    if (logs)
      append(i, step);
  }
  work_for(ms);
  maru_dsm_barrier(MEET);
  for (int i = me; i < PARTS; i += nodes) {
    cells[i] = sums[(size_t)(i / nodes)];
    parts[i]->tell(std::to_string(cells[i]).c_str());
  }
  maru_dsm_barrier(MEET);
}

/* A program may go on for long with what it has opened so. */
void keep(const std::string &what, const char *input) {
  int fds[2] = {0, 0}, fd = 0;
  FILE *stream = nullptr;
  static char text[] = "text";
  if (what == "append")
    fd = open("out-more", O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (what == "unwritten")
    fd = open("out-more", O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (what == "both")
    fd = open("out-more", O_RDWR | O_CREAT, 0666);
  if (what == "locked" && ((fd = open(input, O_RDONLY)) < 0 || flock(fd, LOCK_SH) < 0))
    fail(input);
  if (what == "memory" && (stream = fmemopen(text, sizeof text, "r")) == nullptr)
    fail("fmemopen");
  /* Of its own: else another node might take the name away between the two calls. */
  std::string own = "out-more-" + std::to_string(maru_dsm_node());
  if (what == "nameless" &&
      ((fd = open(own.c_str(), O_WRONLY | O_CREAT, 0666)) < 0 || unlink(own.c_str()) < 0))
    fail("out-more");
  if (what == "pipe" && pipe(fds) < 0)
    fail("pipe");
  if (what == "twice" &&
      (open("out-more", O_WRONLY | O_CREAT, 0666) < 0 || (fd = open("out-more", O_RDONLY)) < 0))
    fail("out-more");
  if (what == "wide" && ((stream = fopen(input, "r")) == nullptr || fgetwc(stream) == WEOF))
    fail(input);
  if (fd < 0)
    fail("out-more");
}

} // namespace

int main(int count, char **arguments) {
  if (count < 3)
    return 64;
  const char *input = arguments[1];
  long steps = atol(arguments[2]), ms = count > 3 ? atol(arguments[3]) : 0;
  std::vector<std::unique_ptr<Part>> parts(PARTS);
  FILE *first = fopen(input, "r"); // is closed: those behind it stay where they are
  Stdio early(input, "/dev/null"); // before the node has its descriptors
  maru_dsm_init();
  cells = static_cast<unsigned long *>(maru_dsm_alloc(PARTS * sizeof *cells));
  for (int i = (int)maru_dsm_node(); i < PARTS; i += (int)maru_dsm_nodes())
    parts[i] = make(i, input);
  if (first == nullptr || fclose(first) != 0)
    fail(input);
  bool logs = count > 4 && strcmp(arguments[4], "log") == 0;
  if (count > 4)
    keep(arguments[4], input);
  maru_dsm_barrier(MEET);
  for (long step = 0; step < steps; step++)
    do_step(step, early, parts, ms, logs);
  if (maru_dsm_node() == 0) {
    printf("ends: %lu\n", cells[0]);
    fflush(stdout);
  }
  parts.clear();
  maru_dsm_barrier(MEET);
  maru_dsm_exit();
  return 0;
}
