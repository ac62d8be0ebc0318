/* host.c: the first process of a guest that scripts/test.d/39-guests boots, which is a host of the
 * parallel map there. Loads the drivers of its network, takes the address that the kernel's command
 * line says (address=A.B.C.D: an environment variable here), and serves whoever comes, as sshd
 * would: one line is a command for a shell, whose input and output the connection is from then on.
 *
 * Only for a network that nobody else is on: it asks for no proof.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORT = 22, COMMAND = 65536 };

static _Noreturn void fail(const char *step) {
  fprintf(stderr, "host: %s: %s\n", step, strerror(errno));
  reboot(RB_AUTOBOOT); /* QEMU's -no-reboot ends it */
  for (;;)
    pause();
}

static void mount_at(const char *kind, const char *where) {
  mkdir(where, 0755);
  if (mount(kind, where, kind, 0, NULL) && errno != EBUSY)
    fail(where);
}

static bool loaded(int folder, const char *name) {
  int module = openat(folder, name, O_RDONLY | O_CLOEXEC);
  bool done = module >= 0 && (syscall(SYS_finit_module, module, "", 0) == 0 || errno == EEXIST);
  close(module);
  return done;
}

/* One needs another that may come later: again while that helps. */
static void load_modules(void) {
  for (int before = 0, now = -1; now != before;) {
    DIR *folder = opendir("/modules");
    if (folder == NULL)
      fail("/modules");
    before = now;
    now = 0;
    for (struct dirent *e; (e = readdir(folder)) != NULL;)
      now += e->d_name[0] != '.' && loaded(dirfd(folder), e->d_name);
    closedir(folder);
  }
}

static void up(int any, const char *name, const char *address) {
  struct ifreq asked = {0};
  struct sockaddr_in at = {.sin_family = AF_INET};
  if (address == NULL || inet_pton(AF_INET, address, &at.sin_addr) != 1)
    fail("its address");
  strncpy(asked.ifr_name, name, sizeof asked.ifr_name - 1);
  memcpy(&asked.ifr_addr, &at, sizeof at);
  if (ioctl(any, SIOCSIFADDR, &asked))
    fail(name);
  inet_pton(AF_INET, "255.255.255.0", &at.sin_addr);
  memcpy(&asked.ifr_netmask, &at, sizeof at);
  if (ioctl(any, SIOCSIFNETMASK, &asked))
    fail(name);
  asked.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(any, SIOCSIFFLAGS, &asked))
    fail(name);
}

static int listening(void) {
  int any = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  up(any, "lo", "127.0.0.1");
  up(any, "eth0", getenv("address"));
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  if (bind(any, (struct sockaddr *)&at, sizeof at) || listen(any, 64))
    fail("listen");
  return any;
}

/* Byte by byte: what comes after it is the command's. */
static _Noreturn void serve(int caller) {
  static char command[COMMAND];
  for (size_t n = 0;
       n < sizeof command - 1 && read(caller, command + n, 1) == 1 && command[n] != '\n';)
    command[++n] = '\0';
  command[strcspn(command, "\n")] = '\0';
  setsid();
  dup2(caller, 0);
  dup2(caller, 1);
  execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  _exit(127);
}

int main(void) {
  mount_at("proc", "/proc");
  mount_at("sysfs", "/sys");
  mount_at("devtmpfs", "/dev");
  mkdir("/dev/shm", 01777);
  mkdir("/tmp", 01777);
  load_modules();
  int any = listening();
  setenv("PATH", "/bin", 1);
  puts("host: ready");
  fflush(stdout);
  for (;;) {
    int caller = accept4(any, NULL, NULL, SOCK_CLOEXEC);
    if (caller >= 0 && fork() == 0)
      serve(caller);
    close(caller);
    while (waitpid(-1, NULL, WNOHANG) > 0)
      ;
  }
}
