//! Tests of what goes on when Redis is slow, full, gone, back, empty, or lets nobody in.

use std::time::{Duration, Instant};

use mcpjoin::proto::Raw;
use mcpjoin::server::TaskStore as _;
use mcpjoin::transport::{EventStore as _, SessionId, SessionStore as _};
use mcpjoin_redis::{PATIENCE, Redis};
use mcpjoin_test_support::events::{Told, hearing};
use mcpjoin_test_support::tls;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use crate::events::{appended, id, replayed};
use crate::tasks::task;
use crate::{IDLE, PATIENT, Server, Stranger, keys, process, record, run, until};

const ADA: SessionId = SessionId::from_bytes([1; 16]);
const BOB: SessionId = SessionId::from_bytes([2; 16]);
const ALL: u64 = u64::MAX;

/// A way to the Redis at this port, on which answers can be held back. Returns its URL.
async fn way(port: watch::Receiver<u16>, is_open: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut is_open, port) = (is_open.clone(), *port.borrow());
            tokio::spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", port)).await?;
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let there = tokio::io::copy(&mut from_client, &mut to_server);
                let back = async {
                    let mut piece = vec![0; 4096];
                    loop {
                        let read = from_server.read(&mut piece).await?;
                        if read == 0 || is_open.wait_for(|open| *open).await.is_err() {
                            return std::io::Result::Ok(());
                        }
                        to_client.write_all(&piece[..read]).await?;
                    }
                };
                tokio::select! { outcome = there => outcome.map(drop), outcome = back => outcome }
            });
        }
    });
    url
}

#[test]
fn a_slow_redis_delays_no_stream_and_what_it_stores_too_late_is_not_replayed() {
    run(async {
        let server = Server::start(&[]).unwrap();
        let (answers, is_open) = watch::channel(true);
        let url = way(watch::channel(server.port()).1, is_open).await;
        let redis = Redis::new(&url, keys(1)).unwrap().patience(PATIENT);
        let (sessions, events) = (redis.sessions(IDLE), redis.events(IDLE));
        let known = sessions.create(&record(None)).await.unwrap().unwrap();
        assert!(appended(&events, ADA, id(7, 0), "begin").await);
        let redis = redis.patience(PATIENCE);
        answers.send_replace(false);
        let began = Instant::now();
        // Redis gets it, and its answer does not come.
        assert!(!appended(&events, ADA, id(7, 1), "one").await);
        let waited = began.elapsed();
        assert!(waited >= PATIENCE && waited < PATIENT / 4, "{waited:?}");
        let why = sessions.create(&record(None)).await.unwrap_err().to_string();
        assert!(why.contains("Redis at 127.0.0.1:") && why.contains("is not reached"), "{why}");
        assert!(sessions.open(&known, None).await.is_err());
        assert!(!redis.is_available());
        let failed = events.replay(&ADA, id(7, 1), ALL).await.unwrap_err().to_string();
        assert!(failed.contains("Redis"), "{failed}");
        // While it is known to be gone, an event does not wait at all.
        let redis = redis.patience(PATIENT);
        let began = Instant::now();
        assert!(!appended(&events, ADA, id(8, 0), "begin").await);
        assert!(began.elapsed() < PATIENT / 4);
        answers.send_replace(true);
        until(async || redis.is_available()).await;
        assert!(sessions.open(&known, None).await.unwrap().is_some());
        // Redis has both events. It is told that the second one was sent without its id.
        let other = process(&server, 1).await.events(IDLE);
        until(async || replayed(&other, ADA, id(7, 0), ALL).await.is_none()).await;
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await, None);
        assert!(appended(&events, ADA, id(7, 2), "two").await);
        assert!(appended(&events, ADA, id(7, 3), "three").await);
        for events in [&events, &other] {
            assert_eq!(replayed(events, ADA, id(7, 0), ALL).await, None);
            assert_eq!(replayed(events, ADA, id(7, 2), ALL).await.unwrap(), ["three"]);
        }
        let counts = redis.counts();
        assert!(counts.unanswered >= 3 && counts.events_not_stored == 2 && counts.foreign == 0, "{counts:?}");
    });
}

#[test]
fn a_last_event_that_is_lost_beside_those_of_ten_thousand_other_streams_is_missed_by_every_process() {
    // So that it is not forgotten by its expiry.
    const LONG: Duration = Duration::from_secs(3_600);
    run(async {
        let server = Server::start(&[]).unwrap();
        let (answers, is_open) = watch::channel(true);
        let url = way(watch::channel(server.port()).1, is_open).await;
        let redis = Redis::new(&url, keys(1)).unwrap().patience(PATIENT);
        let events = redis.events(LONG);
        for (number, text) in ["begin", "one"].into_iter().enumerate() {
            assert!(appended(&events, BOB, id(7, number as u64), text).await);
        }
        let other = process(&server, 1).await.events(LONG);
        assert_eq!(replayed(&other, BOB, id(7, 0), ALL).await.unwrap(), ["one"]);
        let redis = redis.patience(PATIENCE);
        answers.send_replace(false);
        for stream in 0..10_000 {
            assert!(!appended(&events, ADA, id(stream, 0), "begin").await);
        }
        assert!(!appended(&events, BOB, id(7, 2), "two").await);
        assert_eq!(redis.counts().events_not_stored, 10_001);
        let redis = redis.patience(PATIENT);
        answers.send_replace(true);
        until(async || redis.is_available()).await;
        until(async || replayed(&other, BOB, id(7, 1), ALL).await.is_none()).await;
        // What follows is stored again.
        assert!(appended(&events, BOB, id(7, 3), "three").await);
        assert!(appended(&events, BOB, id(7, 4), "four").await);
        assert_eq!(replayed(&other, BOB, id(7, 3), ALL).await.unwrap(), ["four"]);
        assert_eq!(replayed(&other, BOB, id(7, 1), ALL).await, None);
    });
}

#[test]
fn a_redis_that_is_gone_comes_back_empty() {
    run(async {
        let mut server = Server::start(&[]).unwrap();
        let redis = process(&server, 1).await;
        let (sessions, events) = (redis.sessions(IDLE), redis.events(IDLE));
        let known = sessions.create(&record(None)).await.unwrap().unwrap();
        assert!(appended(&events, ADA, id(7, 0), "begin").await);
        assert!(appended(&events, ADA, id(7, 1), "one").await);
        server.kill();
        until(async || !redis.is_available()).await;
        let began = Instant::now();
        assert!(!appended(&events, ADA, id(7, 2), "two").await);
        assert!(began.elapsed() < PATIENT / 4, "nothing waits for it");
        let redis = redis.patience(Duration::from_millis(10));
        assert!(sessions.create(&record(None)).await.is_err());
        assert!(sessions.open(&known, None).await.is_err());
        assert!(sessions.end(&known).await.is_err());
        sessions.touch(&known);
        let redis = redis.patience(PATIENT);
        server.start_again().unwrap();
        until(async || redis.is_available()).await;
        assert_eq!(sessions.open(&known, None).await, Ok(None), "404");
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await, None);
        assert!(sessions.create(&record(None)).await.unwrap().is_some());
        assert!(appended(&events, ADA, id(7, 3), "three").await, "the scripts were loaded again");
        assert_eq!(replayed(&events, ADA, id(7, 3), ALL).await, Some(vec![]));
        // Without its scripts a server is left, and reached again.
        let mut stranger = Stranger::at(&server).await;
        let _: String = stranger.says(&["SCRIPT", "FLUSH"]).await;
        assert!(!appended(&events, ADA, id(7, 4), "four").await);
        until(async || appended(&events, ADA, id(8, 0), "begin").await).await;
    });
}

#[test]
fn a_full_redis_refuses_what_is_new_and_serves_what_is_there() {
    run(async {
        let server = Server::start(&["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]).unwrap();
        let redis = process(&server, 1).await;
        let (sessions, events) = (redis.sessions(IDLE), redis.events(IDLE));
        let known = sessions.create(&record(None)).await.unwrap().unwrap();
        assert!(appended(&events, ADA, id(7, 0), "begin").await);
        let other_session = SessionId::from_bytes([2; 16]);
        assert!(appended(&events, other_session, id(7, 0), "begin").await);
        assert!(appended(&events, other_session, id(7, 1), "one").await);
        let mut stranger = Stranger::at(&server).await;
        let filler = "x".repeat(64 * 1024);
        let mut number = 0;
        while stranger.tries::<String>(&["SET", &format!("filler:{number}"), &filler]).await.is_ok() {
            number += 1;
        }
        let why = loop {
            if let Err(why) = sessions.create(&record(None)).await {
                break why.to_string();
            }
        };
        assert!(why.contains("OOM"), "{why}");
        let why = redis.tasks().create(&task("one", "ada", ""), IDLE).await.unwrap_err().to_string();
        assert!(why.contains("the task store is not available") && why.contains("OOM"), "{why}");
        let mut refused = 1;
        while appended(&events, ADA, id(7, refused), "more").await {
            refused += 1;
        }
        assert!(redis.counts().refused >= 2 && redis.is_available(), "{:?}", redis.counts());
        assert!(sessions.open(&known, None).await.unwrap().is_some());
        assert_eq!(replayed(&events, other_session, id(7, 0), ALL).await.unwrap(), ["one"]);
        for number in 0..number {
            let _: i64 = stranger.says(&["DEL", &format!("filler:{number}")]).await;
        }
        assert!(sessions.create(&record(None)).await.unwrap().is_some());
        assert!(appended(&events, ADA, id(7, refused + 1), "again").await);
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await, None);
        assert_eq!(replayed(&events, ADA, id(7, refused + 1), ALL).await, Some(vec![]));
    });
}

#[test]
fn what_goes_wrong_is_named_in_the_log_once_a_minute_and_without_the_password() {
    let (tell, mut told) = unbounded_channel();
    hearing(Told(tell), || {
        run(async {
            let options =
                ["--maxmemory", "8mb", "--maxmemory-policy", "noeviction", "--requirepass", "secret"];
            let mut server = Server::start(&options).unwrap();
            let url = format!("redis://:secret@127.0.0.1:{}", server.port());
            let process = |number: u8| Redis::new(&url, keys(number)).unwrap().patience(PATIENT);
            let (redis, foreign) = (process(1), process(2));
            let (sessions, events) = (redis.sessions(IDLE), redis.events(IDLE));
            for _ in 0..3 {
                let of_others = foreign.sessions(IDLE).create(&record(None)).await.unwrap().unwrap();
                assert_eq!(sessions.open(&of_others, None).await, Ok(None));
                assert!(!appended(&events, ADA, id(7, 0), &"x".repeat(1024 * 1024 + 1)).await);
            }
            let mut large = record(None);
            large.state = Some(Raw::string(&"x".repeat(700 * 1024)));
            while sessions.create(&large).await.is_ok() {}
            assert!(sessions.create(&large).await.is_err());
            server.kill();
            until(async || !redis.is_available()).await;
            let redis = redis.patience(Duration::from_millis(10));
            for _ in 0..3 {
                assert!(redis.sessions(IDLE).create(&record(None)).await.is_err());
            }
        });
    });
    let told: Vec<String> = std::iter::from_fn(|| told.try_recv().ok()).collect();
    for (what, whose) in [
        ("a record in Redis was refused", "a key that this process does not have"),
        ("too large for Redis", "1048577 bytes"),
        ("Redis has refused to store something", "OOM"),
        ("Redis is not available", "127.0.0.1:"),
    ] {
        let named = told.iter().filter(|text| text.contains(what));
        // The other process has lost Redis, too.
        let most = if what.ends_with("available") { 2 } else { 1 };
        assert!((1..=most).contains(&named.clone().count()), "{what}: {told:#?}");
        assert!(
            named.clone().all(|text| text.contains(whose) && text.contains("at: \"127.0.0.1:")),
            "{told:#?}"
        );
    }
    assert!(told.iter().all(|text| !text.contains("secret")), "{told:#?}");
}

/// The page that says which commands a user needs.
const PAGE: &str = include_str!("../../../../docs/redis.md");

#[test]
fn a_primary_that_has_become_a_replica_is_left_for_the_new_one() {
    run(async {
        let (first, second) = (Server::start(&[]).unwrap(), Server::start(&[]).unwrap());
        let (primary, port) = watch::channel(first.port());
        let (_answers, is_open) = watch::channel(true);
        let redis = Redis::new(&way(port, is_open).await, keys(1)).unwrap().patience(PATIENT);
        let events = redis.events(IDLE);
        assert!(appended(&events, ADA, id(7, 0), "begin").await);
        let mut stranger = Stranger::at(&first).await;
        let _: String = stranger.says(&["REPLICAOF", "127.0.0.1", &second.port().to_string()]).await;
        primary.send_replace(second.port());
        // The connection to the first one stays open: its refusal says that it is the wrong one.
        assert!(!appended(&events, ADA, id(7, 1), "one").await);
        until(async || appended(&events, ADA, id(8, 0), "begin").await).await;
    });
}

#[test]
fn a_user_needs_its_password_and_few_commands() {
    run(async {
        let line = PAGE.lines().find_map(|line| line.strip_prefix("user mcpjoin on >PASSWORD ")).unwrap();
        let user = ["--user", "default", "off", "--user", "ada", "on", ">secret"];
        let server = Server::start(&user.into_iter().chain(line.split(' ')).collect::<Vec<_>>()).unwrap();
        let url = |user: &str| format!("redis://{user}127.0.0.1:{}", server.port());
        for refused in ["", "ada:wrong-one@", "bob:secret@"] {
            let redis = Redis::new(&url(refused), keys(1)).unwrap();
            assert!(redis.connect(Duration::from_millis(200)).await.is_err(), "{refused}");
            let why = redis.sessions(IDLE).create(&record(None)).await.unwrap_err().to_string();
            assert!(!why.contains("wrong-one") && !why.contains("secret"), "{why}");
        }
        let redis = Redis::new(&url("ada:secret@"), keys(1)).unwrap().patience(PATIENT);
        redis.connect(PATIENT).await.unwrap();
        let (sessions, events) = (redis.sessions(IDLE), redis.events(IDLE));
        let known = sessions.create(&record(None)).await.unwrap().unwrap();
        assert!(sessions.open(&known, None).await.unwrap().is_some());
        sessions.touch(&known);
        sessions.end(&known).await.unwrap();
        assert!(appended(&events, ADA, id(7, 0), "begin").await);
        assert!(appended(&events, ADA, id(7, 1), "one").await);
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await.unwrap(), ["one"]);
        events.forget(&ADA);
        assert_eq!(replayed(&events, ADA, id(7, 0), ALL).await, None);
        let (tasks, mut one) = (redis.tasks(), task("one", "ada", ""));
        tasks.create(&one, IDLE).await.unwrap();
        one.is_over = true;
        assert_eq!(tasks.update(&one).await, Ok(true));
        assert_eq!(tasks.open("one", "ada").await.unwrap().unwrap().record, one);
        assert_eq!(tasks.list("ada").await.unwrap().len(), 1);
        tasks.send("p", &Raw::empty_object()).await.unwrap();
        assert_eq!(tasks.attend("p").await.unwrap().len(), 1);
        assert_eq!(tasks.attend("p").await.unwrap().len(), 0);
        assert_eq!(redis.counts(), mcpjoin_redis::RedisCounts::default());
    });
}

#[test]
fn tls_accepts_the_authorities_that_were_given() {
    run(async {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../test-support/fixtures/tls");
        let file = |name: &str| format!("{folder}/{name}");
        let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
        let options = [
            "--port",
            "0",
            "--tls-port",
            "PORT",
            "--tls-auth-clients",
            "no",
            "--tls-ca-cert-file",
            &ca,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
        ];
        let server = Server::start(&options).unwrap();
        let url = format!("rediss://localhost:{}", server.port());
        let redis = Redis::with_authorities(&url, keys(1), tls::CA.to_vec()).unwrap().patience(PATIENT);
        redis.connect(PATIENT).await.unwrap();
        assert!(redis.sessions(IDLE).create(&record(None)).await.unwrap().is_some());
        // Neither the authorities of the system nor a name that is not in the certificate.
        let other_name = format!("rediss://127.0.0.2:{}", server.port());
        for redis in [
            Redis::new(&url, keys(1)).unwrap(),
            Redis::with_authorities(&other_name, keys(1), tls::CA.to_vec()).unwrap(),
            Redis::with_authorities(&url, keys(1), tls::AUTHORITY.to_vec()).unwrap(),
        ] {
            assert!(redis.connect(Duration::from_millis(300)).await.is_err(), "{redis:?}");
        }
    });
}
