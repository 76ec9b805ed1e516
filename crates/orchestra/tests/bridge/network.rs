//! The bridge on a bad network, and with an orchestrator that violates the protocol.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use mcpjoin::proto::types::CallToolParams;
use mcpjoin::server::{Server, tool};
use mcpjoin::{Client, Link};
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::OrchestratorOptions;
use mcpjoin_orchestra::host::{self, Host, HostLimits, Offer};
use mcpjoin_orchestra::wire::PluginRequest;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::{ALPN, SERVER_NAME};
use mcpjoin_quic::endpoint::Listener;
use serde::Deserialize;
use serde_json::json;

use crate::faulty_orchestrator::{Fault, FaultyOrchestrator};
use crate::lossy::{Lossy, Rates};
use crate::support::{Folder, Wire, bridge_with, handle, handle_with, quiet, raw, run};

#[derive(Deserialize, schemars::JsonSchema)]
struct Number {
    n: u64,
}

/// How often each number was called.
type Calls = Arc<Mutex<HashMap<u64, u32>>>;

/// A host with a server whose tool returns the square of a number and counts its calls.
async fn counting() -> (Host, Calls) {
    let calls = Calls::default();
    let counted = calls.clone();
    let square = move |Number { n }: Number, _| {
        *counted.lock().unwrap().entry(n).or_default() += 1;
        async move { (n * n).to_string() }
    };
    let server = Server::builder("counting", "1").tool(tool("square"), square).build().unwrap();
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    let client = Client::builder("host", "1").connect(ours).await.unwrap();
    (Host::new([Offer::client("counting", client)], HostLimits::default()), calls)
}

/// From an MCP client through the bridge, the relay and our host to an MCP server.
#[test]
fn h162_a_thousand_calls_through_the_bridge_are_right_over_a_bad_network() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let (host, calls) = counting().await;
        let tls = {
            let certificates = certificates.clone();
            move || certificates.server(SERVER_NAME, true, ALPN)
        };
        let listener = Listener::bind("127.0.0.1:0", tls, host::quic_options()).await.unwrap();
        let rates = Rates { lost: 10, reordered: 30, duplicated: 5 };
        let relay = Lossy::to(listener.address(), rates).await;
        tokio::spawn(async move { host.serve(listener, std::future::pending()).await });
        let orchestrator = handle(relay.address, &certificates).await;
        // A handshake may be lost several times, and a call waits for a limited time.
        orchestrator.connected(0).await.unwrap();
        let bridge = bridge_with(orchestrator, quiet());
        let (ours, theirs) = Link::memory();
        bridge.server().connect(theirs);
        let client = Client::builder("load", "1").connect(ours).await.unwrap();
        let right = stream::iter(0..1000_u64).map(|n| {
            let client = &client;
            async move {
                let mut params = CallToolParams::new("square");
                params.arguments = Some(raw(&json!({ "n": n })));
                let result =
                    client.call_tool_with(params).await.unwrap_or_else(|error| panic!("{n}: {error}"));
                assert_eq!(result.content[0].as_text(), Some(&*(n * n).to_string()));
            }
        });
        assert_eq!(right.buffer_unordered(16).count().await, 1000);
        let calls = calls.lock().unwrap();
        assert_eq!(calls.len(), 1000);
        assert!(calls.values().all(|times| *times == 1), "a call has run twice");
        let counts = &relay.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!("seed {}: {counts:?}", relay.seed);
        assert!(count(&counts.lost) > 20 && count(&counts.reordered) > 60, "{counts:?}");
    });
}

/// The error that a client of the bridge gets for each fault; `None` for a harmless one.
fn told(fault: Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::ResetAtOnce | Fault::ResetAfterRequest | Fault::ResetInAnswer => "reset",
        Fault::Stop | Fault::Empty => "the stream ended without a response",
        Fault::Stall | Fault::StallInAnswer => "no response within 4000 ms",
        Fault::HalfALength => "2 of 4 bytes arrived",
        Fault::Truncate | Fault::OneMore => "the stream ended inside a frame",
        Fault::LongLength => "a frame of 4294967295 bytes is longer than Orchestra's limit of 16777216 bytes",
        Fault::OneLess | Fault::Garbage => "the frame is not a message of orchestra.plugin.v1",
        Fault::NoAnswer => "the orchestrator's response does not belong to",
        Fault::AnotherId => "but to another request",
        Fault::CloseConnection => "the connection ended before the response",
        // Bytes after a response are not read.
        Fault::Twice | Fault::None => return None,
    })
}

#[test]
fn each_fault_of_an_orchestrator_ends_its_call_in_time_with_the_right_error_and_the_next_call_is_right() {
    let folder = Folder::new();
    run(async {
        let (host, _) = counting().await;
        let armed: Arc<Mutex<Option<Fault>>> = Arc::default();
        let script = {
            let armed = armed.clone();
            move |_, request: &PluginRequest| {
                // The bridge itself sends health requests to a slow peer. The fault is for the client's requests.
                if matches!(request.request, Some(Request::Health(_))) {
                    return Fault::None;
                }
                let mut armed = armed.lock().unwrap();
                let is_at_once = matches!(*armed, Some(Fault::ResetAtOnce | Fault::Stop));
                // Whether this is the request that is not read, or one that was.
                let is_for_it = request.request.is_none() == is_at_once;
                if is_for_it { armed.take().unwrap_or(Fault::None) } else { Fault::None }
            }
        };
        let faulty = FaultyOrchestrator::start(Certificates::in_directory(folder.path()), host, script).await;
        let mut options = OrchestratorOptions::default();
        // Only the calls of the client reach the orchestrator, so that each meets its own fault: the bridge sends no
        // health checks, and lists no tools after a reconnection, because no modern client listens for changes.
        options.health_check_after = Duration::from_secs(3600);
        let opened = async |options| {
            let orchestrator =
                handle_with(&faulty.address, &Certificates::in_directory(folder.path()), options).await;
            Wire::new(&bridge_with(orchestrator, quiet()))
        };
        let square = |n: i32| json!({ "name": "square", "arguments": { "n": n } });
        let mut patient = opened(options.clone()).await;
        // A stalled exchange is awaited until this timeout, which does not affect the others.
        options.tool_call = Duration::from_secs(4);
        let mut impatient = opened(options).await;
        let mut n = 0;
        for fault in Fault::ALL {
            let stalls = told(fault) == told(Fault::Stall);
            let wire = if stalls { &mut impatient } else { &mut patient };
            *armed.lock().unwrap() = Some(fault);
            let begun = Instant::now();
            n += 1;
            let answer = wire.ask_modern("tools/call", square(n)).await;
            assert!(begun.elapsed() < Duration::from_secs(10), "{fault:?}: {:?}", begun.elapsed());
            assert!(armed.lock().unwrap().is_none(), "{fault:?} was not met");
            match told(fault) {
                Some(says) => {
                    assert_eq!(answer["error"]["code"], -32603, "{fault:?}: {answer}");
                    let message = answer["error"]["message"].as_str().unwrap();
                    assert!(message.starts_with("orchestrator tool_call failed: "), "{fault:?}: {message}");
                    assert!(message.contains(&faulty.address), "{fault:?}: {message}");
                    assert!(message.contains(says), "{fault:?}: {message}");
                    assert!(message.contains("the request may have been executed"), "{fault:?}: {message}");
                }
                None => assert_eq!(answer["result"]["content"][0]["text"], (n * n).to_string()),
            }
            n += 1;
            let next = wire.ask_modern("tools/call", square(n)).await;
            assert_eq!(next["result"]["content"][0]["text"], (n * n).to_string(), "after {fault:?}: {next}");
        }
        // A read is retried when the connection is lost; its other errors are reported too. The two faults that take
        // long are left out.
        let reads = Fault::ALL.into_iter().filter(|fault| told(*fault) != told(Fault::Stall));
        for fault in reads {
            *armed.lock().unwrap() = Some(fault);
            let answer = patient.ask_modern("tools/list", json!({})).await;
            match told(fault).filter(|_| fault != Fault::CloseConnection) {
                Some(says) => {
                    let message = answer["error"]["message"].as_str().unwrap();
                    assert!(message.contains(says), "{fault:?}: {message}");
                    assert!(!message.contains("may have been executed"), "{fault:?}: {message}");
                }
                None => assert_eq!(answer["result"]["tools"][0]["name"], "square", "{fault:?}: {answer}"),
            }
        }
    });
}
