//! Fuzz target of a gateway's schedules: clients of both eras in front of servers of either era; each byte of the input is
//! one choice. The schedule is that of the gateway's own tests.
#![no_main]

#[path = "../../../crates/gateway/tests/gateway/owners/choices.rs"]
mod choices;
#[path = "../../../crates/gateway/tests/gateway/owners/peers.rs"]
mod peers;
#[path = "../../../crates/gateway/tests/gateway/raw.rs"]
#[expect(dead_code, reason = "the tests do more with it")]
mod raw;
#[path = "../../../crates/gateway/tests/gateway/owners/schedule.rs"]
mod schedule;

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use mcpjoin_fuzz::{Input, start};

use choices::{Choices, mark, marks};
use raw::Raw;

/// The largest number of actions of a schedule: four times that of the tests.
const MOST_ACTIONS: usize = 24;

/// Whether a known input is run again: then the events are printed.
static AGAIN: OnceLock<bool> = OnceLock::new();

fuzz_target!(init: start("gateway"), |data: &[u8]| {
    let again = || std::env::args_os().nth(1).is_some_and(|word| Path::new(&word).is_file());
    let mut input = Input::new(data);
    let actions = usize::from(input.byte()) % (MOST_ACTIONS + 1);
    let choices = Choices::new(input.rest().to_vec().into_iter().map(u64::from));
    schedule::run(choices, actions, *AGAIN.get_or_init(again));
});
