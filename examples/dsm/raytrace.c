/* A picture of mirroring balls over a chequered floor, by following rays of light backwards.  The
 * scene is shared and only read; the picture is cut into tiles, of which each node has a queue. A
 * node that has done its own helps the others. Rays are counted under a lock. Checked: some points
 * are followed again by one node, from a scene of its own.
 *
 *     maru launch -n 4 -- ./raytrace [-n 256] [-b 64] [-o 1] [-t 1] >picture.ppm
 *
 * -n: the picture's side; -b: balls; -o 1: prints the picture after the result, as PPM.
 */
#include "example.h"

#include <math.h>

#define TILE 8
#define MIRRORS 4
#define FAR 1e30

struct vector {
  double x, y, z;
};

struct ball {
  struct vector at;
  double radius, mirrors; /* how much of the light */
  struct vector colour;
};

struct scene {
  long balls;
  struct ball ball[];
};

struct queue {
  long next, end; /* tiles */
  char apart[48]; /* from the next node's, by a line */
};

struct work {
  long side;
  const struct scene *scene;
  struct queue *queues;
  uint32_t *picture;
  long *rays;
};

static struct vector plus(struct vector a, struct vector b, double times) {
  return (struct vector){a.x + times * b.x, a.y + times * b.y, a.z + times * b.z};
}
static double dot(struct vector a, struct vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static struct vector unit(struct vector a) {
  return plus((struct vector){0, 0, 0}, a, 1 / sqrt(dot(a, a)));
}

static const struct vector sun = {0.48, 0.8, -0.36};

/* How far along the ray the ball is. */
static double reach(const struct ball *ball, struct vector from, struct vector along) {
  struct vector centre = plus(ball->at, from, -1);
  double middle = dot(centre, along);
  double root = middle * middle - dot(centre, centre) + ball->radius * ball->radius;
  if (root < 0 || middle - sqrt(root) < 1e-6)
    return FAR;
  return middle - sqrt(root);
}

static const struct ball *nearest(const struct scene *scene, struct vector from,
                                  struct vector along, double *distance) {
  const struct ball *found = NULL;
  for (long i = 0; i < scene->balls; i++) {
    double far = reach(&scene->ball[i], from, along);
    if (far < *distance) {
      *distance = far;
      found = &scene->ball[i];
    }
  }
  return found;
}

static int is_lit(const struct scene *scene, struct vector at, long *rays) {
  double distance = FAR;
  ++*rays;
  return nearest(scene, at, sun, &distance) == NULL;
}

static struct vector look(const struct scene *scene, struct vector from, struct vector along,
                          int mirrors, long *rays) {
  double distance = along.y < -1e-9 ? from.y / -along.y : FAR, mirrored = 0.2;
  ++*rays;
  const struct ball *ball = nearest(scene, from, along, &distance);
  if (distance == FAR)
    return (struct vector){0.4, 0.6, 0.7 + 0.3 * along.y};
  struct vector at = plus(from, along, distance), up = {0, 1, 0}, colour = {0.9, 0.9, 0.9};
  if (ball != NULL) {
    up = unit(plus(at, ball->at, -1));
    colour = ball->colour;
    mirrored = ball->mirrors;
  } else if (((long)floor(at.x) + (long)floor(at.z)) % 2 != 0) {
    colour = (struct vector){0.1, 0.1, 0.1};
  }
  at = plus(at, up, 1e-6);
  double light = 0.2 + (dot(up, sun) > 0 && is_lit(scene, at, rays) ? 0.8 * dot(up, sun) : 0);
  struct vector seen = plus((struct vector){0, 0, 0}, colour, light * (1 - mirrored));
  if (mirrors == 0)
    return seen;
  struct vector back = unit(plus(along, up, -2 * dot(along, up)));
  return plus(seen, look(scene, at, back, mirrors - 1, rays), mirrored);
}

static uint32_t byte(double light) { return (uint32_t)(255 * fmin(1, fmax(0, light))); }

static uint32_t point(const struct scene *scene, long side, long x, long y, long *rays) {
  struct vector eye = {0, 3, -9};
  struct vector along = {(double)(2 * x - side) / (double)side,
                         (double)(side - 2 * y) / (double)side - 0.2, 1.5};
  struct vector seen = look(scene, eye, unit(along), MIRRORS, rays);
  return byte(seen.x) << 16 | byte(seen.y) << 8 | byte(seen.z);
}

static void make_scene(struct scene *scene, long balls) {
  scene->balls = balls;
  for (long i = 0; i < balls; i++) {
    uint64_t seed = (uint64_t)(8 * i);
    double radius = 0.2 + 0.5 * chance(seed);
    scene->ball[i] = (struct ball){
        .at = {12 * chance(seed + 1) - 6, radius + 2 * chance(seed + 2), 10 * chance(seed + 3) - 3},
        .radius = radius,
        .mirrors = 0.6 * chance(seed + 4),
        .colour = {chance(seed + 5), chance(seed + 6), chance(seed + 7)}};
  }
}

/* -1: none is left there. */
static long take(struct queue *queue, uint32_t lock) {
  maru_dsm_lock(lock);
  long tile = queue->next < queue->end ? queue->next++ : -1;
  maru_dsm_unlock(lock);
  return tile;
}

static void draw(const struct work *w, long tile) {
  long across = w->side / TILE, left = tile % across * TILE, top = tile / across * TILE, rays = 0;
  for (long y = top; y < top + TILE; y++)
    for (long x = left; x < left + TILE; x++)
      w->picture[y * w->side + x] = point(w->scene, w->side, x, y, &rays);
  maru_dsm_lock(0);
  *w->rays += rays;
  maru_dsm_unlock(0);
}

static void draw_all(const struct work *w) {
  uint32_t me = maru_dsm_node(), nodes = maru_dsm_nodes();
  for (uint32_t other = 0; other < nodes; other++) {
    uint32_t node = (me + other) % nodes;
    for (long tile; (tile = take(&w->queues[node], 1 + node)) >= 0;)
      draw(w, tile);
  }
}

static void check(const struct work *w) {
  struct scene *own = malloc(sizeof *own + sizeof *own->ball * (size_t)w->scene->balls);
  long rays = 0;
  insist(own != NULL, "no memory");
  make_scene(own, w->scene->balls);
  for (long i = 0; i < w->side * w->side; i += 97)
    insist(w->picture[i] == point(own, w->side, i % w->side, i / w->side, &rays),
           "a point of the picture");
  free(own);
}

static void print_picture(const struct work *w) {
  printf("P3 %ld %ld 255\n", w->side, w->side);
  for (long i = 0; i < w->side * w->side; i++)
    printf("%u %u %u\n", w->picture[i] >> 16, w->picture[i] >> 8 & 255, w->picture[i] & 255);
}

int main(int count, char **arguments) {
  struct work w = {.side = flag(count, arguments, "-n", 256, TILE, 1L << 14) / TILE * TILE};
  long balls = flag(count, arguments, "-b", 64, 1, 100000), tiles = w.side / TILE * (w.side / TILE);
  int prints = flag(count, arguments, "-o", 0, 0, 1) == 1;
  maru_dsm_init();
  struct scene *scene = SHARED(sizeof *scene + sizeof *scene->ball * (size_t)balls);
  w.scene = scene;
  w.queues = SHARED(sizeof *w.queues * maru_dsm_nodes());
  w.picture = SHARED(sizeof *w.picture * (size_t)(w.side * w.side));
  w.rays = SHARED(sizeof *w.rays);
  double begin = seconds();
  struct band mine = band(tiles);
  w.queues[maru_dsm_node()] = (struct queue){.next = mine.first, .end = mine.last};
  if (maru_dsm_node() == 0)
    make_scene(scene, balls);
  maru_dsm_barrier(0);
  draw_all(&w);
  maru_dsm_barrier(0);
  took(count, arguments, begin);
  if (maru_dsm_node() == 0) {
    check(&w);
    printf("raytrace %ld x %ld, %ld balls: %ld rays, %016llx\n", w.side, w.side, balls, *w.rays,
           (unsigned long long)checksum(w.picture, sizeof *w.picture * (size_t)(w.side * w.side)));
    if (prints)
      print_picture(&w);
  }
  maru_dsm_exit();
  return 0;
}
