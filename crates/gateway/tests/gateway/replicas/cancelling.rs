//! A request is cancelled at another process than the one that has sent it on.

use tokio::task::JoinHandle;

use super::*;

/// Starts a call of `holds`, and returns the id that the target sees, and how the call ends.
async fn held(peer: &Peer, target: &Target, name: &str, id: &Value) -> (RequestId, JoinHandle<String>) {
    let mut held = target.held.subscribe();
    let before = held.borrow_and_update().clone();
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": {} } });
    let peer = peer.clone();
    let mut calling = tokio::spawn(async move {
        let body = peer.send(Method::POST, call.to_string()).await.into_body();
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    });
    let now = tokio::select! {
        now = held.wait_for(|held| held.len() > before.len()) => now.unwrap().clone(),
        ended = &mut calling => panic!("{id}: {ended:?}"),
    };
    (now.difference(&before).next().unwrap().clone(), calling)
}

/// Sends a notification that cancels a request.
async fn cancels(peer: &Peer, id: &Value) {
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": "enough" } });
    assert_eq!(peer.send(Method::POST, cancelled.to_string()).await.status(), 202, "{id}");
}

/// Waits until these requests are the only ones that run.
async fn only(target: &Target, requests: &BTreeSet<RequestId>) {
    target.held.subscribe().wait_for(|held| held.len() <= requests.len()).await.unwrap();
    assert_eq!(*target.held.borrow(), *requests);
}

/// Ids that a client may choose, of which no two are the same.
fn ids() -> Vec<Value> {
    let mut ids = [0, 7, -7, (1 << 28) - 1, 1 << 28, i64::MAX].map(|number| json!(number)).to_vec();
    ids.extend([json!(u64::MAX), json!("7"), json!(""), json!("\"\\\u{e9}")]);
    ids.extend([4_000, 4_001].map(|length| json!("x".repeat(length))));
    ids
}

#[test]
fn a_call_is_cancelled_at_another_process_and_no_other_call_is() {
    run(async {
        let targets = [Target::new("a").await, Target::new("b").await];
        let replicas = Replicas::new(3, &[&targets[0], &targets[1]]);
        let session = replicas.peer(0).open().await;
        let other = session.at(&replicas.services[1]);
        let (mut calls, mut running) = (Vec::new(), BTreeSet::new());
        for (turn, id) in ids().into_iter().enumerate() {
            // Both processes have calls in progress.
            let peer = if turn % 2 == 0 { &session } else { &other };
            let (upstream, calling) = held(peer, &targets[0], "a__holds", &id).await;
            running.insert(upstream.clone());
            calls.push((id, upstream, calling));
        }
        assert_eq!(running.len(), ids().len());
        let (far, of_b) = held(&session, &targets[1], "b__holds", &json!("of b")).await;
        // One process has neither sent the calls nor seen the session before.
        let third = session.at(&replicas.services[2]);
        for (turn, (id, upstream, calling)) in calls.into_iter().enumerate() {
            cancels(if turn % 3 == 0 { &third } else { [&other, &session][turn % 2] }, &id).await;
            running.remove(&upstream);
            only(&targets[0], &running).await;
            let said = calling.await.unwrap();
            assert!(!said.contains("result"), "{said}");
        }
        assert_eq!(*targets[1].held.borrow(), BTreeSet::from([far]));
        cancels(&other, &json!("of b")).await;
        only(&targets[1], &BTreeSet::new()).await;
        of_b.await.unwrap();
        // The session goes on everywhere.
        for (turn, peer) in [&session, &other, &third].into_iter().enumerate() {
            assert_eq!(peer.call("a__count").await, (200, (turn + 1).to_string()));
        }
    });
}

#[test]
fn a_notification_that_names_no_call_of_its_client_cancels_nothing() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(2, &[&target]);
        let ada = replicas.peer(0).with("authorization", "ada").open().await;
        let bob = replicas.peer(0).with("authorization", "bob").open().await;
        let second = replicas.peer(0).with("authorization", "ada").open().await;
        let (own, calling) = held(&ada, &target, "a__holds", &json!(7)).await;
        // The same id is one of another client, and of another session of the same one.
        for peer in [&bob, &second] {
            for service in &replicas.services {
                cancels(&peer.at(service), &json!(7)).await;
            }
        }
        let own_number = own.as_i64().unwrap();
        let other = ada.at(&replicas.services[1]);
        for id in [json!(8), json!("7"), json!("x".repeat(3_000_000)), json!(own_number), json!(1), json!(2)]
        {
            cancels(&other, &id).await;
        }
        for params in [
            json!({}),
            json!({ "requestId": null }),
            json!({ "requestId": 7.5 }),
            json!({ "requestId": [7] }),
        ] {
            let bad = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            let status = other.send(Method::POST, bad.to_string()).await.status();
            assert!([202, 400].contains(&status.as_u16()), "{status} {bad}");
        }
        // What was sent on has arrived before the result of a later call has.
        for peer in [&other, &bob.at(&replicas.services[1]), &second.at(&replicas.services[1])] {
            assert_eq!(peer.call("a__count").await.0, 200);
        }
        assert_eq!(*target.held.borrow(), BTreeSet::from([own]));
        // The session of ada is unknown to bob.
        let stolen = other.with("authorization", "bob");
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
        assert_eq!(stolen.send(Method::POST, cancelled.to_string()).await.status(), 404);
        cancels(&other, &json!(7)).await;
        only(&target, &BTreeSet::new()).await;
        calling.await.unwrap();
        // A call that has ended already.
        cancels(&other, &json!(7)).await;
        assert_eq!(ada.call("a__count").await, (200, "4".to_owned()));
    });
}

#[test]
fn a_call_of_a_session_of_one_process_is_cancelled_through_another_one() {
    run(async {
        let target = Target::new("a").await;
        let services = with_programs([&target.server, &target.server]).await;
        let session = Peer::new(services[0].clone()).open().await;
        let other = session.at(&services[1]);
        let (_, calling) = held(&session, &target, "a__holds", &json!(7)).await;
        let (second, passed) = held(&other, &target, "a__holds", &json!("seven")).await;
        cancels(&other, &json!(8)).await;
        cancels(&other, &json!(7)).await;
        only(&target, &BTreeSet::from([second])).await;
        calling.await.unwrap();
        cancels(&session, &json!("seven")).await;
        only(&target, &BTreeSet::new()).await;
        passed.await.unwrap();
    });
}
