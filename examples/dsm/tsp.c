/* Travelling salesman by branch and bound.  Beginnings of tours lie in a shared pool, the
 * shortest tour so far beside it, both under one lock. A node takes the newest beginning. A short
 * one it lengthens by each city that may come next, and puts those back. A long one it takes away
 * and finishes by itself. What cannot become shorter than the best is dropped. Checked: the tour
 * has that length, and by Held and Karp's table of all sets of cities there is no shorter one.
 *
 *     maru launch -n 4 -- ./tsp [-n 20] [-d 8] [-c 0] [-t 1]
 *
 * -n: cities; -d: cities of a beginning that is finished by one node (all but 12 if not said); -c
 * 0: not checked by the table (its time and memory double with each city).
 */
#include "example.h"

#include <limits.h>
#include <math.h>

#define CITIES 24
#define POOL 65536

struct tour {
  int32_t length, cities;
  uint8_t city[CITIES];
};

struct map {
  int cities;
  int32_t way[CITIES][CITIES];
};

struct pool {
  struct tour best;
  int32_t count; /* of beginnings */
  struct tour tour[POOL];
};

static void make_map(struct map *map, int cities) {
  map->cities = cities;
  for (int i = 0; i < cities; i++)
    for (int j = 0; j < cities; j++) {
      double x = chance(2 * (uint64_t)i) - chance(2 * (uint64_t)j);
      double y = chance(2 * (uint64_t)i + 1) - chance(2 * (uint64_t)j + 1);
      map->way[i][j] = (int32_t)(10000 * hypot(x, y));
    }
}

static uint32_t visited(const struct tour *tour) {
  uint32_t set = 0;
  for (int i = 0; i < tour->cities; i++)
    set |= 1u << tour->city[i];
  return set;
}

/* No tour that begins so is shorter. The rest of it joins the cities that are left, the last and
 * the first. So it is no shorter than the shortest tree that does (Prim's). */
static int32_t least(const struct map *map, const struct tour *tour, uint32_t set) {
  int32_t length = tour->length, way[CITIES];
  int last = tour->city[tour->cities - 1];
  uint32_t left = ((1u << map->cities) - 1) & ~set;
  left |= tour->cities > 1 ? 1u << tour->city[0] : 0;
  for (int city = 0; city < map->cities; city++)
    way[city] = map->way[last][city];
  while (left != 0) {
    int next = -1;
    for (uint32_t rest = left; rest != 0; rest &= rest - 1) {
      int city = __builtin_ctz(rest);
      next = next < 0 || way[city] < way[next] ? city : next;
    }
    length += way[next];
    left &= ~(1u << next);
    for (int city = 0; city < map->cities; city++)
      way[city] = map->way[next][city] < way[city] ? map->way[next][city] : way[city];
  }
  return length;
}

static struct tour longer(const struct map *map, const struct tour *tour, int city) {
  struct tour next = *tour;
  next.length += map->way[tour->city[tour->cities - 1]][city];
  next.city[next.cities++] = (uint8_t)city;
  return next;
}

/* Depth first; `best` is this node's own. */
static void finish(const struct map *map, const struct tour *tour, uint32_t set,
                   struct tour *best) {
  if (least(map, tour, set) >= best->length)
    return;
  if (tour->cities == map->cities) {
    struct tour whole = longer(map, tour, tour->city[0]);
    whole.cities--;
    if (whole.length < best->length)
      *best = whole;
    return;
  }
  for (int city = 0; city < map->cities; city++)
    if ((set >> city & 1) == 0) {
      struct tour next = longer(map, tour, city);
      finish(map, &next, set | 1u << city, best);
    }
}

static void lengthen(const struct map *map, const struct tour *tour, struct pool *pool) {
  uint32_t set = visited(tour);
  for (int city = map->cities - 1; city >= 0; city--)
    if ((set >> city & 1) == 0) {
      insist(pool->count < POOL, "the pool is full; a smaller -d");
      pool->tour[pool->count++] = longer(map, tour, city);
    }
}

/* Takes a beginning that is worth it, lengthened as far as it shall be; `best` becomes the best of
 * all. 0: none is left; and as only this function makes beginnings, none will be. */
static int take(const struct map *map, struct pool *pool, int depth, struct tour *tour,
                struct tour *best) {
  int found = 0;
  maru_dsm_lock(0);
  if (best->length < pool->best.length)
    pool->best = *best;
  *best = pool->best;
  while (!found && pool->count > 0) {
    *tour = pool->tour[--pool->count];
    if (least(map, tour, visited(tour)) >= best->length)
      continue;
    if (tour->cities < depth)
      lengthen(map, tour, pool);
    else
      found = 1;
  }
  maru_dsm_unlock(0);
  return found;
}

static void search(const struct map *map, struct pool *pool, int depth) {
  struct tour tour, best = {.length = INT32_MAX};
  while (take(map, pool, depth, &tour, &best))
    finish(map, &tour, visited(&tour), &best);
}

/* Held and Karp: the shortest way from city 0 through each set to each of its cities. */
static int32_t shortest_tour(const struct map *map) {
  int others = map->cities - 1;
  size_t sets = (size_t)1 << others;
  int32_t *way = malloc(sizeof *way * sets * (size_t)others), shortest = INT32_MAX;
  insist(way != NULL, "no memory for the table; -c 0 does without");
  for (size_t set = 1; set < sets; set++)
    for (int last = 0; last < others; last++) {
      size_t before = set & ~((size_t)1 << last);
      int32_t *here = &way[set * (size_t)others + (size_t)last];
      *here = before == 0 ? map->way[0][last + 1] : INT32_MAX;
      for (int from = 0; (set >> last & 1) != 0 && from < others; from++)
        if ((before >> from & 1) != 0) {
          int32_t there =
              way[before * (size_t)others + (size_t)from] + map->way[from + 1][last + 1];
          *here = there < *here ? there : *here;
        }
    }
  for (int last = 0; last < others; last++) {
    int32_t whole = way[(sets - 1) * (size_t)others + (size_t)last] + map->way[last + 1][0];
    shortest = whole < shortest ? whole : shortest;
  }
  free(way);
  return shortest;
}

static void check(const struct map *map, const struct tour *best, int wholly) {
  int32_t length = 0;
  for (int i = 0; i < map->cities; i++)
    length += map->way[best->city[i]][best->city[(i + 1) % map->cities]];
  insist(visited(best) == (1u << map->cities) - 1, "the tour misses a city");
  insist(length == best->length, "the tour has another length");
  insist(!wholly || length == shortest_tour(map), "there is a shorter tour");
}

int main(int count, char **arguments) {
  struct map map;
  make_map(&map, (int)flag(count, arguments, "-n", 20, 4, CITIES));
  int depth = map.cities > 14 ? map.cities - 12 : 2;
  depth = (int)flag(count, arguments, "-d", depth, 2, map.cities);
  int wholly = flag(count, arguments, "-c", 1, 0, 1) == 1;
  maru_dsm_init();
  struct pool *pool = SHARED(sizeof *pool);
  double begin = seconds();
  if (maru_dsm_node() == 0) {
    pool->best.length = INT32_MAX;
    pool->tour[pool->count++] = (struct tour){.length = 0, .cities = 1};
  }
  maru_dsm_barrier(0);
  search(&map, pool, depth);
  maru_dsm_barrier(0);
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    check(&map, &pool->best, wholly);
    printf("tsp of %d cities: %d\n", map.cities, pool->best.length);
  }
  maru_dsm_exit();
  return 0;
}
