//! Prints tables of the cost of decoding and calling: `cargo run --release` in `bench/`. With the argument `decode` or
//! `calls` it prints only that table. `count CELL TIMES` repeats one operation and prints nothing (`counted`).
//!
//! Everything is measured in one run, in turns, so that the ratios can be compared between machines although the figures
//! cannot.

mod calls;
mod counted;
mod decoding;
mod harness;
mod texts;

/// The number of turns of each candidate.
const ROUNDS: usize = 25;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [count, cell, times] = &*words
        && count == "count"
    {
        return counted::run(cell, times.parse().expect("TIMES is a number"));
    }
    let only = words.first().cloned();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("decode") {
        decoding::run(ROUNDS);
    }
    if wanted("calls") {
        calls::run(ROUNDS);
    }
}
