#define _GNU_SOURCE
#include "vm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <sys/io.h>
#endif

extern char **environ;

enum { COMPRESSED = 4, /* MODULE_INIT_COMPRESSED_FILE */ LOOK_US = 1000, LOOKS = 60000 };

/* QEMU's debug-exit device: its status is 2 * value + 1, at once and without a word. */
static _Noreturn void leave(unsigned char value) {
#if defined(__x86_64__)
  if (ioperm(0xf4, 1, 1) == 0)
    outb(value, 0xf4);
#else
  (void)value;
#endif
  for (;;) /* the kernel panics where its first process ends: the coordinator kills QEMU instead */
    pause();
}

static _Noreturn void fail(const char *step, int error) {
  fprintf(stderr, "maru: the guest: %s: %s\n", step, strerror(error));
  leave(1);
}

static void mount_at(const char *kind, const char *where) {
  mkdir(where, 0755);
  if (mount(kind, where, kind, 0, NULL) && errno != EBUSY)
    fail(where, errno);
}

static bool loaded(int folder, const char *name) {
  int module = openat(folder, name, O_RDONLY | O_CLOEXEC);
  const char *dot = strrchr(name, '.');
  int flags = dot != NULL && strcmp(dot, ".ko") == 0 ? 0 : COMPRESSED;
  bool done = module >= 0 && (syscall(SYS_finit_module, module, "", flags) == 0 || errno == EEXIST);
  close(module);
  return done;
}

/* One needs another that may come later: again while that helps. What does not load at all is
 * missed when there is no channel. */
static void load_modules(void) {
  size_t before = 0;
  for (size_t now;; before = now) {
    DIR *folder = opendir(MARU_VM_MODULES);
    if (folder == NULL)
      return; /* a kernel that needs none */
    now = 0;
    for (struct dirent *e; (e = readdir(folder)) != NULL;)
      now += e->d_name[0] != '.' && loaded(dirfd(folder), e->d_name);
    closedir(folder);
    if (now == before)
      return;
  }
}

static int find_channel(void) {
  int channel = -1;
  DIR *devices = opendir("/dev");
  if (devices == NULL)
    return -1;
  for (struct dirent *e; channel < 0 && (e = readdir(devices)) != NULL;)
    if (strncmp(e->d_name, "vport", 5) == 0)
      channel = openat(dirfd(devices), e->d_name, O_RDWR | O_CLOEXEC);
  closedir(devices);
  return channel;
}

/* The device's files come when the kernel has found it, which it tells no process without a
 * service. */
static int await_channel(void) {
  int channel = find_channel();
  for (int i = 0; channel < 0 && i < LOOKS; i++) {
    usleep(LOOK_US);
    channel = find_channel();
  }
  return channel;
}

static pid_t start_program(int channel) {
  char *const words[] = {"/proc/self/exe", NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid = 0;
  setenv("MARU_AGENT", "1", 1);
  posix_spawn_file_actions_init(&actions);
  int rc = posix_spawn_file_actions_adddup2(&actions, channel, 0);
  if (rc == 0)
    rc = posix_spawn_file_actions_adddup2(&actions, channel, 1);
  if (rc == 0)
    rc = posix_spawn(&pid, words[0], &actions, NULL, words, environ);
  if (rc)
    fail("the program cannot be started", rc);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

void maru_vm_guest(void) {
  mount_at("proc", "/proc");
  mount_at("sysfs", "/sys");
  mount_at("devtmpfs", "/dev");
  mkdir("/tmp", 01777);
  load_modules();
  int channel = await_channel();
  if (channel < 0)
    fail("its kernel shows no virtio port", ENODEV);
  pid_t program = start_program(channel), ended;
  do
    ended = wait(NULL);
  while (ended != program && (ended >= 0 || errno == EINTR));
  leave(0);
}
