//! One thread at a time, nobody lost, for every kind; deadlines; guards that travel.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lock_api::{RawMutex, RawMutexTimed};
use maru_lock::{kind, Mutex, RawMaru};

static DECLARED: Mutex<u64> = maru_lock::mutex(0);
static NEAR: maru_lock::CnaMutex<u64> = maru_lock::cna_mutex(0);

const THREADS: u64 = 4;
const ROUNDS: u64 = 2000;
const LIVENESS: Duration = Duration::from_secs(60);

fn all_add<R: RawMutex + Send + Sync>(value: &lock_api::Mutex<R, u64>) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    if round % 4 == 0 {
                        while value.try_lock().map(|mut guard| *guard += 1).is_none() {
                            thread::yield_now();
                        }
                    } else {
                        *value.lock() += 1;
                    }
                }
            });
        }
    });
    assert_eq!(*value.lock(), THREADS * ROUNDS);
}

#[test]
fn declared() {
    all_add(&DECLARED);
    all_add(&NEAR);
}

macro_rules! kinds {
    ($($name:ident $kind:ident),*) => { $(#[test] fn $name() {
        all_add(&lock_api::Mutex::<RawMaru<{ kind::$kind }>, u64>::new(0));
    })* };
}
kinds!(pthread PTHREAD, ttas TTAS, ticket TICKET, mcs MCS, clh CLH, cna CNA, qspin QSPIN,
       malthusian MALTHUSIAN, shfl SHFL, fissile FISSILE, c_bo_mcs C_BO_MCS, hmcs HMCS);

fn deadlines<R: RawMutexTimed<Duration = Duration, Instant = Instant> + Send + Sync>(value: &lock_api::Mutex<R, u64>) {
    let guard = value.lock();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let begun = Instant::now();
            assert!(value.try_lock().is_none());
            assert!(value.try_lock_for(Duration::from_millis(20)).is_none());
            assert!(value.try_lock_until(Instant::now() + Duration::from_millis(20)).is_none());
            assert!(begun.elapsed() >= Duration::from_millis(40));
        });
        other.join().unwrap();
        scope.spawn(|| assert!(value.try_lock_for(LIVENESS).is_some()));
        drop(guard);
    });
    assert!(value.try_lock_for(Duration::MAX).is_some());
}

#[test]
fn deadlines_of_two_kinds() {
    deadlines(&maru_lock::mutex(0));
    deadlines(&maru_lock::cna_mutex(0));
}

/// lock_api's own: the mutex is released by the thread that has got the guard.
#[test]
fn a_guard_goes_to_another_thread() {
    let value = Mutex::new(1);
    let guard = value.lock();
    thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
    assert_eq!(*value.try_lock_for(LIVENESS).expect("released"), 1);
}

/// A panic under the lock releases it, as lock_api says.
#[test]
fn a_panic_releases() {
    let value = Arc::new(Mutex::new(0));
    let held = Arc::clone(&value);
    let died = thread::spawn(move || {
        let _guard = held.lock();
        panic!("under the lock");
    });
    assert!(died.join().is_err());
    assert!(value.try_lock_for(LIVENESS).is_some());
}

#[test]
#[should_panic(expected = "libmaru cannot lock")]
fn an_unknown_kind_is_said() {
    drop(lock_api::Mutex::<RawMaru<12>, u64>::new(0).lock());
}
