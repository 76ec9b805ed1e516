//! What the link does with what it is given.

use super::*;
use crate::link::Link;

#[test]
fn limits_hold_for_what_begins_behind_them_whatever_runs_already() {
    let mut link = Link::http("http://127.0.0.1:1/").link().expect("a URL");
    let running = Arc::clone(&link.wire);
    let mut limits = Limits::default();
    limits.message = 7;
    link.configure(&limits);
    assert_eq!(link.wire.limits, limits);
    assert_eq!(running.limits, Limits::default());
}
