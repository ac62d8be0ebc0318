/* syscalls: what libc hands to the kernel, from and to shared memory that this node does not have:
 * each page is another node's until the call.
 *
 *     maru-launch -n 2 -- dsm-syscalls
 */
#define _GNU_SOURCE
#include <maru/dsm.h>

#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SIZE 20000u /* pages, and parts of pages at both ends */

#define LATE (3 * 4096u)
#define LARGE (2u << 20)
#define DIRECT 8192u /* stdio reads so much without its buffer */

static uint8_t *shared, *back, *late, *large;
static int file, pair[2], round_number;
static char *path; /* shared; node 0's file */

/* Node 1 writes everything: whatever node 0 has is old. */
static void refresh(void) {
  round_number++;
  maru_dsm_barrier(0);
  if (maru_dsm_node() == 1)
    for (uint32_t i = 0; i < SIZE; i++) {
      shared[i] = (uint8_t)(i * 7 + (uint32_t)round_number);
      back[i] = 0;
    }
  maru_dsm_barrier(0);
}

/* Node 1 sees what node 0's call has put into `back`. */
static void arrived(void) {
  maru_dsm_barrier(1);
  if (maru_dsm_node() == 1)
    for (uint32_t i = 0; i < SIZE; i++)
      CHECK_EQUAL(back[i], (uint8_t)(i * 7 + (uint32_t)round_number));
  maru_dsm_barrier(1);
}

static bool asks(void) { return maru_dsm_node() == 0; }

/* Without the library's help the kernel refuses: this test could not pass otherwise. */
static void kernel_refuses(void) {
  refresh();
  if (asks()) {
    CHECK_EQUAL(syscall(SYS_pwrite64, file, shared, SIZE, 0), -1);
    CHECK_EQUAL(errno, EFAULT);
    maru_dsm_touch(shared, SIZE, 0);
    CHECK_EQUAL(syscall(SYS_pwrite64, file, shared, SIZE, 0), SIZE);
  }
}

static void positioned(void) {
  refresh();
  if (asks()) {
    CHECK_EQUAL(pwrite(file, shared, SIZE, 0), SIZE);
    CHECK_EQUAL(pread(file, back, SIZE, 0), SIZE);
  }
  arrived();
}

static void sequential(void) {
  refresh();
  if (asks()) {
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(write(file, shared, SIZE), SIZE);
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(read(file, back, SIZE), SIZE);
  }
  arrived();
}

static void scattered(void) {
  refresh();
  if (asks()) {
    struct iovec out[] = {{shared, 5000}, {shared + 5000, SIZE - 5000}},
                 in[] = {{back, 9000}, {back + 9000, SIZE - 9000}};
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(writev(file, out, 2), SIZE);
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(readv(file, in, 2), SIZE);
  }
  arrived();
}

static void sockets(void) {
  refresh();
  if (asks()) {
    CHECK_EQUAL(send(pair[0], shared, SIZE, 0), SIZE);
    CHECK_EQUAL(recv(pair[1], back, SIZE, 0), SIZE);
  }
  arrived();
  refresh();
  if (asks()) {
    struct iovec out = {shared, SIZE}, in = {back, SIZE};
    struct msghdr from = {.msg_iov = &out, .msg_iovlen = 1}, to = {.msg_iov = &in, .msg_iovlen = 1};
    CHECK_EQUAL(sendmsg(pair[0], &from, 0), SIZE);
    CHECK_EQUAL(recvmsg(pair[1], &to, 0), SIZE);
  }
  arrived();
  refresh();
  if (asks()) {
    CHECK_EQUAL(sendto(pair[0], shared, SIZE, 0, NULL, 0), SIZE);
    CHECK_EQUAL(recvfrom(pair[1], back, SIZE, 0, NULL, NULL), SIZE);
  }
  arrived();
}

/* So much that stdio passes its own buffer by. */
static void streams(void) {
  refresh();
  if (asks()) {
    FILE *stream = fopen(path, "w+");
    CHECK(stream != NULL);
    CHECK_EQUAL(fwrite(shared, 1, SIZE, stream), SIZE);
    CHECK_EQUAL(fflush(stream), 0);
    rewind(stream);
    CHECK_EQUAL(fread(back, 1, SIZE, stream), SIZE);
    fclose(stream);
  }
  arrived();
}

/* Node 0 alone has the pages, and may write them, until node 1 fetches what it does not read to. */
static void alone_with(uint8_t *bytes, size_t size) {
  if (asks())
    memset(bytes, 1, size);
  maru_dsm_barrier(2);
}

static void write_late(void *end) {
  uint8_t bytes[DIRECT];
  memset(bytes, 7, sizeof bytes);
  usleep(500000);
  CHECK_EQUAL(write(*(int *)end, bytes, sizeof bytes), (ssize_t)sizeof bytes);
}

static void read_late(void) {
  int ends[2];
  CHECK_EQUAL(pipe(ends), 0);
  pid_t writer = start(write_late, &ends[1]);
  FILE *stream = fdopen(ends[0], "r");
  CHECK(stream != NULL);
  CHECK_EQUAL(fread(late + 64, 1, DIRECT, stream), DIRECT);
  CHECK(!ferror(stream));
  CHECK_EQUAL(WEXITSTATUS(finish(writer)), 0);
  fclose(stream);
  close(ends[1]);
}

/* The last of the pages is fetched while the call waits. */
static void withdrawn_while_it_waits(void) {
  alone_with(late, LATE);
  if (asks()) {
    read_late();
  } else {
    usleep(200000);
    CHECK_EQUAL(late[LATE - 1], 1);
  }
  maru_dsm_barrier(2);
  for (uint32_t i = 0; i < LATE; i++)
    CHECK_EQUAL(late[i], i >= 64 && i < 64 + DIRECT ? 7 : 1);
  maru_dsm_barrier(2);
}

static void read_large(int turn) {
  struct iovec parts[] = {{large, LARGE / 2}, {large + LARGE / 2, LARGE / 2}};
  if (turn % 2 == 0) {
    CHECK_EQUAL(pread(file, large, LARGE, 0), LARGE);
  } else {
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(readv(file, parts, 2), LARGE);
  }
}

/* Pages are fetched while a file is read into them: what node 1 then has nobody looks at. */
static void withdrawn_from_files(void) {
  if (asks())
    CHECK(ftruncate(file, 0) == 0 && ftruncate(file, LARGE) == 0);
  for (int turn = 0; turn < 30; turn++) {
    alone_with(large, LARGE);
    if (asks())
      read_large(turn);
    for (uint32_t at = 0; !asks() && at < LARGE; at += 4096)
      (void)*(volatile uint8_t *)&large[at];
    maru_dsm_barrier(2);
    for (uint32_t at = 0; at < LARGE; at += 512)
      CHECK_EQUAL(large[at], 0);
    maru_dsm_barrier(2);
  }
  /* A file ends where it ends. */
  if (asks())
    CHECK_EQUAL(pread(file, large, LARGE, LARGE - 10), 10);
}

/* A file's name, a status and what is polled in shared memory. */
static void small_things(void) {
  refresh();
  if (maru_dsm_node() == 1) {
    strcpy((char *)shared + 4090, path);
    memcpy(back, &(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, sizeof(struct pollfd));
  }
  maru_dsm_barrier(2);
  if (asks()) {
    CHECK_EQUAL(access((char *)shared + 4090, R_OK), 0);
    int fd = open((char *)shared + 4090, O_RDONLY);
    CHECK(fd >= 0);
    CHECK_EQUAL(fstat(fd, (struct stat *)(back + 8192)), 0);
    CHECK(S_ISREG(((struct stat *)(back + 8192))->st_mode));
    close(fd);
    CHECK(poll((struct pollfd *)back, 1, 0) >= 0);
  }
}

/* What programs call in place of those with _FORTIFY_SOURCE, where the compiler knows a size. */
ssize_t __read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *to, size_t size, off64_t at, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *to, size_t size, size_t room, int flags,
                       struct sockaddr *address, socklen_t *length);
size_t __fread_chk(void *to, size_t room, size_t size, size_t count, FILE *stream);
int __poll_chk(struct pollfd *polled, nfds_t count, int timeout, size_t room);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

static void fortified_files(void) {
  refresh();
  if (asks()) {
    CHECK_EQUAL(pwrite(file, shared, SIZE, 0), SIZE);
    CHECK_EQUAL(__pread_chk(file, back, SIZE, 0, SIZE), SIZE);
  }
  arrived();
  refresh();
  if (asks()) {
    CHECK_EQUAL(pwrite(file, shared, SIZE, 0), SIZE);
    CHECK_EQUAL(__pread64_chk(file, back, SIZE, 0, SIZE), SIZE);
  }
  arrived();
  refresh();
  if (asks()) {
    CHECK_EQUAL(pwrite(file, shared, SIZE, 0), SIZE);
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(__read_chk(file, back, SIZE, SIZE), SIZE);
  }
  arrived();
  refresh();
  if (asks()) {
    CHECK_EQUAL(pwrite(file, shared, SIZE, 0), SIZE);
    FILE *stream = fopen(path, "r");
    CHECK(stream != NULL);
    CHECK_EQUAL(__fread_chk(back, SIZE, 1, SIZE, stream), SIZE);
    fclose(stream);
  }
  arrived();
}

static void fortified_sockets(void) {
  refresh();
  if (asks()) {
    CHECK_EQUAL(send(pair[0], shared, SIZE, 0), SIZE);
    CHECK_EQUAL(__recv_chk(pair[1], back, SIZE, SIZE, 0), SIZE);
  }
  arrived();
  refresh();
  if (asks()) {
    CHECK_EQUAL(send(pair[0], shared, SIZE, 0), SIZE);
    CHECK_EQUAL(__recvfrom_chk(pair[1], back, SIZE, SIZE, 0, NULL, NULL), SIZE);
  }
  arrived();
}

static void fortified_names(int opens(const char *, int)) {
  refresh();
  if (maru_dsm_node() == 1) {
    strcpy((char *)shared + 4090, path);
    memcpy(back, &(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, sizeof(struct pollfd));
  }
  maru_dsm_barrier(2);
  if (asks()) {
    int fd = opens((char *)shared + 4090, O_RDONLY);
    CHECK(fd >= 0);
    close(fd);
    CHECK(__poll_chk((struct pollfd *)back, 1, 0, sizeof(struct pollfd)) >= 0);
  }
}

/* What nothing can bring in stays an error, and ends. */
static void nowhere(void) {
  if (!asks())
    return;
  void *volatile never = (void *)16;
  CHECK_EQUAL(write(file, never, 10), -1);
  CHECK_EQUAL(errno, EFAULT);
  CHECK_EQUAL(read(-1, back, 10), -1);
  CHECK_EQUAL(errno, EBADF);
  /* Ranges that end nowhere near: the compiler need not know. */
  volatile size_t below_0 = (size_t)-5;
  volatile int many = INT_MAX;
  CHECK_EQUAL(read(-1, back, below_0), -1);
  CHECK_EQUAL(errno, EBADF);
  maru_dsm_touch(never, SIZE_MAX / 2, 0);
  maru_dsm_touch(back, SIZE_MAX / 2, 0);
  CHECK_EQUAL(readv(-1, &(struct iovec){back, SIZE}, many), -1);
  /* A message is lost once, not each time that somebody waits. */
  CHECK_EQUAL(send(pair[0], "one", 3, 0), 3);
  CHECK_EQUAL(send(pair[0], "two", 3, 0), 3);
  CHECK_EQUAL(recv(pair[1], never, 3, MSG_DONTWAIT), -1);
  CHECK_EQUAL(errno, EFAULT);
}

int main(void) {
  maru_dsm_init();
  shared = (uint8_t *)maru_dsm_alloc(SIZE + 4096) + 100;
  back = (uint8_t *)maru_dsm_alloc(SIZE + 4096) + 104;
  path = maru_dsm_alloc(4096);
  late = maru_dsm_alloc(LATE);
  large = maru_dsm_alloc(LARGE);
  CHECK_EQUAL(maru_dsm_home(late + LATE - 1), 0);
  if (asks()) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, 4096, "%s/maru-syscalls-XXXXXX", folder != NULL ? folder : "/tmp");
    file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  }
  kernel_refuses();
  positioned();
  sequential();
  scattered();
  sockets();
  streams();
  small_things();
  fortified_files();
  fortified_sockets();
  fortified_names(__open_2);
  fortified_names(__open64_2);
  nowhere();
  withdrawn_while_it_waits();
  withdrawn_from_files();
  if (asks())
    CHECK_EQUAL(unlink(path), 0);
  maru_dsm_exit();
  return 0;
}
