//! The locks of libmaru (`maru/lock.h`) for [`lock_api`].
//!
//! [`Mutex`] is of the default kind, [`CnaMutex`] prefers the holder's socket; both are made by a
//! `const fn`, so a `static` may hold one. Ordering, waiting and fairness are those of `maru/lock.h`.
//! A guard may go to another thread: any thread may release.
//!
//! # Panics
//! Acquisitions, where libmaru refuses: the lock behind a mutex cannot be made (no memory, or a
//! `MARU_TOPOLOGY` that cannot be read), or there is no memory for a hold of a kind that takes it.

use std::cell::UnsafeCell;
use std::os::raw::{c_int, c_long};
use std::ptr;
use std::time::{Duration, Instant};

use lock_api::{GuardSend, RawMutex, RawMutexTimed};

/// As `enum maru_lock_kind` has them.
pub mod kind {
    pub const PTHREAD: u32 = 0;
    pub const TTAS: u32 = 1;
    pub const TICKET: u32 = 2;
    pub const MCS: u32 = 3;
    pub const CLH: u32 = 4;
    pub const CNA: u32 = 5;
    pub const QSPIN: u32 = 6;
    pub const MALTHUSIAN: u32 = 7;
    pub const SHFL: u32 = 8;
    pub const FISSILE: u32 = 9;
    pub const C_BO_MCS: u32 = 10;
    pub const HMCS: u32 = 11;
    /// `MARU_LOCK_DEFAULT`.
    pub const DEFAULT: u32 = FISSILE;
}

/// `struct maru_mutex`.
#[repr(C)]
struct MaruMutex {
    lock: *mut u8,
    kind: u32,
    reserved: u32,
}

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

const CLOCK_MONOTONIC: c_int = 1;
const EBUSY: c_int = -16;
const ETIMEDOUT: c_int = -110;

extern "C" {
    fn maru_mutex_destroy(mutex: *mut MaruMutex);
    fn maru_mutex_acquire(mutex: *mut MaruMutex) -> c_int;
    fn maru_mutex_try(mutex: *mut MaruMutex) -> c_int;
    fn maru_mutex_acquire_until(mutex: *mut MaruMutex, clock: c_int, deadline: *const Timespec) -> c_int;
    fn maru_mutex_release(mutex: *mut MaruMutex);
    fn maru_now_ns() -> i64;
}

/// A `struct maru_mutex` of one kind.
pub struct RawMaru<const KIND: u32>(UnsafeCell<MaruMutex>);

// SAFETY: the functions of libmaru may be called from any thread, on one mutex at the same time.
unsafe impl<const KIND: u32> Send for RawMaru<KIND> {}
unsafe impl<const KIND: u32> Sync for RawMaru<KIND> {}

impl<const KIND: u32> RawMaru<KIND> {
    const NEW: Self = RawMaru(UnsafeCell::new(MaruMutex { lock: ptr::null_mut(), kind: KIND, reserved: 0 }));

    fn took(&self, rc: c_int, refusal: c_int) -> bool {
        assert!(rc == 0 || rc == refusal, "libmaru cannot lock: {}", std::io::Error::from_raw_os_error(-rc));
        rc == 0
    }

    fn try_until(&self, at_ns: i64) -> bool {
        let then = Timespec {
            seconds: (at_ns / 1_000_000_000) as c_long,
            nanoseconds: (at_ns % 1_000_000_000) as c_long,
        };
        // SAFETY: the mutex lives as long as `self`; `then` outlives the call.
        let rc = unsafe { maru_mutex_acquire_until(self.0.get(), CLOCK_MONOTONIC, &then) };
        self.took(rc, ETIMEDOUT)
    }
}

impl<const KIND: u32> Drop for RawMaru<KIND> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more.
        unsafe { maru_mutex_destroy(self.0.get()) }
    }
}

// SAFETY: one thread at a time has it, from an acquisition that succeeded to the release.
unsafe impl<const KIND: u32> RawMutex for RawMaru<KIND> {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self::NEW;
    type GuardMarker = GuardSend;

    fn lock(&self) {
        // SAFETY: the mutex lives as long as `self`, and so below.
        let rc = unsafe { maru_mutex_acquire(self.0.get()) };
        self.took(rc, 0);
    }

    fn try_lock(&self) -> bool {
        let rc = unsafe { maru_mutex_try(self.0.get()) };
        self.took(rc, EBUSY)
    }

    unsafe fn unlock(&self) {
        maru_mutex_release(self.0.get())
    }
}

// SAFETY: as above.
unsafe impl<const KIND: u32> RawMutexTimed for RawMaru<KIND> {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, longest: Duration) -> bool {
        let longest_ns = i64::try_from(longest.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: it reads a clock.
        let now_ns = unsafe { maru_now_ns() };
        self.try_until(now_ns.saturating_add(longest_ns))
    }

    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.try_lock_for(deadline.saturating_duration_since(Instant::now()))
    }
}

/// A mutex of the default kind.
pub type Mutex<T> = lock_api::Mutex<RawMaru<{ kind::DEFAULT }>, T>;
/// What its `lock` returns.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMaru<{ kind::DEFAULT }>, T>;
/// A mutex that prefers the holder's socket.
pub type CnaMutex<T> = lock_api::Mutex<RawMaru<{ kind::CNA }>, T>;

/// A [`Mutex`], for a `static`.
pub const fn mutex<T>(value: T) -> Mutex<T> {
    Mutex::const_new(RawMaru::NEW, value)
}

/// A [`CnaMutex`], for a `static`.
pub const fn cna_mutex<T>(value: T) -> CnaMutex<T> {
    CnaMutex::const_new(RawMaru::NEW, value)
}
