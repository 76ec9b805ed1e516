//! Tests of the sessions: each for its id and its principal, and only what a process with the keys has written.

use mcpjoin::proto::Raw;
use mcpjoin::transport::SessionStore as _;

use crate::{IDLE, Server, Stranger, process, record, run, until};

const KEYS: &str = "mcpjoin:session:";

#[test]
fn a_session_is_opened_by_every_process_for_its_principal_until_it_ends() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let one = process(&server, 1).await.sessions(IDLE);
        let other = process(&server, 1).await.sessions(IDLE);
        let of_ada = record(Some("ada"));
        let ada = one.create(&of_ada).await.unwrap().unwrap();
        let anyone = one.create(&record(None)).await.unwrap().unwrap();
        assert_ne!(ada, anyone);
        for store in [&one, &other] {
            assert_eq!(store.open(&ada, Some("ada")).await, Ok(Some(of_ada.clone())));
            for principal in [None, Some(""), Some("bob")] {
                assert_eq!(store.open(&ada, principal).await, Ok(None), "{principal:?}");
            }
            assert_eq!(store.open(&anyone, None).await, Ok(Some(record(None))));
            assert_eq!(store.open(&anyone, Some("ada")).await, Ok(None));
            for unknown in ["", "x", &"0".repeat(32), &ada[1..], &format!("{ada}0"), &"é".repeat(16)] {
                assert_eq!(store.open(unknown, Some("ada")).await, Ok(None), "{unknown}");
            }
        }
        let mut stranger = Stranger::at(&server).await;
        let names = stranger.keys("").await;
        assert!(names.len() == 4 && !names.concat().contains(&ada), "who reads Redis gets no id: {names:?}");
        other.end(&ada).await.unwrap();
        assert_eq!(one.open(&ada, Some("ada")).await, Ok(None));
        assert_eq!(other.end(&ada).await, Ok(()), "once more");
        assert_eq!(stranger.key(KEYS).await.len(), KEYS.len() + 32);
    });
}

#[test]
fn the_expiry_is_a_fifth_longer_than_the_idle_time_and_set_again_while_the_session_is_used() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let store = process(&server, 1).await.sessions(IDLE);
        let id = store.create(&record(None)).await.unwrap().unwrap();
        let mut stranger = Stranger::at(&server).await;
        let key = stranger.key(KEYS).await;
        let expiry: i64 = stranger.says(&["PTTL", &key]).await;
        assert!((110_000..=120_000).contains(&expiry), "{expiry}");
        for _ in 0..2 {
            let _: i64 = stranger.says(&["PEXPIRE", &key, "60000"]).await;
            store.touch(&id);
            until(async || stranger.says::<i64>(&["PTTL", &key]).await > 110_000).await;
        }
        // One that does not exist is not made.
        store.touch(&"0".repeat(32));
        store.end(&id).await.unwrap();
        store.touch(&id);
        let _: i64 = stranger.says(&["DBSIZE"]).await;
        assert_eq!(store.open(&id, None).await, Ok(None));
        assert_eq!(stranger.keys(KEYS).await, [""; 0]);
    });
}

#[test]
fn a_record_of_others_is_refused_and_named() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let store = redis.sessions(IDLE);
        let ada = store.create(&record(Some("ada"))).await.unwrap().unwrap();
        let mut stranger = Stranger::at(&server).await;
        let at_ada = stranger.key(KEYS).await;
        let of_ada: String = stranger.says(&["GET", &at_ada]).await;
        assert!(!of_ada.contains("2025"), "nothing is readable");
        let bob = store.create(&record(Some("bob"))).await.unwrap().unwrap();
        let at_bob = stranger.keys(KEYS).await.into_iter().find(|key| *key != at_ada).unwrap();
        // The session of one principal in the place of that of another, for both.
        let _: String = stranger.says(&["SET", &at_bob, &of_ada]).await;
        for principal in ["ada", "bob"] {
            assert_eq!(store.open(&bob, Some(principal)).await, Ok(None), "{principal}");
        }
        // Of another version, cut, longer, and nothing of ours.
        let other_version = format!("C{}", &of_ada[1..]);
        for text in [&*other_version, &of_ada[1..], &of_ada[..of_ada.len() - 1], "garbage", "\u{1}", "{}"] {
            let _: String = stranger.says(&["SET", &at_ada, text]).await;
            assert_eq!(store.open(&ada, Some("ada")).await, Ok(None), "{text}");
        }
        let _: i64 = stranger.says(&["APPEND", &at_ada, &"x".repeat(1024 * 1024)]).await;
        assert_eq!(store.open(&ada, Some("ada")).await, Ok(None), "more than 1 MiB");
        let _: i64 = stranger.says(&["DEL", &at_ada]).await;
        let _: i64 = stranger.says(&["LPUSH", &at_ada, &of_ada]).await;
        assert_eq!(store.open(&ada, Some("ada")).await, Ok(None), "a list");
        assert_eq!(redis.counts().foreign, 10, "{:?}", redis.counts());
        // What was there is what opens.
        let _: String = stranger.says(&["SET", &at_ada, &of_ada]).await;
        assert_eq!(store.open(&ada, Some("ada")).await, Ok(Some(record(Some("ada")))));
        let other = process(&server, 2).await;
        assert_eq!(other.sessions(IDLE).open(&ada, Some("ada")).await, Ok(None), "other keys");
        assert_eq!(other.counts().foreign, 1);
    });
}

#[test]
fn what_no_other_process_can_serve_and_what_is_too_large_is_not_stored() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let store = process(&server, 1).await.sessions(IDLE);
        let mut of_child = record(None);
        of_child.state = None;
        assert_eq!(store.create(&of_child).await, Ok(None));
        let mut large = record(None);
        large.state = Some(Raw::string(&"x".repeat(1024 * 1024)));
        assert_eq!(store.create(&large).await, Ok(None));
        // Above the 4 KiB of an id.
        large.state = Some(Raw::string(&"x".repeat(700 * 1024)));
        let id = store.create(&large).await.unwrap().unwrap();
        assert_eq!(store.open(&id, None).await, Ok(Some(large)));
    });
}
