/* dsm_access.c: what it costs to see the first access to a page, and what a
 * gigabyte with alternating rights costs in mappings.  Prints JSON.
 *
 * Pages are touched in a shuffled order.  Figures are nanoseconds per page: the best
 * and the median of batches of BATCH pages.
 */
#define _GNU_SOURCE
#include "../../../native/dsm/access.h"

#include "../../../native/dsm/diff.h"
#include "../../../native/tests/check.h"
#include "json.h"

#include <maru/wait.h>

#define PAGES 8192u
#define BATCH 256u
#define BATCHES (PAGES / BATCH)
#define GIGABYTE (1u << 18)

struct bench {
  struct mr_area *area;
  uint8_t *twins;
};

static uint8_t copy[MR_PAGE];

/* As the shared memory does it: a read brings the page, a write makes a twin. */
static int serve(void *context, uint32_t page, bool write) {
  struct bench *bench = context;
  uint8_t *memory = mr_area_runtime(bench->area) + (size_t)page * MR_PAGE;
  if (write)
    memcpy(bench->twins + (size_t)(page % 64) * MR_PAGE, memory, MR_PAGE);
  else
    memcpy(memory, copy, MR_PAGE);
  return mr_area_allow(bench->area, page, 1, write ? MR_READ_WRITE : MR_READ);
}

static uint32_t shuffled(uint32_t i) { return i * 7919u % PAGES; }

static void read_page(struct bench *bench, uint32_t page) {
  (void)*(volatile uint8_t *)(mr_area_program(bench->area) + (size_t)page * MR_PAGE);
}
static void write_page(struct bench *bench, uint32_t page) {
  *(volatile uint8_t *)(mr_area_program(bench->area) + (size_t)page * MR_PAGE) = 1;
}
static void protect_page(struct bench *bench, uint32_t page) {
  CHECK_EQUAL(mr_area_allow(bench->area, page, 1, MR_READ), 0);
}
static void invalidate_page(struct bench *bench, uint32_t page) {
  CHECK_EQUAL(mr_area_allow(bench->area, page, 1, MR_NONE), 0);
}

static int by_size(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void measure(struct mr_json *json, struct bench *bench, const char *name,
                    void (*work)(struct bench *, uint32_t)) {
  double times[BATCHES];
  for (uint32_t batch = 0; batch < BATCHES; batch++) {
    int64_t begin = maru_now_ns();
    for (uint32_t i = 0; i < BATCH; i++)
      work(bench, shuffled(batch * BATCH + i));
    times[batch] = (double)(maru_now_ns() - begin) / BATCH;
  }
  qsort(times, BATCHES, sizeof *times, by_size);
  mr_json_object(json, name);
  mr_json_real(json, "best_ns", times[0], 0);
  mr_json_real(json, "median_ns", times[BATCHES / 2], 0);
  mr_json_end_object(json);
}

static void measure_runs(struct mr_json *json, struct bench *bench, const char *name,
                         enum mr_access access) {
  int64_t begin = maru_now_ns();
  for (uint32_t page = 0; page < PAGES; page += 64)
    CHECK_EQUAL(mr_area_allow(bench->area, page, 64, access), 0);
  mr_json_object(json, name);
  mr_json_real(json, "mean_ns", (double)(maru_now_ns() - begin) / PAGES, 0);
  mr_json_end_object(json);
}

static void gigabyte(struct mr_json *json, enum mr_access_way way) {
  struct bench bench = {0};
  CHECK_EQUAL(mr_area_create(&bench.area, way, NULL, GIGABYTE, serve, &bench), 0);
  uint32_t page = 0;
  int rc = 0;
  for (; page < GIGABYTE && rc == 0; page += 2)
    rc = mr_area_allow(bench.area, page, 1, MR_READ);
  mr_json_object(json, "alternating_gigabyte");
  mr_json_whole(json, "mib_done", page / 256);
  mr_json_text(json, "error", rc < 0 ? strerror(-rc) : "none");
  mr_json_whole(json, "mappings", (uint64_t)mappings());
  mr_json_end_object(json);
  mr_area_destroy(bench.area);
}

static void way(struct mr_json *json, enum mr_access_way way) {
  struct bench bench = {.twins = malloc(64 * MR_PAGE)};
  int rc = mr_access_probe(way);
  mr_json_object(json, NULL);
  mr_json_text(json, "way", mr_access_way_name(way));
  if (rc < 0) {
    mr_json_text(json, "not_measured", strerror(-rc));
    mr_json_end_object(json);
    free(bench.twins);
    return;
  }
  CHECK(bench.twins != NULL);
  memset(bench.twins, 1, 64 * MR_PAGE);
  CHECK_EQUAL(mr_area_create(&bench.area, way, NULL, PAGES, serve, &bench), 0);
  memset(mr_area_runtime(bench.area), 3, (size_t)PAGES * MR_PAGE);
  measure(json, &bench, "read_fault_and_copy", read_page);
  measure(json, &bench, "write_fault_and_twin", write_page);
  measure(json, &bench, "protect_one_page", protect_page);
  measure(json, &bench, "invalidate_one_page", invalidate_page);
  measure(json, &bench, "read_fault_and_copy_again", read_page);
  measure_runs(json, &bench, "invalidate_64_pages_at_once", MR_NONE);
  measure_runs(json, &bench, "admit_64_pages_at_once", MR_READ_WRITE);
  measure_runs(json, &bench, "protect_64_pages_at_once", MR_READ);
  mr_area_destroy(bench.area);
  free(bench.twins);
  gigabyte(json, way);
  mr_json_end_object(json);
}

int main(void) {
  struct mr_json json = {.out = stdout};
  mr_json_object(&json, NULL);
  mr_json_whole(&json, "pages", PAGES);
  mr_json_array(&json, "ways");
  way(&json, MR_BY_USERFAULTFD);
  way(&json, MR_BY_MPROTECT);
  mr_json_end_array(&json);
  mr_json_end_object(&json);
  putchar('\n');
  return 0;
}
