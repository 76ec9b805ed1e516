//! Tests of the number of servers and pools that one principal or address may use.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::{Era, RequestId};
use mcpjoin_gateway::{Gateway, GatewayBuilder, GatewayEvent};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pools::Person;
use super::{Raw, passes, run};

/// Starts of one account at once or delayed: 8, and 4 a second for 10 s.
const STARTS: usize = 48;

/// The starts of a gateway's servers, and those that run.
#[derive(Clone, Default)]
struct Count {
    starts: Arc<AtomicUsize>,
    /// The numbers of the servers that run.
    running: Arc<Mutex<BTreeSet<u64>>>,
}

impl Count {
    fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    fn running(&self) -> Vec<u64> {
        self.running.lock().unwrap().iter().copied().collect()
    }
}

/// A gateway in front of legacy servers that answer every method at once except `hold`, which they never answer.
fn gateway(build: impl FnOnce(GatewayBuilder) -> GatewayBuilder) -> (Gateway, Count) {
    let count = Count::default();
    let (starts, running) = (count.starts.clone(), count.running.clone());
    let builder = Gateway::builder(move || {
        starts.fetch_add(1, Ordering::Relaxed);
        let (link, server) = Raw::pair();
        tokio::spawn(answers(server));
        std::future::ready(Ok::<_, std::io::Error>(link))
    });
    let builder = builder.era(EraChoice::Only(Era::Legacy)).on_event(move |event| {
        let mut running = running.lock().unwrap();
        match event {
            GatewayEvent::Started { upstream, .. } => drop(running.insert(*upstream)),
            GatewayEvent::Over { upstream } => drop(running.remove(upstream)),
            _ => {}
        }
    });
    (build(builder).build(), count)
}

async fn answers(mut server: Raw) {
    while let Some(line) = server.receive().await {
        let received: Value = serde_json::from_str(&line).unwrap();
        let result = match received["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "s", "version": "1" },
            }),
            Some("hold") => continue,
            _ if received["id"].is_null() => continue,
            _ => json!({ "tools": [] }),
        };
        server.say(&json!({ "jsonrpc": "2.0", "id": received["id"], "result": result }).to_string()).await;
    }
}

/// A request of a modern client with this name and these capabilities.
fn modern(method: &str, name: &str, capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities},"io.modelcontextprotocol/clientInfo":{{"name":"{name}","version":"1"}}}}}}}}"#
    )
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The next message is a result.
async fn is_served(person: &mut Person) {
    let reply = person.next().await;
    assert!(reply["result"].is_object(), "{reply}");
}

/// An open session of a client at this address.
async fn session(gateway: &Gateway, address: &str) -> Person {
    let mut person = Person::at(gateway, address);
    person.say(INITIALIZE.into()).await;
    is_served(&mut person).await;
    person.say(INITIALIZED.into()).await;
    person
}

/// Whether the session still answers.
async fn is_open(person: &mut Person) -> bool {
    if !person.tries(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.into()).await {
        return false;
    }
    person.received().await.is_some_and(|reply| reply["result"].is_object())
}

#[test]
fn capabilities_that_are_written_in_150_ways_start_one_server() {
    run(async {
        let (gateway, count) = gateway(|builder| builder);
        let mut people = Vec::new();
        for number in 0..150 {
            let mut person = Person::at(&gateway, "192.0.2.1:1");
            let spaces = " ".repeat(number % 5);
            let capabilities = format!(
                r#"{{"com.example/{number}":{{}},{spaces}"experimental":{{"x{number}":{{}}}},"elicitation":{{"form":{{"n":{number}}}}},"roots":{{"listChanged":{}}}}}"#,
                number % 2 == 0
            );
            person.say(modern("tools/list", "c", &capabilities)).await;
            people.push(person);
        }
        for person in &mut people {
            is_served(person).await;
        }
        assert_eq!(count.starts(), 1);
        // Other capabilities or another name make another client.
        for (number, (name, capabilities)) in [
            ("c", r#"{"elicitation":{},"roots":{}}"#),
            ("c", r#"{"elicitation":{"url":{}},"roots":{}}"#),
            ("c", r#"{"elicitation":{"form":{},"url":{}},"roots":{}}"#),
            ("c", r#"{"elicitation":{}}"#),
            ("c", "{}"),
            ("c", r#"{"sampling":{}}"#),
            ("c", r#"{"sampling":{"tools":{}}}"#),
            ("c", r#"{"sampling":{"context":{}}}"#),
            ("d", "{}"),
        ]
        .into_iter()
        .enumerate()
        {
            passes(Duration::from_secs(1)).await;
            let mut person = Person::at(&gateway, "192.0.2.1:1");
            person.say(modern("tools/list", name, capabilities)).await;
            is_served(&mut person).await;
            assert_eq!(count.starts(), 1 + number, "{name} {capabilities}");
        }
    });
}

#[test]
fn a_flood_of_clients_of_one_address_starts_a_bounded_number_of_servers_and_ends_none_of_others() {
    run(async {
        let (gateway, count) = gateway(|builder| builder);
        let mut other = Person::at(&gateway, "192.0.2.2:1");
        other.say(modern("tools/list", "other", "{}")).await;
        is_served(&mut other).await;
        let others = count.running();
        let mut people = Vec::new();
        for number in 0..150 {
            let mut person = Person::at(&gateway, "192.0.2.1:1");
            person.say(modern("tools/list", &format!("c{number}"), "{}")).await;
            people.push(person);
        }
        // Other accounts do not wait.
        let begun = Instant::now();
        let mut third = Person::at(&gateway, "192.0.2.3:1");
        third.say(modern("tools/list", "third", "{}")).await;
        is_served(&mut third).await;
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        let (mut served, mut refused) = (0, 0);
        for person in &mut people {
            let reply = person.next().await;
            if reply["result"].is_object() {
                served += 1;
                continue;
            }
            refused += 1;
            let error = &reply["error"];
            assert_eq!(error["data"]["gateway"], "tooManyStarts", "{reply}");
            assert_eq!((&error["data"]["limit"], &error["data"]["burst"]), (&json!(4), &json!(8)));
            assert!(error["data"]["retryAfterMs"].as_u64().unwrap() > 0);
            let words = error["message"].as_str().unwrap();
            assert!(words.contains("4 per second") && words.contains("8 at once"), "{words}");
        }
        assert_eq!((served, refused), (STARTS, 150 - STARTS));
        assert_eq!(count.starts(), STARTS + 2);
        assert!(begun.elapsed() >= Duration::from_secs(10), "{:?}", begun.elapsed());
        // For one more client, pools of this account are ended, and none of other accounts.
        let mut fourth = Person::at(&gateway, "192.0.2.4:1");
        fourth.say(modern("tools/list", "fourth", "{}")).await;
        is_served(&mut fourth).await;
        passes(Duration::from_secs(1)).await;
        assert!(others.iter().all(|server| count.running().contains(server)));
        assert_eq!(count.running().len(), 16);
        for (person, name) in [(&mut other, "other"), (&mut third, "third"), (&mut fourth, "fourth")] {
            person.say(modern("tools/list", name, "{}").replace(r#""id":1"#, r#""id":2"#)).await;
            is_served(person).await;
        }
        assert_eq!(count.starts(), STARTS + 3);
    });
}

#[test]
fn a_hundred_sessions_of_one_address_do_not_keep_others_from_being_served() {
    run(async {
        let (gateway, count) = gateway(|builder| builder);
        let mut sessions = Vec::new();
        for _ in 0..100 {
            sessions.push(session(&gateway, "192.0.2.1:1").await);
            passes(Duration::from_millis(250)).await;
        }
        assert_eq!(count.running().len(), 100);
        // The oldest session is used again.
        assert!(is_open(&mut sessions[0]).await);
        // Two clients at once: each needs a slot.
        let mut other = Person::at(&gateway, "192.0.2.2:1");
        other.say(INITIALIZE.into()).await;
        let mut modern_one = Person::at(&gateway, "192.0.2.3:1");
        modern_one.say(modern("tools/list", "c", "{}")).await;
        is_served(&mut modern_one).await;
        is_served(&mut other).await;
        other.say(INITIALIZED.into()).await;
        assert!(is_open(&mut other).await);
        let mut ended = Vec::new();
        for (number, session) in sessions.iter_mut().enumerate() {
            if !is_open(session).await {
                ended.push(number);
            }
        }
        // The sessions that were unused for the longest time have ended.
        assert_eq!(ended, [1, 2]);
        assert_eq!(count.running().len(), 100);
        // The account with most sessions gets no slot of others.
        let mut more = Person::at(&gateway, "192.0.2.1:1");
        more.say(INITIALIZE.into()).await;
        assert_eq!(more.next().await["error"]["data"], json!({ "gateway": "tooManyServers", "limit": 100 }));
        // But it may replace a session that it has not used for a minute.
        passes(Duration::from_secs(60)).await;
        assert!(is_open(&mut sessions[3]).await);
        let _more = session(&gateway, "192.0.2.1:1").await;
        assert!(
            is_open(&mut other).await && is_open(&mut sessions[3]).await && !is_open(&mut sessions[0]).await
        );
    });
}

#[test]
fn who_holds_more_than_half_gives_some_up_even_if_all_are_in_use() {
    run(async {
        let (gateway, count) = gateway(|builder| builder.upstreams(4));
        let mut busy = Vec::new();
        for number in 0..4 {
            let mut person = Person::at(&gateway, "192.0.2.1:1");
            person.say(modern("hold", &format!("c{number}"), "{}")).await;
            passes(Duration::from_secs(1)).await;
            busy.push(person);
        }
        let first = count.running();
        let mut others = Vec::new();
        for number in 0..2 {
            let mut other = Person::at(&gateway, &format!("192.0.2.2:{number}"));
            other.say(modern("hold", &format!("d{number}"), "{}")).await;
            passes(Duration::from_secs(1)).await;
            others.push(other);
        }
        // The newest servers have ended, and half remains.
        let running = count.running();
        assert_eq!(running.len(), 4);
        assert_eq!(running[..2], first[..2]);
        for person in &mut busy[2..] {
            assert!(person.next().await["error"].is_object());
        }
        // Each account has half: neither gets more, and none is ended for a third one.
        for address in ["192.0.2.1:9", "192.0.2.2:9", "192.0.2.3:9"] {
            let mut third = Person::at(&gateway, address);
            third.say(modern("tools/list", "third", "{}")).await;
            let reply = third.next().await;
            assert_eq!(reply["error"]["data"]["gateway"], "tooManyServers", "{address}: {reply}");
        }
        assert_eq!(count.running(), running);
        // One account alone may hold all slots.
        for (place, id) in [(0, 1), (1, 1)] {
            others[place].leaves(RequestId::from(id)).await;
        }
        passes(Duration::from_secs(1)).await;
        for number in 0..2 {
            let mut person = Person::at(&gateway, "192.0.2.1:1");
            person.say(modern("tools/list", &format!("e{number}"), "{}")).await;
            let reply = person.next().await;
            // The other account's servers are unused, but not available to an account that holds its half.
            assert_eq!(reply["error"]["data"]["gateway"], "tooManyServers", "{reply}");
        }
    });
}

#[test]
fn connections_of_one_address_are_charged_to_it() {
    run(async {
        let (gateway, count) = gateway(|builder| builder.upstreams(2));
        let [mut one, mut two] = [0; 2].map(|_| Person::on_stream(&gateway, "192.0.2.1:1"));
        for person in [&mut one, &mut two] {
            person.say(INITIALIZE.into()).await;
            is_served(person).await;
            person.say(INITIALIZED.into()).await;
        }
        // An open connection is never an idle session: another client of the same address is refused even after an
        // hour.
        passes(Duration::from_secs(3_600)).await;
        let mut third = Person::on_stream(&gateway, "192.0.2.1:2");
        third.say(INITIALIZE.into()).await;
        assert_eq!(third.next().await["error"]["data"]["gateway"], "tooManyServers");
        let mut other = Person::on_stream(&gateway, "192.0.2.2:1");
        other.say(INITIALIZE.into()).await;
        is_served(&mut other).await;
        assert!(!is_open(&mut one).await && is_open(&mut two).await);
        assert_eq!(count.starts(), 3);
    });
}
