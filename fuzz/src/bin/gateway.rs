//! Schedules of a gateway: clients of both eras before servers of either one, whose every choice is a byte of the input. The
//! schedule is that of the gateway's own tests.
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

/// A schedule has so many actions at most: four times those of the tests.
const MOST_ACTIONS: usize = 24;

/// Whether an input is run again: then what happens is printed.
static AGAIN: OnceLock<bool> = OnceLock::new();

fuzz_target!(init: start("gateway"), |data: &[u8]| {
    let again = || std::env::args_os().nth(1).is_some_and(|word| Path::new(&word).is_file());
    let mut input = Input::new(data);
    let actions = usize::from(input.byte()) % (MOST_ACTIONS + 1);
    let choices = Choices::new(input.rest().to_vec().into_iter().map(u64::from));
    schedule::run(choices, actions, *AGAIN.get_or_init(again));
});
