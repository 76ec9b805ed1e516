//! Tests with random schedules: every message is marked with the client that it belongs to, and no client may receive the
//! mark of another.
//!
//! A schedule has clients of both eras, with connections of their own and over HTTP, of several addresses and principals.
//! It has a server of either era that logs, reports progress, asks and notifies while it works on their requests, in any
//! order. The whole schedule follows from one number, which a failure prints, or from the bytes of the fuzz target
//! `gateway`.

mod choices;
mod over_http;
mod peers;
mod schedule;

use std::panic::{catch_unwind, resume_unwind};

use choices::{Choices, mark, marks};

use crate::Raw;

/// Schedules of one run, and the first seed.
const SCHEDULES: u64 = 10_000;
const FIRST_SEED: u64 = 1;
/// Actions of one schedule. A larger number completes open requests without finding new faults.
const ACTIONS: usize = 6;

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
fn seeded(mut seed: u64) -> Choices {
    Choices::new(std::iter::repeat_with(move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }))
}

#[test]
fn marks_are_found_wherever_they_are() {
    let text = format!(r#"{{"a":"{}","b":["x{}y"],"c":"~c"}}"#, mark(3), mark(12));
    assert_eq!(marks(&text).collect::<Vec<_>>(), [3, 12]);
}

#[test]
fn no_client_receives_what_belongs_to_another_and_none_loses_its_result() {
    let run = |first: u64| {
        for seed in (FIRST_SEED + first..FIRST_SEED + SCHEDULES).step_by(2) {
            let run = |shown| catch_unwind(|| schedule::run(seeded(seed), ACTIONS, shown));
            if let Err(panic) = run(false) {
                eprintln!("schedule {seed} fails:");
                drop(run(true));
                resume_unwind(panic);
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        run(0);
        if let Err(panic) = other.join() {
            resume_unwind(panic);
        }
    });
}
