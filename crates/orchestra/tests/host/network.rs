//! A bad network, a faulty orchestrator, and a host that is killed.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use mcpjoin::server::{Server, ServerBuilder, tool};
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::host::{Host, HostLimits};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{self, HealthRequest, PluginRequest, PluginResponse, WireError};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::faulty_orchestrator::{Fault, FaultyOrchestrator};
use crate::lossy::{Lossy, Rates};
use crate::{Folder, Stage, ask, call, connect, json, offer, run};

#[derive(Deserialize, schemars::JsonSchema)]
struct Number {
    n: u64,
}

/// How often each number was called.
type Calls = Arc<Mutex<HashMap<u64, u32>>>;

/// A server with a tool that returns the square of a number, and counts its calls.
fn counting() -> (ServerBuilder, Calls) {
    let calls = Calls::default();
    let counted = calls.clone();
    let square = move |Number { n }: Number, _| {
        *counted.lock().unwrap().entry(n).or_default() += 1;
        async move { (n * n).to_string() }
    };
    (Server::builder("counting", "1").tool(tool("square"), square), calls)
}

#[test]
fn h162_a_thousand_calls_are_right_over_a_bad_network() {
    run(async {
        let (server, calls) = counting();
        let stage = Stage::of(&server.build().unwrap()).await;
        let rates = Rates { lost: 10, reordered: 30, duplicated: 5 };
        let relay = Lossy::to(stage.address.parse().unwrap(), rates).await;
        let connection = connect(&stage.folder, &relay.address.to_string()).await;
        let right = stream::iter(0..1000_u64).map(|n| {
            let connection = &connection;
            async move {
                let Response::ToolCall(answer) =
                    ask(connection, call("square", &format!(r#"{{"n":{n}}}"#))).await
                else {
                    panic!("{n}")
                };
                assert_eq!(json(&answer.result), json!({ "text": (n * n).to_string() }));
            }
        });
        assert_eq!(right.buffer_unordered(16).count().await, 1000);
        let calls = calls.lock().unwrap();
        assert_eq!(calls.len(), 1000);
        assert!(calls.values().all(|times| *times == 1), "a call has run twice");
        // The network was as bad as intended, within the statistics of this sample size.
        let counts = &relay.counts;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let all = count(&counts.passed) + count(&counts.lost) + count(&counts.reordered);
        println!("seed {}: {counts:?}", relay.seed);
        assert!(all > 300, "{counts:?}");
        assert!(count(&counts.lost) * 100 > all * 5, "{counts:?}");
        assert!(count(&counts.reordered) * 100 > all * 18, "{counts:?}");
        assert!(count(&counts.duplicated) * 100 > all, "{counts:?}");
    });
}

#[test]
fn every_fault_of_a_faulty_orchestrator_is_one_that_its_client_sees() {
    run(async {
        let (server, _) = counting();
        let host = Host::new([offer("one", &server.build().unwrap()).await], HostLimits::default());
        for fault in Fault::ALL {
            let folder = Folder::new();
            let faulty = FaultyOrchestrator::start(
                Certificates::in_directory(folder.path()),
                host.clone(),
                move |_, _| fault,
            )
            .await;
            let connection = connect(&folder, &faulty.address).await;
            let request = PluginRequest {
                request_id: "x".to_owned(),
                request: Some(Request::Health(HealthRequest {})),
            };
            let (mut send, mut receive) = connection.open().await.unwrap();
            let _ = wire::write(&mut send, &request).await;
            let _ = send.finish();
            // A stalled exchange is not awaited; everything else is, however slow the machine.
            let stalls = matches!(fault, Fault::Stall | Fault::StallInAnswer);
            let patience = if stalls { Duration::from_millis(500) } else { Duration::from_secs(20) };
            let answer = timeout(patience, wire::read::<PluginResponse>(&mut receive)).await;
            let seen = match (fault, answer) {
                (Fault::Stall | Fault::StallInAnswer, answer) => answer.is_err(),
                (Fault::Empty | Fault::Stop, Ok(answer)) => matches!(answer, Err(WireError::Empty)),
                (Fault::HalfALength | Fault::Truncate | Fault::OneMore, Ok(answer)) => {
                    matches!(answer, Err(WireError::Truncated { .. }))
                }
                (Fault::LongLength, Ok(answer)) => matches!(answer, Err(WireError::TooLong { .. })),
                (Fault::OneLess | Fault::Garbage, Ok(answer)) => {
                    matches!(answer, Err(WireError::Undecodable(_)))
                }
                (Fault::NoAnswer, Ok(answer)) => answer.is_ok_and(|answer| answer.response.is_none()),
                (Fault::AnotherId, Ok(answer)) => answer.is_ok_and(|answer| answer.request_id == "x-another"),
                (Fault::Twice, Ok(answer)) => answer.is_ok_and(|answer| answer.request_id == "x"),
                (_, Ok(answer)) => matches!(answer, Err(WireError::Io(_))),
                (_, Err(_)) => false,
            };
            assert!(seen, "{fault:?}");
        }
        // Without a fault it responds.
        let folder = Folder::new();
        let good =
            FaultyOrchestrator::start(Certificates::in_directory(folder.path()), host, |_, _| Fault::None)
                .await;
        let connection = connect(&folder, &good.address).await;
        assert!(matches!(ask(&connection, Request::Health(HealthRequest {})).await, Response::Health(_)));
        assert_eq!(good.requests(), 1);
    });
}
