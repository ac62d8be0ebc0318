use std::io;
struct Account { balance: i32 }
impl Account { fn get(&self) -> i32 { self.balance } }
fn total(xs: &[i32]) -> i32 {
    let mut s = 0;
    for i in 0..xs.len() { if xs[i] > 0 && true { s += xs[i]; } else if xs[i] == -1 { continue; } else { break; } }
    while s >= 100 { s -= 1; }
    loop { s += 1; break; }
    match s { 1 => s = 2, _ => { s = 3; } }
    let f = |a: i32| a + 1;
    println!("{}", s);
    if let Some(x) = g() { return x; }
    let a = Account { balance: 1 };
    return f(s);
}
