//! Eight threads add to one number under a lock that a `static` holds.

use maru_lock::Mutex;

static COUNT: Mutex<u64> = maru_lock::mutex(0);

fn main() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    *COUNT.lock() += 1;
                }
            });
        }
    });
    println!("{}", COUNT.lock());
}
