//! What the C does with atomics, transcribed for loom, which tries every interleaving and every
//! value that C11's memory model lets a load return.
//!
//! These are models: nothing here is compiled from the C.  Each has the name of the functions that
//! it transcribes, and their memory orders; a change there is made here, too.  A plain variable
//! of C is a `Plain`: loom finds two accesses that nothing orders.  A wake-up that is lost is found
//! as a deadlock.  Deadlines and slices, which would hide one, are left out.
//!
//! Each runs as it is and must pass.  Then each of its orders in turn is relaxed, and that must be
//! found; those that are not found are listed with the reason.  Loom lets no load return what is
//! stored later, and a read-modify-write returns the newest value even where it fails.
//!
//! usage: maru-loom [WORD]     those whose names hold it; a line each, PASS or FAIL; status 1 after a FAIL

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering, Ordering::*};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// The order that is relaxed in this run.
#[derive(Clone, Copy)]
struct Orders(Option<&'static str>);

impl Orders {
    fn is(self, name: &str) -> bool {
        self.0 == Some(name)
    }
    fn acquire(self, name: &str) -> Ordering {
        if self.is(name) { Relaxed } else { Acquire }
    }
    fn release(self, name: &str) -> Ordering {
        if self.is(name) { Relaxed } else { Release }
    }
    /// Either half may be missing.
    fn acq_rel(self, acquire: &str, release: &str) -> Ordering {
        if self.is(acquire) {
            Release
        } else if self.is(release) {
            Acquire
        } else {
            AcqRel
        }
    }
}

/// Memory that is not atomic in C.
struct Plain(UnsafeCell<usize>);

impl Plain {
    fn new(value: usize) -> Self {
        Plain(UnsafeCell::new(value))
    }
    fn read(&self) -> usize {
        // SAFETY: loom ends the run where this races.
        self.0.with(|at| unsafe { *at })
    }
    fn write(&self, value: usize) {
        // SAFETY: as above.
        self.0.with_mut(|at| unsafe { *at = value })
    }
}

// ---- native/wait -----------------------------------------------------------------------------

const ARMED: u32 = 1;
const STEP: u32 = 2;
const SET: u32 = 2;

/// A word that is waited for, with the kernel's list of those that sleep on it.
struct Word {
    value: AtomicU32,
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Word {
    fn new() -> Self {
        Word { value: AtomicU32::new(0), lock: Mutex::new(()), sleepers: Condvar::new() }
    }
    /// The kernel compares and queues under the lock of the word's list.
    fn futex_wait(&self, expected: u32) {
        let list = self.lock.lock().unwrap();
        if self.value.load(Relaxed) == expected {
            drop(self.sleepers.wait(list).unwrap());
        }
    }
    fn futex_wake_all(&self) {
        let _list = self.lock.lock().unwrap();
        self.sleepers.notify_all();
    }
    /// maru_notify.
    fn notify(&self, order: Ordering) {
        if self.value.fetch_add(STEP, order) & ARMED != 0 {
            self.value.fetch_and(!ARMED, Relaxed);
            self.futex_wake_all();
        }
    }
    /// maru_notify_store.
    fn notify_store(&self, value: u32, order: Ordering) {
        if self.value.swap(value, order) & ARMED != 0 {
            self.futex_wake_all();
        }
    }
    /// mr_look_at, then mr_block_until, which arms.
    fn wait(&self, holds: impl Fn(u32) -> bool, look: Ordering, arm: Ordering) {
        if holds(self.value.load(look) & !ARMED) {
            return;
        }
        loop {
            let now = self.value.fetch_or(ARMED, arm);
            if holds(now & !ARMED) {
                return;
            }
            self.futex_wait(now | ARMED);
        }
    }
}

/// Two notifiers, each with something to say; the second's step is no end of the first's release.
fn notify_and_block(o: Orders) {
    let all = Arc::new((Word::new(), [Plain::new(0), Plain::new(0)]));
    let notifiers: Vec<_> = (0..2)
        .map(|i| {
            let all = all.clone();
            thread::spawn(move || {
                all.1[i].write(7);
                all.0.notify(o.release("step"));
            })
        })
        .collect();
    all.0.wait(|value| value == 2 * STEP, o.acquire("look"), o.acquire("arm"));
    assert_eq!(all.1[0].read() + all.1[1].read(), 14);
    notifiers.into_iter().for_each(|t| t.join().unwrap());
}

fn notify_store_and_block(o: Orders) {
    let all = Arc::new((Word::new(), Plain::new(0)));
    let notifier = {
        let all = all.clone();
        thread::spawn(move || {
            all.1.write(7);
            all.0.notify_store(SET, o.release("store"));
        })
    };
    all.0.wait(|value| value == SET, o.acquire("look"), o.acquire("arm"));
    assert_eq!(all.1.read(), 7);
    notifier.join().unwrap();
}

// ---- native/channel: the log -----------------------------------------------------------------

const RECORDS: usize = 2;
const COMMITTED: usize = 1 << 32;

struct Log {
    words: [AtomicUsize; RECORDS + 1],
    chunks: [Plain; RECORDS],
    closed: AtomicU32,
}

/// What an earlier, longer chunk has left where the second record's word comes to lie.
const LEFT: usize = COMMITTED | 99;

fn log_commit(log: &Log, number: usize, o: Orders) {
    log.words[number + 1].store(0, Relaxed);
    log.chunks[number].write(number + 7);
    log.words[number].store(COMMITTED | number, o.release("commit"));
}

/// maru_log_next, by way of peek; None: there will never be one.
fn log_next(log: &Log, next: usize, o: Orders) -> Option<bool> {
    if log.words[next].load(o.acquire("next")) != 0 {
        return Some(true);
    }
    if log.closed.load(o.acquire("closed")) == 0 {
        return Some(false);
    }
    (log.words[next].load(o.acquire("next")) != 0).then_some(true)
}

fn log(o: Orders) {
    let log = Arc::new(Log {
        words: [AtomicUsize::new(0), AtomicUsize::new(LEFT), AtomicUsize::new(0)],
        chunks: [Plain::new(0), Plain::new(0)],
        closed: AtomicU32::new(0),
    });
    let producer = {
        let log = log.clone();
        thread::spawn(move || {
            (0..RECORDS).for_each(|number| log_commit(&log, number, o));
            log.closed.store(1, o.release("close"));
        })
    };
    let mut count = 0;
    while let Some(came) = log_next(&log, count, o) {
        if !came {
            thread::yield_now();
            continue;
        }
        assert_eq!(log.words[count].load(Relaxed), COMMITTED | count);
        assert_eq!(log.chunks[count].read(), count + 7);
        count += 1;
    }
    assert_eq!(count, RECORDS);
    producer.join().unwrap();
}

// ---- native/channel: the crew ----------------------------------------------------------------

const FREE: usize = 0;
const READY: usize = 1;
const TAKEN: usize = 2;

fn state(phase: usize, ticket: usize) -> usize {
    ticket * 4 + phase
}

/// Of one slot, which each chunk has in turn.
struct Crew {
    slot: AtomicUsize,
    first: Plain,
    published: AtomicUsize,
    closed: AtomicU32,
    record: Plain, // of the worker, between its two chunks
}

const TICKETS: usize = 2;

/// maru_crew_publish; false: the slot is not free yet.
fn crew_publish(crew: &Crew, ticket: usize, o: Orders) -> bool {
    if crew.slot.load(o.acquire("free-look")) != state(FREE, ticket) {
        return false;
    }
    crew.first.write(ticket + 7);
    crew.slot.store(state(READY, ticket), o.release("ready"));
    crew.published.store(ticket + 1, Release);
    true
}

/// take, which is what maru_crew_claim does, and maru_crew_done.
fn crew_take(crew: &Crew, ticket: usize, o: Orders) -> bool {
    let taken = crew.published.load(Acquire) > ticket
        && crew
            .slot
            .compare_exchange(state(READY, ticket), state(TAKEN, ticket), o.acq_rel("take", "claim"), Relaxed)
            .is_ok();
    if taken {
        assert_eq!(crew.first.read(), ticket + 7);
    }
    taken
}

fn crew(o: Orders) {
    let crew = Arc::new(Crew {
        slot: AtomicUsize::new(state(FREE, 0)),
        first: Plain::new(0),
        published: AtomicUsize::new(0),
        closed: AtomicU32::new(0),
        record: Plain::new(0),
    });
    let worker = {
        let crew = crew.clone();
        thread::spawn(move || {
            let mut next = 0;
            loop {
                let closed = crew.closed.load(o.acquire("closed")) != 0;
                if crew_take(&crew, next, o) {
                    if next == 0 {
                        crew.slot.store(state(FREE, 1), o.release("free"));
                        crew.record.write(1);
                    }
                    next += 1;
                } else if closed {
                    break;
                } else {
                    thread::yield_now();
                }
            }
            assert_eq!(next, TICKETS);
        })
    };
    for ticket in 0..TICKETS {
        while !crew_publish(&crew, ticket, o) {
            thread::yield_now();
        }
    }
    crew.closed.store(1, o.release("close"));
    // find_claim, after the worker's death: the claim brings the records before it.
    if crew.slot.load(o.acquire("find")) == state(TAKEN, 1) {
        assert_eq!(crew.record.read(), 1);
    }
    worker.join().unwrap();
}

const SITTING: u32 = 1;

/// announce on one side, look_around and await_work on the other: no chunk slips between.
fn seats(o: Orders) {
    let all = Arc::new((AtomicU32::new(0), Word::new(), AtomicUsize::new(0), Plain::new(0)));
    let worker = {
        let all = all.clone();
        thread::spawn(move || {
            let (work, seat, ready, chunk) = (&all.0, &all.1, &all.2, &all.3);
            loop {
                let rung = seat.value.load(Acquire) & !ARMED;
                let seen = work.load(Acquire) & !SITTING;
                if ready.load(Acquire) != 0 {
                    break;
                }
                if work.fetch_or(SITTING, o.acq_rel("step-seen", "mark")) & !SITTING == seen {
                    seat.wait(|value| value != rung, o.acquire("look"), o.acquire("arm"));
                }
            }
            assert_eq!(chunk.read(), 7);
        })
    };
    all.3.write(7);
    all.2.store(1, Release);
    if all.0.fetch_add(STEP, o.release("announce")) & SITTING != 0 {
        all.0.fetch_and(!SITTING, AcqRel);
        all.1.notify(o.release("ring"));
    }
    worker.join().unwrap();
}

// ---- native/lock: the queue ------------------------------------------------------------------

const WAITERS: usize = 2;

struct Node {
    made: Plain, // all that node_init writes
    socket: Plain,
    next: AtomicUsize,
    linked: Word,
    state: Word,
}

impl Node {
    fn new() -> Self {
        Node { made: Plain::new(0), socket: Plain::new(0), next: AtomicUsize::new(0), linked: Word::new(), state: Word::new() }
    }
}

/// `tail` is 0, or a node's number + 1.
struct Queue {
    tail: AtomicUsize,
    nodes: [Node; WAITERS],
    guarded: Plain,
}

/// join and await_grant, which are mr_queue_acquire.
fn queue_acquire(queue: &Queue, me: usize, o: Orders) {
    let node = &queue.nodes[me];
    node.made.write(1);
    let before = queue.tail.swap(me + 1, o.acq_rel("join", "made"));
    if before == 0 {
        return;
    }
    let before = &queue.nodes[before - 1];
    assert_eq!(before.made.read(), 1);
    node.socket.write(me + 7);
    before.next.store(me + 1, Relaxed);
    before.linked.notify_store(SET, o.release("link"));
    node.state.wait(|value| value == SET, o.acquire("granted-look"), o.acquire("granted"));
}

/// hand_on and mr_queue_release.
fn queue_release(queue: &Queue, me: usize, o: Orders) {
    let node = &queue.nodes[me];
    if node.linked.value.load(o.acquire("linked")) & SET == 0 {
        if queue.tail.compare_exchange(me + 1, 0, o.release("leave"), Relaxed).is_ok() {
            return;
        }
        node.linked.wait(|value| value == SET, o.acquire("linked"), o.acquire("linked-armed"));
    }
    let next = node.next.load(Relaxed) - 1;
    assert_eq!(queue.nodes[next].socket.read(), next + 7);
    queue.nodes[next].state.notify_store(SET, o.release("grant"));
}

fn queue(o: Orders) {
    let queue = Arc::new(Queue { tail: AtomicUsize::new(0), nodes: [Node::new(), Node::new()], guarded: Plain::new(0) });
    let run = move |queue: &Queue, me| {
        queue_acquire(queue, me, o);
        queue.guarded.write(queue.guarded.read() + 1);
        queue_release(queue, me, o);
    };
    let other = {
        let queue = queue.clone();
        thread::spawn(move || run(&queue, 1))
    };
    run(&queue, 0);
    other.join().unwrap();
    assert_eq!(queue.guarded.read(), WAITERS);
}

const WAITING: u32 = 0;
const GIVEN_UP: u32 = 1;
const OFFERED: u32 = 2;

/// A waiter that gives up in await_grant, a holder that offers, and frees what was left.
fn give_up(o: Orders) {
    struct Left {
        claim: AtomicU32,
        state: Word,
        node: Plain,
        guarded: Plain,
    }
    let all = Arc::new(Left { claim: AtomicU32::new(WAITING), state: Word::new(), node: Plain::new(0), guarded: Plain::new(0) });
    let waiter = {
        let all = all.clone();
        thread::spawn(move || {
            all.node.write(1);
            if all.state.value.load(o.acquire("granted-look")) & SET == 0 {
                if all.claim.compare_exchange(WAITING, GIVEN_UP, o.release("give-up"), Relaxed).is_ok() {
                    return;
                }
                all.state.wait(|value| value == SET, o.acquire("granted-look"), o.acquire("granted"));
            }
            assert_eq!(all.guarded.read(), 1);
            all.node.write(2);
        })
    };
    all.guarded.write(1);
    if all.claim.compare_exchange(WAITING, OFFERED, Acquire, o.acquire("left")).is_ok() {
        all.state.notify_store(SET, o.release("grant"));
    } else {
        all.node.write(3); // freed
    }
    waiter.join().unwrap();
}

/// sleep_far's mark: bit 0 and the slot, here the only one.
const MARK: u32 = ARMED | 1 << 8;

/// mr_turn_wait of a far one, in `sleep_far` again and again; `marks` as there, false once it holds.
fn turn_wait(word: &Word, slot: &Word, o: Orders, holds: impl Fn(u32) -> bool, marks: impl Fn() -> bool) {
    while !holds(word.value.load(o.acquire("look"))) {
        let seen = slot.value.load(o.acquire("count")) & !ARMED;
        if !marks() {
            return;
        }
        slot.wait(|count| count != seen, o.acquire("block-look"), o.acquire("arm"));
    }
}

/// A word with room for a mark: mr_turn_wait, mr_turn_grant, beside one that calls early.
fn turn_marked(o: Orders) {
    let all = Arc::new((Word::new(), Word::new(), Plain::new(0)));
    let granter = {
        let all = all.clone();
        thread::spawn(move || {
            let (word, slot, guarded) = &*all;
            guarded.write(7);
            if word.value.swap(SET, o.release("grant")) & ARMED != 0 {
                slot.notify(o.release("call"));
            }
        })
    };
    let early = {
        let all = all.clone();
        thread::spawn(move || {
            if all.1.value.load(Relaxed) & ARMED != 0 {
                all.1.notify(o.release("call"));
            }
        })
    };
    let (word, slot, guarded) = &*all;
    let holds = |value| value & SET != 0;
    let marks = || {
        let mut value = word.value.load(o.acquire("mark-look"));
        while !holds(value) {
            match word.value.compare_exchange(value, value | MARK, o.acquire("mark"), o.acquire("mark-look")) {
                Ok(_) => return true,
                Err(now) => value = now,
            }
        }
        false
    };
    turn_wait(word, slot, o, holds, marks);
    assert_eq!(guarded.read(), 7);
    granter.join().unwrap();
    early.join().unwrap();
}

/// A word without that room: ticket_wait, ticket_release.
fn turn_called(o: Orders) {
    let all = Arc::new((Word::new(), Word::new(), Plain::new(0)));
    let granter = {
        let all = all.clone();
        thread::spawn(move || {
            let (word, slot, guarded) = &*all;
            guarded.write(7);
            word.notify_store(SET, o.release("grant"));
            slot.notify(o.release("call"));
        })
    };
    let (word, slot, guarded) = &*all;
    let holds = |value| value == SET;
    turn_wait(word, slot, o, holds, || !holds(word.value.load(o.acquire("mark-look"))));
    assert_eq!(guarded.read(), 7);
    granter.join().unwrap();
}

// ---- all of it ---------------------------------------------------------------------------------

struct Model {
    name: &'static str,
    run: fn(Orders),
    /// Each is found when it is relaxed.
    orders: &'static [&'static str],
    /// Not found, and why.
    spared: &'static [(&'static str, &'static str)],
}

const MARKED_SPARED: &[(&str, &str)] = &[
    ("mark", "what is waited for is not there yet"),
    ("count", "the grant calls after it has seen the mark, which is later"),
    ("call", "the look at the word acquires"),
    ("block-look", "the look at the word acquires"),
    ("arm", "the look at the word acquires"),
];
const CALLED_SPARED: &[(&str, &str)] = &[
    ("block-look", "the next look at the count acquires"),
    ("arm", "the next look at the count acquires"),
];

const MODELS: &[Model] = &[
    Model { name: "maru_notify, mr_block_until", run: notify_and_block, orders: &["step", "look", "arm"], spared: &[] },
    Model { name: "maru_notify_store, mr_block_until", run: notify_store_and_block, orders: &["store", "look", "arm"], spared: &[] },
    Model { name: "maru_log_commit, maru_log_close, maru_log_next", run: log, orders: &["commit", "close", "next", "closed"], spared: &[] },
    Model {
        name: "maru_crew_publish, maru_crew_close, take, find_claim, maru_crew_done",
        run: crew,
        orders: &["claim", "free", "free-look", "close", "closed", "find"],
        spared: &[("ready", "`published` brings the chunk, too"), ("take", "`published` brings the chunk, too")],
    },
    Model {
        name: "announce, look_around, await_work",
        run: seats,
        orders: &["announce"],
        spared: &[
            ("mark", "loom lets no load return what is stored later"),
            ("step-seen", "the next look at the ring acquires the step"),
            ("ring", "it says no more than to look again, which acquires"),
            ("look", "as the ring"),
            ("arm", "as the ring"),
        ],
    },
    Model {
        name: "mr_queue_acquire, mr_queue_release",
        run: queue,
        orders: &["join", "made", "link", "granted-look", "granted", "linked", "linked-armed", "leave", "grant"],
        spared: &[],
    },
    Model { name: "mr_turn_wait, mr_turn_grant", run: turn_marked, orders: &["look", "mark-look", "grant"], spared: MARKED_SPARED },
    Model { name: "ticket_wait, ticket_release", run: turn_called, orders: &["look", "mark-look", "grant", "call", "count"], spared: CALLED_SPARED },
    Model { name: "offer, await_grant", run: give_up, orders: &["give-up", "left", "granted-look", "granted", "grant"], spared: &[] },
];

fn check(run: fn(Orders), orders: Orders) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || run(orders));
}

/// In a process of its own: loom may end one that fails.
fn finds(model: &Model, order: &str) -> bool {
    let program = std::env::current_exe().expect("this program's own path");
    let mut command = std::process::Command::new(program);
    let command = command.args(["--run", model.name, order]).stderr(std::process::Stdio::null());
    !command.status().expect("this program starts again").success()
}

/// `--run NAME ORDER`: one run, which ends by itself or by a panic.
fn run_one(name: &str, order: &str) {
    let model = MODELS.iter().find(|model| model.name == name).expect("a model's name");
    let orders = model.orders.iter().chain(model.spared.iter().map(|(order, _)| order));
    check(model.run, Orders(orders.copied().find(|one| *one == order)));
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, flag, name, order] = &words[..] {
        assert_eq!(flag, "--run");
        return run_one(name, order);
    }
    let word = words.get(1).cloned().unwrap_or_default();
    let mut failed = 0;
    let mut say = |good: bool, line: String| {
        failed += usize::from(!good);
        println!("{}  {line}", if good { "PASS" } else { "FAIL" });
    };
    for model in MODELS.iter().filter(|model| model.name.contains(&word)) {
        say(!finds(model, ""), model.name.to_string());
        for order in model.orders {
            say(finds(model, order), format!("{}: {order} relaxed is found", model.name));
        }
        for (order, reason) in model.spared {
            say(!finds(model, order), format!("{}: {order} relaxed is not found: {reason}", model.name));
        }
    }
    std::process::exit(i32::from(failed > 0));
}
