/* dsm_diff.c: what encoding, masking and applying a diff costs, per page in
 * cache.  Prints JSON that names the CPU; the best of ROUNDS of BATCH pages,
 * since whatever else runs here only adds.
 */
#include "../../../native/dsm/diff.h"

#include "../../../native/tests/check.h"

#include <maru/wait.h>

#define PAGES 8u
#define BATCH 4096u
#define ROUNDS 40

struct set {
  alignas(64) uint8_t page[PAGES][MR_PAGE];
  alignas(64) uint8_t twin[PAGES][MR_PAGE];
};

static struct set set;
static struct mr_diff diff;

static const struct pattern {
  const char *name;
  uint32_t blocks;
  bool scattered;
} patterns[] = {{"none", 0, false},           {"1 block", 1, false},
                {"64 in a run", 64, false},   {"64 scattered", 64, true},
                {"256 in a run", 256, false}, {"256 scattered", 256, true},
                {"511 scattered", 511, true}, {"all 512", MR_BLOCKS, false}};
#define PATTERNS (sizeof patterns / sizeof *patterns)

static void change(uint64_t *blocks, const struct pattern *pattern, uint64_t *seed) {
  uint32_t first = (uint32_t)(next_random(seed) >> 32) % (MR_BLOCKS - pattern->blocks + 1);
  for (uint32_t done = 0; done < pattern->blocks;) {
    uint32_t at =
        pattern->scattered ? (uint32_t)(next_random(seed) >> 32) % MR_BLOCKS : first + done;
    if (blocks[at] != 0)
      continue;
    blocks[at] = next_random(seed) | 1;
    done++;
  }
}

static void prepare(const struct pattern *pattern) {
  uint64_t seed = 1;
  memset(&set, 0, sizeof set);
  for (unsigned i = 0; i < PAGES; i++)
    change((uint64_t *)(void *)set.page[i], pattern, &seed);
}

static void encode(const struct mr_diff_code *code, unsigned i) {
  code->encode(&diff, set.page[i], set.twin[i]);
}
static void encode_masked(const struct mr_diff_code *code, unsigned i) {
  code->encode(&diff, set.page[i], set.twin[i]);
  mr_diff_mask(&diff, set.twin[i]);
}
/* One diff is applied again and again: it must be there before. */
static void apply(const struct mr_diff_code *code, unsigned i) { code->apply(&diff, set.page[i]); }

static double best_ns(void (*work)(const struct mr_diff_code *, unsigned),
                      const struct mr_diff_code *code) {
  double best = 1e18;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t begin = maru_now_ns();
    for (unsigned i = 0; i < BATCH; i++)
      work(code, i % PAGES);
    double each = (double)(maru_now_ns() - begin) / BATCH;
    best = each < best ? each : best;
  }
  return best;
}

static void cpu_name(char *name, size_t size) {
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(name, size, "unknown");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
      snprintf(name, size, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\"\\\n"),
               strchr(line, ':') + 2);
      break;
    }
  if (file != NULL)
    fclose(file);
}

static void report(const struct mr_diff_code *code) {
  double worst = 0;
  printf("  {\"code\": \"%s\", \"patterns\": [", code->name);
  for (unsigned p = 0; p < PATTERNS; p++) {
    prepare(&patterns[p]);
    double plain = best_ns(encode, code);
    double masked = best_ns(encode_masked, code);
    double applied = best_ns(apply, code);
    worst = plain > worst ? plain : worst;
    printf("%s\n    {\"changed\": \"%s\", \"encode_ns\": %.1f, \"encode_masked_ns\": %.1f, "
           "\"apply_ns\": %.1f}",
           p ? "," : "", patterns[p].name, plain, masked, applied);
  }
  printf("],\n   \"worst_encode_ns\": %.1f}", worst);
}

int main(void) {
  static const char *const isas[MR_DIFF_ISAS] = {"scalar", "AVX2", "AVX-512"};
  char cpu[128];
  cpu_name(cpu, sizeof cpu);
  printf("{\"cpu\": \"%s\", \"pages_in_cache\": %u, \"codes\": [\n", cpu, PAGES);
  for (int isa = 0; isa < MR_DIFF_ISAS; isa++) {
    const struct mr_diff_code *code = mr_diff_code((enum mr_diff_isa)isa);
    if (code != NULL)
      report(code);
    else
      printf("  {\"code\": \"%s\", \"not_measured\": \"this CPU lacks it\"}", isas[isa]);
    printf("%s\n", isa + 1 < MR_DIFF_ISAS ? "," : "");
  }
  printf("]}\n");
  return 0;
}
