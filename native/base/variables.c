#define _GNU_SOURCE
#include "variables.h"

#include <link.h>

/* The first file is the program. */
static int find(struct dl_phdr_info *file, size_t size, void *found) {
  struct mr_variables *variables = found;
  (void)size;
  for (int i = 0; i < file->dlpi_phnum; i++)
    if (file->dlpi_phdr[i].p_type == PT_TLS && file->dlpi_tls_data != NULL)
      *variables = (struct mr_variables){
          .at = file->dlpi_tls_data,
          .first = (const uint8_t *)(file->dlpi_addr + file->dlpi_phdr[i].p_vaddr),
          .given = file->dlpi_phdr[i].p_filesz,
          .size = file->dlpi_phdr[i].p_memsz};
  return 1;
}

struct mr_variables mr_variables_find(void) {
  struct mr_variables found = {.size = 0};
  dl_iterate_phdr(find, &found);
  return found;
}
