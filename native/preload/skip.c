#define _GNU_SOURCE
#include "skip.h"

#include "locate.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#define MOST 64

struct range {
  uintptr_t begin, end;
};

size_t mr_skips;
static struct range skipped[MOST];

/* libgcc's, loaded on request alone. */
static _Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn, void *);
static uintptr_t (*address_of)(struct _Unwind_Context *);

/* ---- symbol tables ------------------------------------------------------- */

/* Of C, with what the compiler appends to clones; or the last part of a mangled name, which has its
 * length before it. */
static bool is_named(const char *symbol, const char *name, size_t length) {
  char mangled[128];
  if (strncmp(symbol, name, length) == 0 && (symbol[length] == '\0' || symbol[length] == '.'))
    return true;
  if (strncmp(symbol, "_Z", 2) != 0 || length + 16 > sizeof mangled)
    return false;
  snprintf(mangled, sizeof mangled, "%zu%.*s", length, (int)length, name);
  return strstr(symbol, mangled) != NULL;
}

static bool is_wanted(const char *symbol, const char *names) {
  for (const char *at = names; *at != '\0'; at += *at == ',') {
    size_t length = strcspn(at, ",");
    if (length > 0 && is_named(symbol, at, length))
      return true;
    at += length;
  }
  return false;
}

struct file {
  const char *bytes;
  size_t size;
};

static bool within(const struct file *file, uint64_t at, uint64_t size) {
  return at <= file->size && size <= file->size - at;
}

static void take_symbols(const struct file *file, const Elf64_Shdr *table, const Elf64_Shdr *text,
                         uintptr_t base, const char *names) {
  if (!within(file, table->sh_offset, table->sh_size) || text->sh_size == 0 ||
      !within(file, text->sh_offset, text->sh_size) ||
      file->bytes[text->sh_offset + text->sh_size - 1] != '\0')
    return;
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size && mr_skips < MOST;
       at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    memcpy(&symbol, file->bytes + table->sh_offset + at, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_size > 0 &&
        symbol.st_name < text->sh_size &&
        is_wanted(file->bytes + text->sh_offset + symbol.st_name, names))
      skipped[mr_skips++] =
          (struct range){base + symbol.st_value, base + symbol.st_value + symbol.st_size};
  }
}

/* The whole table where there is one, else what is exported. */
static void read_file(const struct file *file, uintptr_t base, const char *names) {
  Elf64_Ehdr head;
  if (file->size < sizeof head)
    return;
  memcpy(&head, file->bytes, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_shentsize != sizeof(Elf64_Shdr) ||
      !within(file, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr)))
    return;
  Elf64_Shdr table = {.sh_type = SHT_NULL}, text;
  for (unsigned i = 0; i < head.e_shnum; i++) {
    Elf64_Shdr section;
    memcpy(&section, file->bytes + head.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type == SHT_SYMTAB ||
        (section.sh_type == SHT_DYNSYM && table.sh_type == SHT_NULL))
      table = section;
  }
  if (table.sh_type == SHT_NULL || table.sh_link >= head.e_shnum)
    return;
  memcpy(&text, file->bytes + head.e_shoff + table.sh_link * sizeof text, sizeof text);
  take_symbols(file, &table, &text, base, names);
}

static int read_loaded(struct dl_phdr_info *info, size_t size, void *names) {
  (void)size;
  char program[PATH_MAX];
  const char *path = info->dlpi_name;
  if (*path == '\0') {
    mr_locate_program(program, sizeof program);
    path = program;
  }
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (fd < 0)
    return 0; /* the kernel's own */
  void *bytes = fstat(fd, &status) == 0 && status.st_size > 0
                    ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                    : MAP_FAILED;
  close(fd);
  if (bytes == MAP_FAILED)
    return 0;
  struct file file = {bytes, (size_t)status.st_size};
  read_file(&file, info->dlpi_addr, names);
  munmap(bytes, file.size);
  return 0;
}

size_t mr_skip_start(const char *names) {
  void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL)
    return 0;
  walk = (_Unwind_Reason_Code(*)(_Unwind_Trace_Fn, void *))dlsym(library, "_Unwind_Backtrace");
  address_of = (uintptr_t(*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetIP");
  if (walk != NULL && address_of != NULL)
    dl_iterate_phdr(read_loaded, (void *)(uintptr_t)names);
  return mr_skips;
}

/* ---- the stack ------------------------------------------------------------- */

static bool is_skipped(uintptr_t site) {
  for (size_t i = 0; i < mr_skips; i++)
    /* The call, not what is after it. */
    if (site - 1 >= skipped[i].begin && site - 1 < skipped[i].end)
      return true;
  return false;
}

struct search {
  uintptr_t site;
  bool seen;
};

static _Unwind_Reason_Code look(struct _Unwind_Context *frame, void *argument) {
  struct search *search = argument;
  uintptr_t at = address_of(frame);
  if (!search->seen) {
    search->seen = at == search->site;
    return _URC_NO_REASON;
  }
  if (at == 0)
    return _URC_END_OF_STACK;
  search->site = at;
  return is_skipped(at) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

const void *mr_skip_from(const void *site) {
  struct search search = {.site = (uintptr_t)site};
  if (is_skipped(search.site))
    (void)walk(look, &search);
  return (const void *)search.site;
}
