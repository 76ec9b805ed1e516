//! Fuzz target of a gateway's schedules: clients of both eras in front of servers of either era; each byte of the input is
//! one choice. The schedule is that of the gateway's own tests.

#[path = "../../crates/gateway/tests/gateway/owners/choices.rs"]
mod choices;
#[path = "../../crates/gateway/tests/gateway/owners/peers.rs"]
mod peers;
#[path = "../../crates/gateway/tests/gateway/raw.rs"]
#[expect(dead_code, reason = "the tests do more with it")]
mod raw;
#[path = "../../crates/gateway/tests/gateway/owners/schedule.rs"]
mod schedule;

use crate::Input;

use choices::{Choices, mark, marks};
use raw::Raw;

/// The largest number of actions of a schedule: four times that of the tests.
const MOST_ACTIONS: usize = 24;

/// Set to print the events of each schedule.
const PRINT: &str = "MCPJOIN_FUZZ_PRINT";

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let actions = usize::from(input.byte()) % (MOST_ACTIONS + 1);
    let choices = Choices::new(input.rest().to_vec().into_iter().map(u64::from));
    schedule::run(choices, actions, std::env::var_os(PRINT).is_some());
}
