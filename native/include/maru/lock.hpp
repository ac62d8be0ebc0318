/* maru/lock.hpp: the locks of maru/lock.h as C++ has them.
 *
 * A maru::mutex stands wherever a std::timed_mutex does: std::lock_guard, std::scoped_lock (several
 * at once), std::unique_lock, std::condition_variable_any.  One that is declared with static
 * storage is initialised before any code runs.  Its kind is a part of the type (maru::cna_mutex),
 * or is read from text when it is made.
 *
 *   maru::mutex mutex;                                    // the default kind
 *   maru::mutex near{"cna:deadline=25us"};                // as maru_lock_options_parse reads it
 *   std::lock_guard<maru::mutex> guard(mutex);
 *
 * Thread-safety, ordering and waiting are those of maru/lock.h.  Failure: std::system_error with
 * the errno in the generic category, from what maru/lock.h says may fail, and from nothing else: a
 * kind that takes no memory fails at its first acquisition or never.  Needs C++17.
 */
#ifndef MARU_LOCK_HPP
#define MARU_LOCK_HPP

#include <maru/lock.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <type_traits>

namespace maru {

template <maru_lock_kind Kind> class basic_mutex {
public:
  using native_handle_type = maru_mutex *;

  constexpr basic_mutex() noexcept = default;
  explicit basic_mutex(const maru_lock_options &options) {
    check(maru_mutex_init(&mutex_, &options), "maru_mutex_init");
  }
  explicit basic_mutex(const char *text) {
    maru_lock_options options;
    check(maru_lock_options_parse(&options, text, nullptr), "maru_lock_options_parse");
    check(maru_mutex_init(&mutex_, &options), "maru_mutex_init");
  }
  basic_mutex(const basic_mutex &) = delete;
  basic_mutex &operator=(const basic_mutex &) = delete;
  ~basic_mutex() { maru_mutex_destroy(&mutex_); }

  void lock() { check(maru_mutex_acquire(&mutex_), "maru_mutex_acquire"); }
  bool try_lock() { return had(maru_mutex_try(&mutex_), EBUSY, "maru_mutex_try"); }
  void unlock() noexcept { maru_mutex_release(&mutex_); }

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period> &longest) {
    return until(CLOCK_MONOTONIC,
                 std::chrono::steady_clock::now().time_since_epoch() + bounded(longest));
  }
  /* By the clock itself where it is the steady or the system clock, else by the time that it has
   * left. */
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline) {
    const auto then = bounded(deadline.time_since_epoch());
    if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>)
      return until(CLOCK_MONOTONIC, then);
    if constexpr (std::is_same_v<Clock, std::chrono::system_clock>)
      return until(CLOCK_REALTIME, then);
    const auto now = bounded(Clock::now().time_since_epoch());
    return try_lock_for(then > now ? then - now : std::chrono::nanoseconds::zero());
  }

  native_handle_type native_handle() noexcept { return &mutex_; }

private:
  static void check(int rc, const char *what) {
    if (rc < 0)
      throw std::system_error(-rc, std::generic_category(), what);
  }
  static bool had(int rc, int refusal, const char *what) {
    if (rc != -refusal)
      check(rc, what);
    return rc == 0;
  }
  /* Some 285 years at most, either way: beyond that the sums here would overflow. */
  template <class Duration> static std::chrono::nanoseconds bounded(const Duration &time) {
    using namespace std::chrono;
    constexpr seconds most{9'000'000'000};
    const duration<double> about = time;
    if (about >= duration<double>(most))
      return most;
    return about <= duration<double>(-most) ? -most : ceil<nanoseconds>(time);
  }
  bool until(clockid_t clock, std::chrono::nanoseconds since_epoch) {
    const auto whole = std::chrono::floor<std::chrono::seconds>(since_epoch);
    const timespec then = {static_cast<time_t>(whole.count()),
                           static_cast<long>((since_epoch - whole).count())};
    return had(maru_mutex_acquire_until(&mutex_, clock, &then), ETIMEDOUT,
               "maru_mutex_acquire_until");
  }

  maru_mutex mutex_ = MARU_MUTEX_INITIALIZER_OF(Kind);
};

using mutex = basic_mutex<MARU_LOCK_DEFAULT>;
using cna_mutex = basic_mutex<MARU_LOCK_CNA>;

} // namespace maru

#endif
