//! A target has lost a shared session, and no request is sent that would be refused: a stream or a notification says it.

use super::*;

/// A target, its gateways and a session of a client, which the target does not know any more. `said`: how it answers then, if it is
/// a server on the TypeScript SDK.
async fn lost(said: Option<&'static str>) -> (Target, Replicas, Peer) {
    let mut target = Target::new("a").await;
    if let Some(said) = said {
        target.url = as_the_sdk_says_it(target.front.clone(), said).await;
    }
    let replicas = Replicas::new(2, &[&target]);
    let session = replicas.peer(0).open().await;
    // The second process has the session, and no stream.
    let other = session.at(&replicas.services[1]);
    assert_eq!(other.call("a__count").await.0, 200);
    assert_eq!(replicas.sessions(), [1, 1]);
    target.restart();
    (target, replicas, other)
}

const ANSWERS: [Option<&str>; 3] =
    [None, Some("Bad Request: No valid session ID provided"), Some("Bad Request: Server not initialized")];

/// Waits until the second process has ended the session.
async fn ended(replicas: &Replicas) {
    while replicas.sessions()[1] > 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn the_first_stream_of_a_session_that_its_target_has_lost_ends() {
    run(async {
        for said in ANSWERS {
            let (target, replicas, session) = lost(said).await;
            let stream = session.send(Method::GET, "").await;
            assert_eq!(stream.status(), 200, "{said:?}");
            let events = stream.into_body().collect().await.unwrap().to_bytes();
            assert!(!String::from_utf8(events.to_vec()).unwrap().contains("data: {"), "{events:?}");
            ended(&replicas).await;
            assert_eq!(target.sessions(), 0, "nobody has opened another one: {said:?}");
            assert_eq!(session.call("a__count").await.0, 404, "{said:?}");
        }
    });
}

#[test]
fn a_notification_that_is_refused_because_the_session_is_lost_ends_it() {
    run(async {
        for said in ANSWERS {
            let (target, replicas, session) = lost(said).await;
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/x" });
            assert_eq!(session.send(Method::POST, told.to_string()).await.status(), 202, "{said:?}");
            ended(&replicas).await;
            assert_eq!((target.sessions(), target.count.load(Ordering::Relaxed)), (0, 1), "{said:?}");
        }
    });
}

#[test]
fn a_notification_that_a_target_refuses_for_another_reason_costs_nothing() {
    run(async {
        let mut target = Target::new("a").await;
        // It accepts no notification at all.
        let front = target.front.clone();
        let refuses = move |request: Request<Body>| {
            let mut front = front.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                let is_told = message["method"].as_str().is_some_and(|method| method == "notifications/x");
                if is_told {
                    let error =
                        json!({ "jsonrpc": "2.0", "error": { "code": -32600, "message": "no" }, "id": null });
                    let refused = http::Response::builder().status(400).body(Body::from(error.to_string()));
                    return refused.unwrap();
                }
                front.call(Request::from_parts(head, Body::from(body))).await.unwrap().map(Body::new)
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        target.url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = Router::new().fallback(refuses);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let replicas = Replicas::new(2, &[&target]);
        let session = replicas.peer(0).open().await;
        let other = session.at(&replicas.services[1]);
        for turn in 1..4 {
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/x" });
            assert_eq!(other.send(Method::POST, told.to_string()).await.status(), 202);
            assert_eq!(other.call("a__count").await, (200, turn.to_string()));
        }
        assert_eq!((replicas.sessions(), target.sessions()), (vec![1, 1], 1));
    });
}
