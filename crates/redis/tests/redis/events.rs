//! Tests of the events of streams: in order, bounded, and only what a process with the keys has written for this session.

use mcpjoin::proto::RequestId;
use mcpjoin::transport::{Event, EventId, EventStore as _, SessionId, StreamEnd};
use mcpjoin_redis::RedisEvents;

use crate::{IDLE, Server, Stranger, process, run, until};

const ADA: SessionId = SessionId::from_bytes([1; 16]);
const BOB: SessionId = SessionId::from_bytes([2; 16]);
const KEYS: &str = "mcpjoin:events:";
const ALL: u64 = u64::MAX;

pub(crate) const fn id(stream: u64, number: u64) -> EventId {
    EventId { stream, number }
}

/// Appends an event, and returns whether it was stored.
pub(crate) async fn appended(events: &RedisEvents, session: SessionId, id: EventId, text: &str) -> bool {
    let event = Event { id, bytes: text.to_owned().into(), last: text == "last" };
    events.append(&session, event).unwrap().wait().await
}

pub(crate) async fn replayed(
    events: &RedisEvents,
    session: SessionId,
    after: EventId,
    before: u64,
) -> Option<Vec<String>> {
    let found = events.replay(&session, after, before).await.unwrap()?.events;
    assert!(found.iter().zip(after.number + 1..).all(|(event, number)| event.id == id(after.stream, number)));
    Some(found.iter().map(|event| String::from_utf8(event.bytes.to_vec()).unwrap()).collect())
}

fn texts<const N: usize>(texts: [&str; N]) -> Option<Vec<String>> {
    Some(texts.map(str::to_owned).to_vec())
}

/// A session of Ada with the events 0 to 3 of stream 7.
async fn told(events: &RedisEvents) {
    for (number, text) in (0..).zip(["begin", "one", "two", "last"]) {
        assert!(appended(events, ADA, id(7, number), text).await, "{number}");
    }
}

#[test]
fn another_process_replays_the_events_of_one_stream_in_order_until_the_session_is_forgotten() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let [one, other] = [process(&server, 1).await.events(IDLE), process(&server, 1).await.events(IDLE)];
        told(&one).await;
        assert!(appended(&other, ADA, id(8, 0), "of another stream").await);
        assert!(appended(&other, BOB, id(7, 0), "of another session").await);
        for events in [&one, &other] {
            assert_eq!(replayed(events, ADA, id(7, 0), ALL).await, texts(["one", "two", "last"]));
            assert_eq!(replayed(events, ADA, id(7, 1), ALL).await, texts(["two", "last"]));
            assert_eq!(replayed(events, ADA, id(7, 3), ALL).await, texts([]));
            assert_eq!(replayed(events, ADA, id(7, 0), 3).await, texts(["one", "two"]));
            assert_eq!(replayed(events, ADA, id(7, 1), 2).await, texts([]));
            assert_eq!(replayed(events, ADA, id(8, 0), ALL).await, texts([]));
            for unknown in [id(7, 4), id(8, 1), id(9, 0)] {
                assert_eq!(replayed(events, ADA, unknown, ALL).await, None, "{unknown:?}");
            }
            assert_eq!(replayed(events, ADA, id(7, 0), 5).await, None, "the event 4 is missing");
            assert_eq!(replayed(events, BOB, id(7, 0), ALL).await, texts([]));
        }
        let last = other.replay(&ADA, id(7, 0), ALL).await.unwrap().unwrap();
        assert_eq!(last.events.iter().map(|event| event.last).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(last.end, StreamEnd::Ended);
        one.forget(&ADA);
        assert_eq!(replayed(&one, ADA, id(7, 0), ALL).await, None);
        assert_eq!(replayed(&other, ADA, id(7, 0), ALL).await, None);
        let mut stranger = Stranger::at(&server).await;
        assert_eq!(stranger.keys(KEYS).await.len(), 1, "that of the other session");
    });
}

/// Begins a stream with a request, and returns whether that was stored.
async fn begun(events: &RedisEvents, stream: u64, request: &str) -> bool {
    let requests = [RequestId::from(request), RequestId::from(7)];
    events.begin(&ADA, id(stream, 0), &requests).unwrap().wait().await
}

#[test]
fn a_stream_is_orphaned_some_seconds_after_the_end_of_its_process_unless_it_has_ended() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let [one, other] = [process(&server, 1).await.events(IDLE), process(&server, 1).await.events(IDLE)];
        let foreign = process(&server, 2).await.events(IDLE);
        let long = "x".repeat(5_000);
        for (stream, request) in [(7, "a"), (8, "b"), (9, &*long)] {
            assert!(begun(&one, stream, request).await, "{stream}");
        }
        assert!(appended(&one, ADA, id(7, 1), "one").await);
        assert!(appended(&one, ADA, id(8, 1), "last").await);
        assert!(begun(&other, 10, "d").await);
        // How a stream ends; `None` if it is not known there.
        let end = async |events: &RedisEvents, stream: u64| {
            events.replay(&ADA, id(stream, 0), ALL).await.unwrap().map(|replayed| replayed.end)
        };
        // Its process is there, and stays so while it says nothing else.
        let mut pace = tokio::time::interval(std::time::Duration::from_secs(1));
        for _ in 0..7 {
            pace.tick().await;
            assert_eq!(end(&other, 7).await, Some(StreamEnd::Open));
        }
        drop(one);
        until(async || end(&other, 7).await != Some(StreamEnd::Open)).await;
        assert_eq!(end(&other, 7).await, Some(StreamEnd::ProcessGone(vec!["a".into(), 7.into()])));
        assert_eq!(end(&other, 8).await, Some(StreamEnd::Ended));
        assert_eq!(end(&other, 9).await, Some(StreamEnd::ProcessGone(vec![])), "its ids are too long");
        assert_eq!(end(&other, 10).await, Some(StreamEnd::Open), "its process is there");
        assert_eq!(end(&other, 11).await, None, "there is none");
        assert_eq!(end(&foreign, 7).await, None, "the keys are others");
        assert!(other.replay(&BOB, id(7, 0), ALL).await.unwrap().is_none());
        // What was stored of it is there as before.
        assert_eq!(replayed(&other, ADA, id(7, 0), ALL).await, texts(["one"]));
        // Another program has written there.
        let mut stranger = Stranger::at(&server).await;
        let key = stranger.key(KEYS).await;
        let _: String = stranger.says(&["RENAME", &key, "elsewhere"]).await;
        assert_eq!(end(&other, 7).await, None);
        let _: String = stranger.says(&["SET", &key, "no stream"]).await;
        assert_eq!(end(&other, 7).await, None);
    });
}

#[test]
fn the_events_and_bytes_of_a_session_are_limited_and_every_write_sets_its_expiry() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let events = redis.events(IDLE);
        let mut stranger = Stranger::at(&server).await;
        for number in 0..1_010 {
            assert!(appended(&events, ADA, id(7, number), "x").await);
            if number % 500 == 0 {
                let key = stranger.key(KEYS).await;
                let expiry: i64 = stranger.says(&["PTTL", &key]).await;
                assert!((90_000..=100_000).contains(&expiry), "{expiry}");
                let _: i64 = stranger.says(&["PEXPIRE", &key, "80000"]).await;
            }
        }
        let key = stranger.key(KEYS).await;
        assert_eq!(stranger.says::<usize>(&["XLEN", &key]).await, 1_000);
        assert_eq!(replayed(&events, ADA, id(7, 8), ALL).await, None, "the event 9 is gone");
        assert_eq!(replayed(&events, ADA, id(7, 9), ALL).await.unwrap().len(), 1_000);
        // Sealed as base64 each has 400 KiB. The one at the limit of 2 MiB is kept.
        let large = "x".repeat(300 * 1024);
        for number in 0..8 {
            assert!(appended(&events, BOB, id(7, number), &large).await);
        }
        assert!(replayed(&events, BOB, id(7, 0), ALL).await.is_none());
        assert_eq!(replayed(&events, BOB, id(7, 1), ALL).await.unwrap().len(), 6);
        let largest = "x".repeat(1024 * 1024);
        assert!(appended(&events, BOB, id(8, 0), "begin").await);
        for number in 1..4 {
            assert!(appended(&events, BOB, id(8, number), &largest).await);
        }
        assert!(replayed(&events, BOB, id(8, 0), ALL).await.is_none());
        assert_eq!(replayed(&events, BOB, id(8, 1), ALL).await.unwrap().len(), 2);
        assert!(!appended(&events, BOB, id(8, 4), &format!("{largest}x")).await);
        assert!(
            replayed(&events, BOB, id(8, 2), ALL).await.is_none(),
            "an event was sent without being stored"
        );
        assert_eq!(redis.counts().events_not_stored, 1);
    });
}

/// An entry of the log of a session, as Redis shows it.
type Entry = (String, Vec<(String, String)>);

async fn entries(stranger: &mut Stranger, key: &str) -> Vec<Entry> {
    stranger.says(&["XRANGE", key, "-", "+"]).await
}

/// Puts these entries in the place of a log.
async fn write(stranger: &mut Stranger, key: &str, entries: &[Entry]) {
    let _: i64 = stranger.says(&["DEL", key]).await;
    for (place, (_, fields)) in (1..).zip(entries) {
        let at = format!("{place}-0");
        let fields = fields.iter().flat_map(|(name, value)| [&**name, &**value]);
        let words: Vec<&str> = ["XADD", key, &at].into_iter().chain(fields).collect();
        let _: String = stranger.says(&words).await;
    }
}

#[test]
fn events_that_were_forged_moved_repeated_or_removed_are_not_replayed() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let events = redis.events(IDLE);
        told(&events).await;
        let mut stranger = Stranger::at(&server).await;
        let ada = stranger.key(KEYS).await;
        let own = entries(&mut stranger, &ada).await;
        assert!(!format!("{own:?}").contains("begin"), "nothing is readable");
        write(&mut stranger, &ada, &own).await;
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await.unwrap().len(), 3, "as it was");
        let with = |places: &[usize]| places.iter().map(|place| own[*place].clone()).collect::<Vec<_>>();
        let field = |place: usize, name: &str, value: &str| {
            let mut other = own.clone();
            other[place].1.iter_mut().find(|(known, _)| known == name).unwrap().1 = value.to_owned();
            other
        };
        let other_version = own[2]
            .1
            .iter()
            .find(|(name, _)| name == "r")
            .map(|(_, text)| format!("C{}", &text[1..]))
            .unwrap();
        let cut = own[2].1.iter().find(|(name, _)| name == "r").unwrap().1[1..].to_owned();
        for (forged, what) in [
            (with(&[0, 2, 1, 3]), "another order"),
            (with(&[0, 1, 1, 2, 3]), "one twice"),
            (with(&[0, 1, 3]), "one is missing"),
            (field(2, "n", "9"), "another number"),
            (field(2, "n", "-2"), "no number"),
            (field(2, "n", "99999999999999999999"), "a number that is too large"),
            (field(2, "k", "l"), "another kind"),
            (field(2, "k", "x"), "another kind"),
            (field(2, "k", "?"), "no kind"),
            (field(2, "r", &other_version), "another version"),
            (field(2, "r", "garbage"), "another record"),
            (field(2, "r", ""), "an empty record"),
            (field(2, "r", &cut), "a cut record"),
        ] {
            write(&mut stranger, &ada, &forged).await;
            assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await, None, "{what}");
        }
        assert!(redis.counts().foreign >= 12, "{:?}", redis.counts());
        write(&mut stranger, &ada, &own).await;
        // With other keys nothing of it can be read.
        let other = process(&server, 2).await;
        assert_eq!(replayed(&other.events(IDLE), ADA, id(7, 0), ALL).await, None);
        assert_eq!(other.counts().foreign, 1);
        // The log of one session in the place of that of another.
        assert!(appended(&events, BOB, id(7, 0), "of Bob").await);
        let bob = stranger.keys(KEYS).await.into_iter().find(|key| *key != ada).unwrap();
        write(&mut stranger, &bob, &own).await;
        assert_eq!(replayed(&events, BOB, id(7, 0), ALL).await, None);
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await.unwrap().len(), 3);
    });
}

#[test]
fn other_things_and_too_much_at_the_place_of_a_log_are_refused() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let events = redis.events(IDLE);
        told(&events).await;
        let mut stranger = Stranger::at(&server).await;
        let ada = stranger.key(KEYS).await;
        let _: String = stranger.says(&["SET", &ada, "a text"]).await;
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await, None);
        // By a process that ends: one that goes on tells Redis again and again what it has not stored.
        let ended = process(&server, 1).await;
        assert!(!appended(&ended.events(IDLE), ADA, id(7, 4), "four").await, "it is not replaced");
        assert!(ended.counts().refused > 0);
        let large = "x".repeat(1024 * 1024);
        let entry: Entry = (String::new(), vec![("r".to_owned(), large)]);
        write(&mut stranger, &ada, &vec![entry; 5]).await;
        assert_eq!(replayed(&events, ADA, id(9, 0), ALL).await, None, "4 MiB at most are read");
        let entry: Entry = (String::new(), vec![("r".to_owned(), "x".to_owned())]);
        write(&mut stranger, &ada, &vec![entry; 2_001]).await;
        assert_eq!(replayed(&events, ADA, id(9, 0), ALL).await, None, "2,000 entries at most are read");
        assert!(redis.counts().foreign >= 3, "{:?}", redis.counts());
        // The largest number of an entry: nothing can be appended behind it, and that is all.
        let _: i64 = stranger.says(&["DEL", &ada]).await;
        let _: String = stranger.says(&["XADD", &ada, "18446744073709551615-1", "s", "7"]).await;
        assert!(!appended(&events, ADA, id(7, 5), "five").await);
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await, None);
    });
}

#[test]
fn a_process_says_once_a_second_that_it_is_there_however_many_stores_it_has() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let mut stranger = Stranger::at(&server).await;
        let mut stores = Vec::new();
        for session in [ADA, BOB] {
            let events = redis.events(IDLE);
            assert!(events.begin(&session, id(7, 0), &[RequestId::from(1)]).unwrap().wait().await);
            stores.push(events);
        }
        let mut signs = 0;
        let mut pace = tokio::time::interval(std::time::Duration::from_secs(1));
        for second in 0..5 {
            pace.tick().await;
            let key = stranger.key("mcpjoin:process:").await;
            let left: u64 = stranger.says(&["PTTL", &key]).await;
            assert!(left > 2_000, "of 5 s: {left}");
            let text: String = stranger.says(&["INFO", "commandstats"]).await;
            let calls = |name: &str| {
                let line =
                    text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")[..]))?;
                line.split(',').next()?.parse::<u64>().ok()
            };
            signs = calls("set").unwrap();
            assert!(signs <= second + 3, "{text}");
            assert_eq!(calls("ping"), None, "the sign shows that Redis is there");
        }
        assert!(signs >= 4, "{signs}");
    });
}
