/* containers: std::vector and std::map that several nodes fill, grow and empty, against models.
 *
 *     maru-launch -n 3 -- dsm-containers
 */
#include <maru/dsm.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "node %u: %s:%d: %s\n", maru_dsm_node(), __FILE__, __LINE__,            \
                   #condition);                                                                    \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)

constexpr std::uint32_t heap_id = 1, lock_id = 2, barrier_id = 2;
constexpr int each = 400; // of a node

static void barrier() { maru_dsm_barrier(barrier_id); }

/* Every node pushes its own numbers, in order; growing takes the place of what another node had. */
static void vector_of_all(const maru::dsm_heap &heap) {
  const int me = static_cast<int>(maru_dsm_node()), nodes = static_cast<int>(maru_dsm_nodes());
  auto &numbers = heap.share<maru::dsm_vector<int>>();
  CHECK(numbers.empty());
  barrier();
  for (int i = 0; i < each; i++) {
    maru_dsm_lock(lock_id);
    numbers.push_back(me * each + i);
    maru_dsm_unlock(lock_id);
  }
  barrier();
  CHECK(numbers.size() == static_cast<std::size_t>(nodes * each));
  std::vector<int> next(static_cast<std::size_t>(nodes), 0);
  for (int number : numbers)
    CHECK(number % each == next[static_cast<std::size_t>(number / each)]++);
  barrier();
}

/* Nodes insert and erase keys of their own, at random; each keeps a model of its own part. */
static void map_of_all(const maru::dsm_heap &heap) {
  const int me = static_cast<int>(maru_dsm_node()), nodes = static_cast<int>(maru_dsm_nodes());
  auto &shared = heap.share<maru::dsm_map<int, maru::dsm_string>>();
  std::map<int, std::string> model;
  unsigned seed = 17 + maru_dsm_node();
  for (int i = 0; i < 3 * each; i++) {
    int key = rand_r(&seed) % each * nodes + me;
    std::string text(static_cast<std::size_t>(rand_r(&seed) % 60), static_cast<char>('a' + me));
    maru_dsm_lock(lock_id);
    if (rand_r(&seed) % 3 == 0) {
      CHECK(shared.erase(key) == model.erase(key));
    } else {
      shared.insert_or_assign(key,
                              maru::dsm_string(text.begin(), text.end(), heap.allocator<char>()));
      model[key] = text;
    }
    maru_dsm_unlock(lock_id);
  }
  barrier();
  /* Its part is there, and what is there is some node's part. */
  std::size_t mine = 0;
  for (const auto &[key, text] : shared) {
    CHECK(text.find_first_not_of(static_cast<char>('a' + key % nodes)) == std::string::npos);
    if (key % nodes != me)
      continue;
    mine++;
    CHECK(model.count(key) == 1 && std::string(text.begin(), text.end()) == model[key]);
  }
  CHECK(mine == model.size());
  barrier();
  if (me == nodes - 1)
    shared.clear(); // the last node frees what all have taken
  barrier();
  CHECK(shared.empty());
  barrier();
}

/* What was given back serves again: one node after the other fills the heap and empties it. */
static void room(const maru::dsm_heap &heap) {
  for (std::uint32_t node = 0; node < maru_dsm_nodes(); node++) {
    if (node == maru_dsm_node()) {
      maru::dsm_vector<char> large(heap.allocator<char>());
      large.resize(600000);
      bool refused = false;
      try {
        maru::dsm_vector<char> other(1000000, 'x', heap.allocator<char>());
      } catch (const std::bad_alloc &) {
        refused = true;
      }
      CHECK(refused);
    }
    barrier();
  }
}

/* Throws where it is made: on node 0. */
struct broken {
  broken() { throw 17; }
};

/* What node 0 cannot make, no node gets, and no node waits for: each is told. */
static void refusals(const maru::dsm_heap &heap) {
  bool refused = false;
  try {
    heap.share<maru::dsm_vector<char>>(std::size_t{100000000});
  } catch (const std::bad_alloc &) {
    refused = true;
  }
  CHECK(refused);
  bool own = false, told = false;
  try {
    heap.share<broken>();
  } catch (int) {
    own = true;
  } catch (const std::runtime_error &) {
    told = true;
  }
  CHECK(maru_dsm_node() == 0 ? own : told);
  CHECK(heap.share<int>(5) == 5); // the nodes are still of one mind
}

/* Each node adds its own number, by compare-and-swap. */
static void counter_of_all() {
  const maru::dsm_counter counter(3);
  std::int64_t was = -1, nodes = maru_dsm_nodes();
  CHECK(!counter.compare_exchange(was, 7) && was >= 0);
  for (int i = 0; i < each; i++)
    while (!counter.compare_exchange(was, was + 1)) {
    }
  CHECK(counter.fetch_add(0) >= each);
  barrier();
  CHECK(counter.load() == nodes * each);
}

struct plain {
  alignas(64) long words[20];
};

int main() {
  maru_dsm_init();
  {
    maru::dsm_heap heap(1 << 20, heap_id), small(100, heap_id + 2);
    CHECK(reinterpret_cast<std::uintptr_t>(heap.allocator<plain>().allocate(3)) % 64 == 0);
    CHECK(heap.allocator<int>() == maru::dsm_allocator<int>(heap.allocator<long>()));
    CHECK(heap.allocator<int>() != small.allocator<int>());
    CHECK(heap.share<plain>().words[19] == 0);
    refusals(heap);
    maru_dsm_heap_give(heap.allocator<int>().heap(), nullptr);
    vector_of_all(heap);
    map_of_all(heap);
    counter_of_all();
  }
  maru::dsm_heap heap(1500000, heap_id + 4);
  room(heap);
  bool refused = false;
  try {
    maru::dsm_heap huge(std::size_t{1} << 40, heap_id + 6);
  } catch (const std::bad_alloc &) {
    refused = true;
  }
  CHECK(refused);
  maru_dsm_exit();
}
