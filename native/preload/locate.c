#define _GNU_SOURCE
#include <stdbool.h>

#include "locate.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* glibc's struct dl_find_object; the function is there since 2.35. */
struct found {
  unsigned long long flags;
  void *from, *to;
  struct link_map *map;
  unsigned long long more[9];
};
typedef int find_object(void *address, struct found *found);

static find_object *find;
static char program[sizeof((struct maru_lockprof_module *)0)->path];

static int note_first(struct dl_phdr_info *object, size_t size, void *address) {
  (void)size;
  *(uintptr_t *)address = object->dlpi_addr + object->dlpi_phdr[0].p_vaddr;
  return 1;
}

/* The file that is mapped at the program headers of the first object, which is the program. */
static bool mapped(char *path, size_t size) {
  uintptr_t address = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  bool found = false;
  char line[4352];
  if (maps == NULL)
    return false;
  dl_iterate_phdr(note_first, &address);
  while (!found && fgets(line, sizeof line, maps) != NULL) {
    uintptr_t begin, end;
    char *file = strchr(line, '/');
    found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 && begin <= address &&
            address < end && file != NULL;
    if (found)
      snprintf(path, size, "%.*s", (int)strcspn(file, "\n"), file);
  }
  fclose(maps);
  return found;
}

void mr_locate_program(char *path, size_t size) {
  /* No interpreter: the dynamic linker itself was executed, and has loaded the program. */
  if (getauxval(AT_BASE) == 0 && mapped(path, size))
    return;
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  if (length >= 0)
    path[length] = '\0';
  else
    snprintf(path, size, "%s", program_invocation_name);
}

bool mr_locate_start(void) {
  find = (find_object *)dlvsym(RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35");
  mr_locate_program(program, sizeof program);
  return find != NULL;
}

/* Its number + 1; 0: no room. */
static uint32_t module_of(struct maru_lockprof *board, const char *path) {
  /* Relaxed: it only grows, and what is behind it is checked. */
  uint32_t used = atomic_load_explicit(&board->modules, memory_order_relaxed);
  for (uint32_t i = 0; i < used && i < MARU_LOCKPROF_MODULES; i++)
    /* Acquire: the path. */
    if (atomic_load_explicit(&board->module[i].ready, memory_order_acquire) &&
        strncmp(board->module[i].path, path, sizeof board->module[i].path - 1) == 0)
      return i + 1;
  /* Two threads at once may both add it: the reader takes equal paths for one. */
  uint32_t mine = atomic_fetch_add_explicit(&board->modules, 1, memory_order_relaxed);
  if (mine >= MARU_LOCKPROF_MODULES)
    return 0;
  snprintf(board->module[mine].path, sizeof board->module[mine].path, "%s", path);
  atomic_store_explicit(&board->module[mine].ready, 1, memory_order_release);
  return mine + 1;
}

uint64_t mr_locate(struct maru_lockprof *board, const void *address) {
  struct found found;
  if (find == NULL || find((void *)(uintptr_t)address, &found) != 0)
    return 0;
  const char *path = found.map->l_name[0] != '\0' ? found.map->l_name : program;
  uint32_t module = module_of(board, path);
  return module == 0 ? 0 : MARU_LOCKPROF_PLACE(module, (uintptr_t)address - found.map->l_addr);
}
