/* dsm_diff.c: what encoding, masking and applying a diff costs, per page in
 * cache.  Prints JSON that names the CPU; the best of ROUNDS of BATCH pages,
 * since whatever else runs here only adds.
 */
#include "../../../native/dsm/diff.h"

#include "../../../native/tests/check.h"
#include "json.h"

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
      snprintf(name, size, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"),
               strchr(line, ':') + 2);
      break;
    }
  if (file != NULL)
    fclose(file);
}

static void report(struct mr_json *json, const struct mr_diff_code *code) {
  double worst = 0;
  mr_json_array(json, "patterns");
  for (unsigned p = 0; p < PATTERNS; p++) {
    prepare(&patterns[p]);
    double plain = best_ns(encode, code);
    double masked = best_ns(encode_masked, code);
    double applied = best_ns(apply, code);
    worst = plain > worst ? plain : worst;
    mr_json_object(json, NULL);
    mr_json_text(json, "changed", patterns[p].name);
    mr_json_real(json, "encode_ns", plain, 1);
    mr_json_real(json, "encode_masked_ns", masked, 1);
    mr_json_real(json, "apply_ns", applied, 1);
    mr_json_end_object(json);
  }
  mr_json_end_array(json);
  mr_json_real(json, "worst_encode_ns", worst, 1);
}

int main(void) {
  static const char *const isas[MR_DIFF_ISAS] = {"scalar", "AVX2", "AVX-512"};
  char cpu[128];
  cpu_name(cpu, sizeof cpu);
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_text(&json, "cpu", cpu);
  mr_json_whole(&json, "pages_in_cache", PAGES);
  mr_json_array(&json, "codes");
  for (int isa = 0; isa < MR_DIFF_ISAS; isa++) {
    const struct mr_diff_code *code = mr_diff_code((enum mr_diff_isa)isa);
    mr_json_object(&json, NULL);
    mr_json_text(&json, "code", code != NULL ? code->name : isas[isa]);
    if (code != NULL)
      report(&json, code);
    else
      mr_json_text(&json, "not_measured", "this CPU lacks it");
    mr_json_end_object(&json);
  }
  mr_json_end_array(&json);
  mr_json_end_object(&json);
  putchar('\n');
  return 0;
}
