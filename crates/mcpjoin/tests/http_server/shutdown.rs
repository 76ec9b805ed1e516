//! Tests of the shutdown of a server over HTTP: pending calls finish, and streams receive their last messages.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body::{Body, Frame};
use mcpjoin::transport::HttpOptions;
use serde_json::json;
use tokio::sync::oneshot;
use tower_service::Service as _;

use crate::support::{LEGACY, Reply, begins, initialize, modern, peer, run, settle, text};

/// A body that arrives late.
struct Late(Option<oneshot::Receiver<Bytes>>);

impl Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let Poll::Ready(bytes) = Pin::new(body).poll(cx) else { return Poll::Pending };
        self.0 = None;
        Poll::Ready(bytes.ok().map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[test]
fn draining_finishes_calls_ends_streams_and_admits_no_client() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut standing = session.get().await;
        assert_eq!(standing.event().await.unwrap().0, "0-0");
        let listen =
            modern(9, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
        let mut listening = peer.modern("subscriptions/listen", "").post(listen).await;
        assert!(listening.message().await.unwrap()["id"].is_null());
        let mut legacy_call = Box::pin(session.call_in_session(1, "wait", json!({})));
        begins(&mut legacy_call).await;
        let mut modern_call = Box::pin(peer.call(2, "wait", json!({})));
        begins(&mut modern_call).await;

        let service = peer.service.clone();
        let drained = tokio::spawn(async move { service.drain().await });
        // The stream of a modern client ends with its result.
        let last = listening.message().await.unwrap();
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(9), &json!("complete")));
        assert_eq!(listening.message().await, None);
        let refused = peer.call(3, "echo", json!({})).await;
        assert_eq!((refused.status, &refused.headers["retry-after"]), (503, &"1".parse().unwrap()));
        assert!(!drained.is_finished());
        gate.open.add_permits(2);
        assert_eq!(text(&legacy_call.await.json().await), "waited");
        assert_eq!(text(&modern_call.await.json().await), "waited");
        assert_eq!(standing.message().await, None);
        drained.await.unwrap();
    });
}

#[test]
fn what_does_not_end_in_time_is_refused() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let mut call = Box::pin(peer.call(1, "wait", json!({})));
        begins(&mut call).await;
        let started = tokio::time::Instant::now();
        peer.service.drain().await;
        let took = started.elapsed();
        assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&took), "{took:?}");
        let refused = call.await.json().await;
        assert_eq!(refused["error"]["code"], -32603);
        assert_eq!((gate.begun(), gate.dropped()), (1, 1));
    });
}

#[test]
fn a_request_whose_body_comes_after_the_end_has_begun_opens_nothing() {
    run(async {
        let listen = json!({ "notifications": { "toolsListChanged": true } });
        let late = [
            ("", initialize(LEGACY, json!({}))),
            ("subscriptions/listen", modern(9, "subscriptions/listen", listen)),
        ];
        for (method, message) in late {
            let (peer, gate) = peer(HttpOptions::new());
            let mut call = Box::pin(peer.call(1, "wait", json!({})));
            begins(&mut call).await;
            let from = if method.is_empty() { peer.clone() } else { peer.modern(method, "") };
            let (body, comes) = oneshot::channel();
            let request = from.request(Method::POST, "/mcp", "").map(|_| Late(Some(comes)));
            let mut response = Box::pin(peer.service.clone().call(request));
            begins(&mut response).await;
            let service = peer.service.clone();
            let drained = tokio::spawn(async move { service.drain().await });
            settle().await;
            body.send(message.to_string().into()).unwrap();
            let refused = Reply::of(response.await.unwrap());
            assert_eq!((refused.status, peer.service.sessions()), (503, 0), "{method}");
            gate.open.add_permits(1);
            assert_eq!(text(&call.await.json().await), "waited");
            tokio::time::timeout(Duration::from_secs(60), drained).await.expect("it never ends").unwrap();
        }
    });
}
