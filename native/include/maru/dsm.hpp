/* maru/dsm.hpp: containers of C++ in the memory that the nodes of a job share.
 *
 *   maru::dsm_heap heap(64 << 20, 1);                      // all nodes, in the same order
 *   auto &words = heap.share<maru::dsm_map<int, int>>();   // the same object on every node
 *   maru_dsm_lock(2);                                      // a lock of the program
 *   words[7]++;                                            // any node, while it has that lock
 *   maru_dsm_unlock(2);
 *
 * A container and what it holds lie at the same address on every node, so pointers and iterators
 * mean the same everywhere.  maru/dsm.h says how accesses of several nodes are to be ordered: locks
 * and barriers of the job, not std::mutex, which is a node's own.
 *
 * What lies there must not depend on the process: no virtual functions, no pointers to code, no
 * memory of another allocator (a std::string inside has its own: give it this one).  Nothing is
 * destroyed at the end of the job; its memory goes with it. Failure: std::bad_alloc where the heap,
 * or the shared memory, has not so much.  Needs C++17.
 */
#ifndef MARU_DSM_HPP
#define MARU_DSM_HPP

#include <maru/dsm.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace maru {

/* What std's containers take memory with.  Copies are equal, and may be used on any node. */
template <class T> class dsm_allocator {
public:
  using value_type = T;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  explicit dsm_allocator(maru_dsm_heap *heap) noexcept : heap_(heap) {}
  template <class U> dsm_allocator(const dsm_allocator<U> &other) noexcept : heap_(other.heap()) {}

  T *allocate(std::size_t count) {
    void *block = count <= SIZE_MAX / sizeof(T)
                      ? maru_dsm_heap_take(heap_, count * sizeof(T), alignof(T))
                      : nullptr;
    if (block == nullptr)
      throw std::bad_alloc();
    return static_cast<T *>(block);
  }
  void deallocate(T *block, std::size_t) noexcept { maru_dsm_heap_give(heap_, block); }

  maru_dsm_heap *heap() const noexcept { return heap_; }

private:
  maru_dsm_heap *heap_;
};

template <class T, class U>
bool operator==(const dsm_allocator<T> &one, const dsm_allocator<U> &other) noexcept {
  return one.heap() == other.heap();
}
template <class T, class U>
bool operator!=(const dsm_allocator<T> &one, const dsm_allocator<U> &other) noexcept {
  return !(one == other);
}

template <class T> using dsm_vector = std::vector<T, dsm_allocator<T>>;
template <class Key, class Value, class Less = std::less<Key>>
using dsm_map = std::map<Key, Value, Less, dsm_allocator<std::pair<const Key, Value>>>;
using dsm_string = std::basic_string<char, std::char_traits<char>, dsm_allocator<char>>;

/* A heap of maru_dsm_heap_create: a node's view of it. */
class dsm_heap {
public:
  dsm_heap(std::size_t size, std::uint32_t id) : heap_(maru_dsm_heap_create(size, id)), id_(id) {
    if (heap_ == nullptr)
      throw std::bad_alloc();
  }

  template <class T> dsm_allocator<T> allocator() const noexcept { return dsm_allocator<T>(heap_); }

  /* One T for all nodes, made by node 0 of these arguments and, where T takes one, of this heap's
   * allocator.  All nodes call it, in the same order with maru_dsm_alloc; they meet.  Where node 0
   * cannot make it, no node has it: node 0 throws what T's constructor threw, the others
   * std::bad_alloc if that was one, else std::runtime_error. */
  template <class T, class... Arguments> T &share(Arguments &&...arguments) const {
    static_assert(alignof(T) <= 64, "maru_dsm_alloc aligns to 64 bytes");
    auto *place =
        static_cast<place_of<T> *>(maru_dsm_alloc_at(sizeof(place_of<T>), "maru::dsm_heap::share"));
    if (place == nullptr)
      throw std::bad_alloc();
    std::exception_ptr thrown;
    if (maru_dsm_node() == 0)
      thrown = make(*place, std::forward<Arguments>(arguments)...);
    maru_dsm_barrier(id_);
    if (thrown)
      std::rethrow_exception(thrown);
    if (place->state == outcome::no_memory)
      throw std::bad_alloc();
    if (place->state == outcome::failed)
      throw std::runtime_error("maru::dsm_heap::share: node 0 could not make the object");
    return *std::launder(reinterpret_cast<T *>(place->bytes));
  }

private:
  /* Written by node 0 before the barrier of share, read by all after it. */
  enum class outcome : std::uint32_t { made, no_memory, failed };
  template <class T> struct place_of {
    alignas(T) unsigned char bytes[sizeof(T)];
    outcome state;
  };

  /* Throws nothing: the others wait. */
  template <class T, class... Arguments>
  std::exception_ptr make(place_of<T> &place, Arguments &&...arguments) const noexcept {
    place.state = outcome::failed;
    try {
      construct<T>(place.bytes, std::forward<Arguments>(arguments)...);
      place.state = outcome::made;
      return nullptr;
    } catch (const std::bad_alloc &) {
      place.state = outcome::no_memory;
      return std::current_exception();
    } catch (...) {
      return std::current_exception();
    }
  }

  template <class T, class... Arguments>
  void construct(void *object, Arguments &&...arguments) const {
    if constexpr (std::uses_allocator_v<T, dsm_allocator<char>>)
      ::new (object) T(std::forward<Arguments>(arguments)..., allocator<char>());
    else
      ::new (object) T(std::forward<Arguments>(arguments)...);
  }

  maru_dsm_heap *heap_;
  std::uint32_t id_;
};

/* A counter of the job (maru_dsm_fetch_add), as an object: every node that names the same id has
 * the same one.  Each call orders as a lock does. */
class dsm_counter {
public:
  explicit dsm_counter(std::uint32_t id) noexcept : id_(id) {}

  std::int64_t load() const noexcept { return maru_dsm_fetch_add(id_, 0); }
  /* Its value before. */
  std::int64_t fetch_add(std::int64_t delta) const noexcept {
    return maru_dsm_fetch_add(id_, delta);
  }
  /* Whether it was `expected`, and is `desired` now; else `expected` becomes what it is. */
  bool compare_exchange(std::int64_t &expected, std::int64_t desired) const noexcept {
    const std::int64_t before = maru_dsm_compare_swap(id_, expected, desired);
    const bool same = before == expected;
    expected = before;
    return same;
  }

private:
  std::uint32_t id_;
};

} // namespace maru

#endif
