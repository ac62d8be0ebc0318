// The nodes of a job count words in one map, in memory that they share.
//
//     c++ -std=c++17 words.cpp $(pkg-config --cflags --libs maru-dsm)
//     maru launch -n 3 -- ./a.out
#include <maru/dsm.hpp>

#include <cstdio>

constexpr std::uint32_t heap_id = 0, lock_id = 1, barrier_id = 1;

int main() {
  maru_dsm_init();
  maru::dsm_heap heap(1 << 20, heap_id);
  auto &counts = heap.share<maru::dsm_map<maru::dsm_string, long>>();
  for (const char *word : {"one", "lock", "one", "map", "one", "job"}) {
    maru_dsm_lock(lock_id);
    counts[maru::dsm_string(word, heap.allocator<char>())]++;
    maru_dsm_unlock(lock_id);
  }
  maru_dsm_barrier(barrier_id);
  if (maru_dsm_node() == 0)
    for (const auto &[word, count] : counts)
      std::printf("%s %ld\n", word.c_str(), count);
  maru_dsm_exit();
}
