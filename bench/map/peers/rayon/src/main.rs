//! One measurement of map/peers by rayon: rayon KIND SIZE WORKERS
use rayon::prelude::*;
use std::ffi::{c_char, c_int, c_long, c_longlong, CString};
use std::time::Instant;

#[link(name = "peers")]
extern "C" {
    fn peers_spin(us: c_long);
    fn peers_die_once(path: *const c_char);
    fn peers_place(item: c_long, look: c_long, size: c_long) -> c_long;
    fn peers_cpu_ns(children: c_int) -> c_longlong;
}

const RESULT: usize = 4 << 20;
const INPUT: usize = 64 << 20;

fn spin(us: i64) {
    // SAFETY: it reads a clock.
    unsafe { peers_spin(us as c_long) }
}

fn item(kind: &str, mark: &CString, index: i64) -> i64 {
    if kind == "killed" && index == 20 {
        // SAFETY: a string that ends with zero.
        unsafe { peers_die_once(mark.as_ptr()) }
    }
    spin(match kind {
        "nothing" => 0,
        "us10" | "iterated" => 10,
        "ms100" => 100_000,
        "skewed" => if index >= 60 { 20_000 } else { 1_000 },
        _ => 1_000,
    });
    index + 1
}

fn look(large: &[u8], index: i64) -> i64 {
    // SAFETY: arithmetic only.
    (0..16).map(|k| i64::from(large[unsafe { peers_place(index, k, INPUT as c_long) } as usize])).sum()
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (kind, size, workers) = (words[1].as_str(), words[2].parse::<i64>().unwrap(), words[3].parse::<usize>().unwrap());
    let mark = CString::new(std::env::var("MARU_BENCH_MARK").unwrap_or_default()).unwrap();
    let large: Vec<u8> = if kind == "input" { (0..INPUT).map(|k| (k % 251) as u8).collect() } else { Vec::new() };
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    // SAFETY: it reads counters.
    let cpu = || unsafe { peers_cpu_ns(0) };
    let (before, begun) = (cpu(), Instant::now());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    let checksum: i64 = pool.install(|| match kind {
        "results" => {
            let made: Vec<Vec<u8>> = (1..=size).into_par_iter().map(|i| vec![(i % 256) as u8; RESULT]).collect();
            made.iter().map(|r| r.len() as i64 + i64::from(r[0])).sum()
        }
        "input" => {
            let made: Vec<i64> = (1..=size).into_par_iter().map(|i| look(&large, i)).collect();
            made.iter().sum()
        }
        "iterated" => (1..=size).fold(0, |sum, k| {
            let made: Vec<i64> = (k..k + 8).into_par_iter().map(|i| item(kind, &mark, i + sum % 2)).collect();
            sum + made.iter().sum::<i64>()
        }),
        _ => {
            let made: Vec<i64> = (1..=size).into_par_iter().map(|i| item(kind, &mark, i)).collect();
            made.iter().sum()
        }
    });
    drop(pool);
    let (wall, used) = (begun.elapsed().as_nanos(), cpu() - before);
    println!("{{\"meter\":{{\"wall_ns\":{wall},\"cpu_self_ns\":{used},\"cpu_children_ns\":0}},\"checksum\":{checksum}}}");
}
