/* Items of map/peers as a command, for GNU parallel: item KIND INPUT MARK INDEX... */
#include "work.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESULT = 4 << 20, LOOKS = 16 };

static void write_result(long index) {
  char *bytes = malloc(RESULT);
  if (bytes == NULL)
    exit(1);
  memset(bytes, (int)(index % 256), RESULT);
  if (fwrite(bytes, 1, RESULT, stdout) != RESULT)
    exit(1);
  free(bytes);
}

static long read_input(const char *path, long index) {
  struct stat seen;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &seen) != 0)
    exit(1);
  const unsigned char *bytes = mmap(NULL, (size_t)seen.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED)
    exit(1);
  long sum = 0;
  for (long look = 0; look < LOOKS; look++)
    sum += bytes[peers_place(index, look, (long)seen.st_size)];
  munmap((void *)(size_t)bytes, (size_t)seen.st_size);
  close(file);
  return sum;
}

int main(int count, char **words) {
  if (count < 5)
    return 64;
  const char *kind = words[1];
  for (int k = 4; k < count; k++) {
    long index = atol(words[k]);
    if (strcmp(kind, "results") == 0) {
      write_result(index);
      continue;
    }
    if (strcmp(kind, "input") == 0) {
      printf("%ld\n", read_input(words[2], index));
      continue;
    }
    if (strcmp(kind, "killed") == 0 && index == 20)
      peers_die_once(words[3]);
    peers_spin(strcmp(kind, "skewed") == 0     ? (index >= 60 ? 20000 : 1000)
               : strcmp(kind, "nothing") == 0  ? 0
               : strcmp(kind, "us10") == 0     ? 10
               : strcmp(kind, "iterated") == 0 ? 10
               : strcmp(kind, "ms100") == 0    ? 100000
                                               : 1000);
    printf("%ld\n", index + 1);
  }
  return 0;
}
