//! Tests of the batches of 2025-03-26: the stored replies are limited, and every request has its reply.

use mcpjoin_proto::session::{Limits, Reply};
use mcpjoin_proto::{Raw, RequestId};
use serde_json::Value;

use crate::common::*;

fn batch(parts: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", parts.into_iter().collect::<Vec<_>>().join(","))
}

fn lists(ids: impl IntoIterator<Item = u32>) -> String {
    batch(ids.into_iter().map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#)))
}

fn filler(bytes: usize) -> Raw {
    raw(&format!(r#"{{"x":"{}"}}"#, "x".repeat(bytes)))
}

/// The replies in one line: each id with the message of its error, or `None`.
fn replies(line: &str) -> Vec<(u64, Option<String>)> {
    let parts: Vec<Value> = serde_json::from_str(line).unwrap();
    parts
        .iter()
        .map(|part| (part["id"].as_u64().unwrap(), part["error"]["message"].as_str().map(str::to_owned)))
        .collect()
}

#[test]
fn a_joined_reply_is_no_longer_than_a_message_may_be() {
    let mut limits = Limits::default();
    limits.message = 4096;
    let mut server = opened_server("2025-03-26", limits);
    say(&mut server, &lists(1..=5));
    for id in 1..=5 {
        server.respond(&RequestId::from(id), Ok(Reply::Complete(filler(1200))));
    }
    let lines = sent(&mut server);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].len() <= 4096, "{} bytes in one message", lines[0].len());
    let replies = replies(&lines[0]);
    assert_eq!(replies.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let refused: Vec<_> = replies.iter().filter_map(|(_, error)| error.as_deref()).collect();
    assert_eq!(refused.len(), 2, "three of 1.2 kB fit beside two errors: {refused:?}");
    for error in refused {
        assert!(error.contains("limit `message` of 4096 bytes"), "{error}");
    }
}

#[test]
fn a_batch_with_a_limit_of_one_byte_has_an_error_for_each_request() {
    let mut limits = Limits::default();
    limits.message = 1;
    let mut server = opened_server("2025-03-26", limits);
    say(&mut server, &lists([1, 2]));
    for id in [2, 1] {
        server.respond(&RequestId::from(id), Ok(Reply::empty()));
    }
    let lines = sent(&mut server);
    let refused = replies(&lines[0]);
    assert_eq!(refused.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 1]);
    assert!(
        refused.iter().all(|(_, error)| error.as_ref().is_some_and(|error| error.contains("`message` of 1")))
    );
}

#[test]
fn the_last_reply_of_a_batch_may_fill_the_message() {
    let whole = r#"[{"jsonrpc":"2.0","id":1,"result":{"x":""}}]"#.len();
    for (over, fits) in [(0, true), (1, false)] {
        let mut limits = Limits::default();
        limits.message = 1000;
        let mut server = opened_server("2025-03-26", limits);
        say(&mut server, &lists([1]));
        server.respond(&1.into(), Ok(Reply::Complete(filler(1000 - whole + over))));
        let lines = sent(&mut server);
        assert_eq!(replies(&lines[0])[0].1.is_none(), fits, "{} bytes", lines[0].len());
    }
}

/// A batch is stored until its last request has a reply, which never happens here before the end.
#[test]
fn replies_that_wait_for_the_rest_of_their_batches_are_bounded_in_all() {
    let mut limits = Limits::default();
    limits.queued_replies = 64 * 1024;
    let mut server = opened_server("2025-03-26", limits);
    let mut refused = 0;
    for number in 0..200 {
        say(&mut server, &lists([2 * number, 2 * number + 1]));
        let admitted = requests(&mut server);
        if admitted.is_empty() {
            // The batch is rejected as a whole, so none of it is stored.
            let lines = sent(&mut server);
            let ids: Vec<_> = replies(&lines[0]).iter().map(|(id, _)| *id).collect();
            assert_eq!(ids, [u64::from(2 * number), u64::from(2 * number + 1)]);
            assert!(replies(&lines[0]).iter().all(|(_, error)| {
                error.as_ref().is_some_and(|error| error.contains("limit `queued_replies` of 65536"))
            }));
            refused += 1;
        } else {
            server.respond(&admitted[0], Ok(Reply::Complete(filler(4096))));
        }
    }
    assert!((150..200).contains(&refused), "{refused} of 200 batches were refused");
    assert!(sent(&mut server).is_empty(), "none is complete");
    let open: Vec<_> = (0..200).map(|number| RequestId::from(2 * number + 1)).collect();
    for id in &open {
        server.respond(id, Ok(Reply::empty()));
    }
    let held: usize = sent(&mut server).iter().map(String::len).sum();
    assert!(held <= 64 * 1024 + 4096, "{held} bytes were held");
    // The stored replies were sent, and there is capacity again.
    say(&mut server, &lists([1000]));
    assert_eq!(requests(&mut server).len(), 1);
}

#[test]
fn a_result_that_would_take_all_batches_above_the_bound_is_an_error() {
    let mut limits = Limits::default();
    limits.queued_replies = 64 * 1024;
    let mut server = opened_server("2025-03-26", limits);
    say(&mut server, &lists([1, 2]));
    say(&mut server, &lists([3, 4]));
    for id in [1, 3] {
        server.respond(&RequestId::from(id), Ok(Reply::Complete(filler(40 * 1024))));
    }
    for id in [2, 4] {
        server.respond(&RequestId::from(id), Ok(Reply::empty()));
    }
    let lines = sent(&mut server);
    assert!(replies(&lines[0]).iter().all(|(_, error)| error.is_none()), "the first is in time");
    let second = replies(&lines[1]);
    assert_eq!((second[0].0, second[1].clone()), (3, (4, None)));
    assert!(second[0].1.as_ref().is_some_and(|error| error.contains("limit `queued_replies` of 65536")));
}

/// With a limit of one byte there is one batch at a time, and it gets all its replies.
#[test]
fn one_batch_alone_is_bounded_by_the_size_of_a_message() {
    let mut limits = Limits::default();
    limits.queued_replies = 1;
    let mut server = opened_server("2025-03-26", limits);
    say(&mut server, &lists([1, 2]));
    server.respond(&1.into(), Ok(Reply::Complete(filler(4096))));
    say(&mut server, &lists([3]));
    let lines = sent(&mut server);
    assert_eq!(replies(&lines[0])[0].0, 3, "refused while another one holds replies");
    server.respond(&2.into(), Ok(Reply::Complete(filler(4096))));
    let lines = sent(&mut server);
    assert!(replies(&lines[0]).iter().all(|(_, error)| error.is_none()));
}

/// Replies without a handler are stored too: with ids of 4 KiB they would be most of the bytes.
#[test]
fn pings_in_batches_that_wait_are_counted() {
    let mut limits = Limits::default();
    (limits.handling, limits.queued_replies) = (1, 64 * 1024);
    let mut server = opened_server("2025-03-26", limits);
    let long = "i".repeat(4000);
    let mut open = Vec::new();
    for number in 0..50 {
        let pings = (0..20).map(|_| format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#));
        let last = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/list"}}"#);
        say(&mut server, &batch(pings.chain([last])));
        if sent(&mut server).is_empty() {
            open.push(number);
        }
    }
    assert_eq!(open.len(), 1, "one batch of 80 kB is held, and the others are refused");
    for number in open {
        server.respond(&RequestId::from(number), Ok(Reply::empty()));
    }
    assert_eq!(sent(&mut server).len(), 1);
}

#[test]
fn a_request_that_is_cancelled_gives_its_room_in_the_message_to_others() {
    let mut limits = Limits::default();
    limits.message = 2000;
    let mut server = opened_server("2025-03-26", limits);
    say(&mut server, &lists(1..=8));
    for id in 2..=8 {
        say(
            &mut server,
            &format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ),
        );
    }
    server.respond(&1.into(), Ok(Reply::Complete(filler(1800))));
    let lines = sent(&mut server);
    assert_eq!(replies(&lines[0]), [(1, None)]);
}
