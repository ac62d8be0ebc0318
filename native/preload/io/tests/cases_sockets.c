/* cases_sockets.c: cases of sockets; see cases.c. */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

/* ---- sockets ------------------------------------------------------------- */

static void stream(void) {
  int pair[2];
  tcp(pair);
  for (int i = 1; i < 10; i++) {
    DO(send(pair[0], data, (size_t)i * 100, 0));
    DO(recv(pair[1], other, (size_t)i * 100, MSG_WAITALL));
    DO(write(pair[1], data, 20));
    while (poll(&(struct pollfd){.fd = pair[0], .events = POLLIN}, 1, -1) != 1)
      ;
    DO(read(pair[0], other, 100));
  }
  close(pair[0]);
  DO(read(pair[1], other, 100));
  DO(recv(pair[1], other, 100, 0));
}
static void socket_empty(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  DO(recv(pair[0], other, 10, MSG_DONTWAIT));
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  DO(read(pair[0], other, 10));
  DO(recv(pair[0], other, 10, 0));
  DO(readv(pair[0], &(struct iovec){other, 10}, 1));
}
static void socket_waits(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  struct later l = {.ms = 30, .fd = pair[1], .bytes = "hello", .size = 5};
  pthread_t thread = begin_later(&l);
  DO(recv(pair[0], other, 100, 0));
  pthread_join(thread, NULL);
  thread = begin_later(&l);
  DO(read(pair[0], other, 100));
  pthread_join(thread, NULL);
}
static void socket_interrupted(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  handle(SIGUSR1, 0);
  struct later l = {.ms = 30, .signal = SIGUSR1};
  pthread_t thread = begin_later(&l);
  DO(recv(pair[0], other, 100, 0));
  pthread_join(thread, NULL);
  thread = begin_later(&l);
  DO(read(pair[0], other, 100));
  pthread_join(thread, NULL);
  signals();
}
static void socket_times_out(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  struct timeval time = {.tv_usec = 30000};
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  DO(recv(pair[0], other, 100, 0));
  DO(read(pair[0], other, 100));
}
static void no_reader(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  handle(SIGPIPE, 0);
  DO(write(pair[0], data, 10));
  DO(send(pair[0], data, 10, 0));
  DO(writev(pair[0], &(struct iovec){data, 10}, 1));
  signals();
  DO(send(pair[0], data, 10, MSG_NOSIGNAL));
  signals();
}
static void no_reader_kills(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 5; i++)
      (void)!write(pair[0], data, 20);
    _exit(3);
  }
  say("killed by %d\n", WTERMSIG(finish(pid)));
}
static void no_reader_ignored(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  signal(SIGPIPE, SIG_IGN);
  DO(write(pair[0], data, 10));
  DO(write(pair[0], data, 10));
}
static void no_reader_blocked(void) {
  int pair[2];
  sigset_t set;
  pair_of(SOCK_STREAM, pair);
  close(pair[1]);
  DO(send(pair[0], data, 10, MSG_NOSIGNAL));
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  DO(write(pair[0], data, 10));
  sigpending(&set);
  say("pending %d\n", sigismember(&set, SIGPIPE));
}
static void datagram_no_reader(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  close(pair[1]);
  handle(SIGPIPE, 0);
  DO(write(pair[0], data, 10));
  DO(shutdown(pair[0], SHUT_WR));
  DO(write(pair[0], data, 10));
  signals();
}
static void *drain(void *argument) {
  int fd = *(int *)argument;
  static char sink[70000];
  long total = 0, got;
  while ((got = syscall(SYS_read, fd, sink, sizeof sink)) > 0)
    total += got;
  return (void *)total;
}
static void sends_all(void) {
  int pair[2];
  static char much[3000000];
  tcp(pair);
  pthread_t reader;
  void *total;
  NEED(-pthread_create(&reader, NULL, drain, &pair[1]));
  DO(send(pair[0], much, sizeof much, 0));
  DO(write(pair[0], much, sizeof much));
  DO(writev(pair[0], (struct iovec[2]){{much, 1000000}, {much, 2000000}}, 2));
  close(pair[0]);
  pthread_join(reader, &total);
  say("%ld bytes came\n", (long)total);
}
static void sends_part(void) {
  int pair[2];
  static char much[3000000];
  pair_of(SOCK_STREAM, pair);
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  long sent = send(pair[0], much, sizeof much, 0);
  DO(sent > 0 && sent < (long)sizeof much);
  DO(send(pair[0], much, sizeof much, 0));
}
static void peeks(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  NEED(send(pair[0], "abcdef", 6, 0));
  DO(recv(pair[1], other, 3, MSG_PEEK));
  DO(recv(pair[1], other, 100, 0));
  NEED(send(pair[0], "abcdef", 6, 0));
  DO(recv(pair[1], other, 6, MSG_WAITALL));
}
static void datagrams(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  DO(send(pair[0], data, 100, 0));
  DO(recv(pair[1], other, 10, MSG_TRUNC));
  DO(send(pair[0], data, 0, 0));
  DO(recv(pair[1], other, 10, 0));
  DO(write(pair[0], data, 0));
  DO(write(pair[0], data, 33));
  DO(read(pair[1], other, 100));
  DO(write(pair[0], data, 44));
  DO(read(pair[1], other, 0));
  struct iovec parts[2] = {{other, 20}, {other + 20, 100}};
  DO(readv(pair[1], parts, 2));
  DO(writev(pair[0], parts, 2));
  DO(recv(pair[1], other, 1000, 0));
  struct iovec whole = {other, 10};
  struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1};
  DO(send(pair[0], data, 50, 0));
  DO(recvmsg(pair[1], &message, 0));
  DO(message.msg_flags);
}
static void addresses(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
  socklen_t size = sizeof at, from_size = sizeof from;
  int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
  NEED(bind(a, (struct sockaddr *)&at, size));
  NEED(getsockname(a, (struct sockaddr *)&at, &size));
  DO(sendto(b, data, 70, 0, (struct sockaddr *)&at, size));
  DO(recvfrom(a, other, 100, 0, (struct sockaddr *)&from, &from_size));
  DO(from_size);
  DO(from.sin_family);
  DO(send(b, data, 10, 0));
  close(a);
  NEED(connect(b, (struct sockaddr *)&at, size));
  DO(send(b, data, 10, 0));
  pause_ms(10);
  DO(recv(b, other, 10, MSG_DONTWAIT));
}
static void not_connected(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  handle(SIGPIPE, 0);
  DO(recv(fd, other, 10, 0));
  DO(read(fd, other, 10));
  DO(send(fd, data, 10, 0));
  signals();
}
static void shut_down(void) {
  int pair[2];
  tcp(pair);
  handle(SIGPIPE, 0);
  DO(shutdown(pair[0], SHUT_WR));
  DO(write(pair[0], data, 10));
  DO(read(pair[1], other, 10));
  DO(shutdown(pair[1], SHUT_RD));
  signals();
}
static void reset(void) {
  int pair[2];
  tcp(pair);
  struct linger linger = {1, 0};
  setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  close(pair[1]);
  pause_ms(10);
  handle(SIGPIPE, 0);
  DO(read(pair[0], other, 10));
  DO(read(pair[0], other, 10));
  DO(write(pair[0], data, 10));
  signals();
}
static void low_water(void) {
  int pair[2], bytes = 8;
  pair_of(SOCK_STREAM, pair);
  DO(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes));
  NEED(send(pair[1], "1234", 4, 0));
  struct later l = {.ms = 40, .fd = pair[1], .bytes = "567890", .size = 6};
  pthread_t thread = begin_later(&l);
  DO(read(pair[0], other, 100));
  pthread_join(thread, NULL);
}
/* The mark is the socket's, not the descriptor's. */
static void low_water_of_copies(void) {
  int pair[2], bytes = 8;
  pair_of(SOCK_STREAM, pair);
  int before = dup(pair[0]);
  DO(recv(before, other, 1, MSG_DONTWAIT));
  DO(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes));
  int copies[2] = {before, dup(pair[0])};
  for (int i = 0; i < 2; i++) {
    NEED(send(pair[1], "1234", 4, 0));
    struct later l = {.ms = 40, .fd = pair[1], .bytes = "567890", .size = 6};
    pthread_t thread = begin_later(&l);
    DO(read(copies[i], other, 100));
    pthread_join(thread, NULL);
    recv(pair[0], other, 100, MSG_DONTWAIT);
  }
}
static void sequenced(void) {
  int pair[2];
  pair_of(SOCK_SEQPACKET, pair);
  DO(write(pair[0], data, 10));
  DO(send(pair[0], data, 20, MSG_EOR));
  DO(read(pair[1], other, 100));
  DO(recv(pair[1], other, 5, 0));
  DO(recv(pair[1], other, 5, MSG_DONTWAIT));
}
static void odd_flags(void) {
  int pair[2];
  pair_of(SOCK_STREAM, pair);
  DO(send(pair[0], data, 10, MSG_OOB) >= -1);
  DO(recv(pair[1], other, 10, MSG_ERRQUEUE) >= -1);
  DO(send(file, data, 10, 0));
  DO(recv(file, other, 10, 0));
  DO(recvmsg(pair[1], (void *)8, MSG_DONTWAIT));
  DO(sendmsg(pair[0], (void *)8, 0));
  fcntl(pair[1], F_SETFL, O_NONBLOCK);
  DO(readv(pair[1], (void *)8, 2));
  DO(writev(pair[0], (void *)8, 2));
  DO(read(pair[1], (void *)8, 10));
  DO(write(pair[0], (void *)8, 10));
  DO(readv(pair[1], &(struct iovec){other, 0}, 1));
  DO(writev(pair[0], &(struct iovec){other, 0}, 1));
}
static void descriptors_travel(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  char room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {data, 5};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(header), &file, sizeof file);
  DO(sendmsg(pair[0], &message, 0));
  part.iov_base = other;
  DO(recvmsg(pair[1], &message, 0));
  int came = -1;
  memcpy(&came, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof came);
  DO(pread(came, other, 100, 0));
  show(other, 100);
}
static void several_messages(void) {
  int pair[2];
  pair_of(SOCK_DGRAM, pair);
  struct iovec part = {data, 10};
  struct mmsghdr messages[3] = {0};
  for (int i = 0; i < 3; i++)
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
  DO(sendmmsg(pair[0], messages, 3, 0));
  part.iov_base = other;
  DO(recvmmsg(pair[1], messages, 3, 0, NULL));
  DO(recvmmsg(pair[1], messages, 3, MSG_DONTWAIT, NULL));
}
static void file_to_socket(void) {
  int pair[2];
  tcp(pair);
  off_t from = 0;
  DO(sendfile(pair[0], file, &from, 10000));
  DO(recv(pair[1], other, 10000, MSG_WAITALL));
  show(other, 10000);
}

const struct test_case socket_cases[] = {
    D(stream),
    D(socket_empty),
    D(socket_waits),
    D(socket_interrupted),
    D(socket_times_out),
    D(no_reader),
    N(no_reader_kills),
    D(no_reader_ignored),
    D(no_reader_blocked),
    D(datagram_no_reader),
    D(sends_all),
    D(sends_part),
    D(peeks),
    D(datagrams),
    D(addresses),
    D(not_connected),
    D(shut_down),
    D(reset),
    N(low_water),
    N(low_water_of_copies),
    N(sequenced),
    D(odd_flags),
    D(descriptors_travel),
    N(several_messages),
    N(file_to_socket),
    {NULL, NULL, false, false},
};
