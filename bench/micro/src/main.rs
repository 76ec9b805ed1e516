//! Prints what decoding and calling cost, as tables: `cargo run --release` in `bench/`. With `decode` or `calls` only
//! those.
//!
//! Everything is measured in this one run, in turns, so that the ratios hold where the figures do not.

mod calls;
mod decoding;
mod harness;
mod texts;

/// Turns per candidate.
const ROUNDS: usize = 25;

fn main() {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("decode") {
        decoding::run(ROUNDS);
    }
    if wanted("calls") {
        calls::run(ROUNDS);
    }
}
