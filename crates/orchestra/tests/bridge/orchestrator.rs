//! The client: calls, their limits, and cancelled calls.

use std::time::{Duration, Instant};

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{Orchestrator, OrchestratorErrorKind, OrchestratorOptions, SetupError};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::{self, PluginRequest, PluginResponse};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::ports::Closed;
use crate::ports::Port;
use crate::support::{
    Act, Folder, Scripted, call_of, done, handle, handle_with, healthy, run, scripted, scripted_with, tools,
    usual,
};

#[test]
fn it_can_be_used_before_the_orchestrator_is_there() {
    let (folder, port) = (Folder::new(), Port::claim_udp().unwrap());
    let address = format!("127.0.0.1:{}", port.number());
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let orchestrator = handle(&address, &certificates).await;
        let late = async {
            // The first attempt has failed by then, because the port is still closed.
            let error = orchestrator_without_patience(&address, &folder).await;
            assert!(error.contains(&address), "{error}");
            Scripted::at(&address, &certificates, usual).await
        };
        let (list, _scripted) = tokio::join!(orchestrator.list_tools(), late);
        assert_eq!(list.unwrap().len(), 3);
    });
}

async fn orchestrator_without_patience(address: &str, folder: &Folder) -> String {
    let mut options = OrchestratorOptions::default();
    options.wait = Duration::from_millis(100);
    let impatient = handle_with(address, &Certificates::in_directory(folder.path()), options).await;
    impatient.list_tools().await.unwrap_err().to_string()
}

#[test]
fn without_an_orchestrator_a_call_fails_within_five_seconds_and_says_where_and_why() {
    let (folder, closed) = (Folder::new(), Closed::udp());
    let address = closed.to_string();
    run(async {
        let orchestrator = handle(&address, &Certificates::in_directory(folder.path())).await;
        let begun = Instant::now();
        let error = orchestrator.tool_call(call_of("x")).await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(matches!(error.kind, OrchestratorErrorKind::Unconnected { .. }), "{error}");
        let error = error.to_string();
        assert!(error.starts_with(&address) && error.to_lowercase().contains("refused"), "{error}");
    });
}

#[test]
fn at_most_a_hundred_exchanges_are_in_flight_and_all_are_answered() {
    run(async {
        let (go, told) = watch::channel(false);
        let (scripted, orchestrator) = scripted(move |request| match request.request {
            Some(Request::ToolCall(_)) => Act::When(told.clone(), done(&serde_json::json!({ "text": "x" }))),
            _ => healthy(),
        })
        .await;
        let mut arrivals = scripted.arrivals();
        let calls = (0..250).map(|_| orchestrator.tool_call(call_of("x")));
        let calls = futures_util::future::join_all(calls);
        let release = async {
            for _ in 0..99 {
                arrivals.recv().await.unwrap();
            }
            go.send(true).unwrap();
        };
        let (answers, ()) = tokio::join!(calls, release);
        assert!(answers.into_iter().all(|answer| answer.unwrap().success));
        assert!((99..=100).contains(&scripted.most_at_once()), "{}", scripted.most_at_once());
        assert_eq!(scripted.calls().len(), 250);
        let mut ids = scripted.ids();
        ids.sort();
        ids.dedup();
        assert!(ids.len() >= 250, "every exchange has an id of its own");
    });
}

#[test]
fn what_waits_for_its_turn_is_bounded() {
    run(async {
        let mut options = OrchestratorOptions::default();
        (options.streams, options.waiting) = (2, 1);
        let (scripted, orchestrator) = scripted_with(usual, options).await;
        let mut arrivals = scripted.arrivals();
        let first = tokio::spawn({
            let orchestrator = orchestrator.clone();
            async move { orchestrator.tool_call(call_of("slow")).await }
        });
        arrivals.recv().await.unwrap();
        let (second, third) = tokio::join!(
            tokio::time::timeout(Duration::from_millis(200), orchestrator.list_tools()),
            orchestrator.list_tools()
        );
        assert!(second.is_err(), "it waits for its turn");
        let busy = third.unwrap_err();
        assert!(matches!(busy.kind, OrchestratorErrorKind::Busy { waiting: 1 }), "{busy}");
        first.abort();
        assert_eq!(
            orchestrator.list_tools().await.unwrap().len(),
            3,
            "a turn that was given up is free again"
        );
    });
}

#[test]
fn every_call_has_a_deadline_and_its_stream_is_reset_then() {
    run(async {
        let mut options = OrchestratorOptions::default();
        (options.tool_call, options.read) = (Duration::from_millis(300), Duration::from_millis(200));
        let (scripted, orchestrator) = scripted_with(|_| Act::Hold, options).await;
        let error = orchestrator.tool_call(call_of("x")).await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::TimedOut { maybe_done: true, .. }), "{error}");
        assert!(error.to_string().contains("300 ms"), "{error}");
        scripted.given_up(1).await;
        let error = orchestrator.list_tools().await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::TimedOut { maybe_done: false, .. }), "{error}");
        scripted.given_up(2).await;
    });
}

#[test]
fn a_call_that_is_dropped_resets_its_stream_and_no_other() {
    run(async {
        let (scripted, orchestrator) = scripted(usual).await;
        let mut arrivals = scripted.arrivals();
        let dropped = async {
            tokio::select! {
                answer = orchestrator.tool_call(call_of("slow")) => panic!("{answer:?}"),
                _ = arrivals.recv() => {}
            }
        };
        dropped.await;
        scripted.given_up(1).await;
        assert_eq!(orchestrator.list_tools().await.unwrap().len(), 3);
        assert_eq!(orchestrator.connected(0).await.unwrap(), 1, "over the same connection");
    });
}

#[test]
fn an_address_that_is_none_is_a_setup_error_at_once() {
    let folder = Folder::new();
    run(async {
        for address in ["", "localhost", "localhost:", "localhost:70000", "::1:9100", ":9100"] {
            let error = Orchestrator::quic(
                address,
                Certificates::in_directory(folder.path()),
                OrchestratorOptions::default(),
            );
            let error = error.await.unwrap_err();
            assert!(matches!(&error, SetupError::Address(named) if named == address), "{error}");
            assert!(Orchestrator::tcp(address, OrchestratorOptions::default()).is_err());
        }
    });
    assert!(!folder.path().exists(), "nothing was made for an address that is none");
}

#[test]
fn certificates_that_cannot_be_used_are_a_setup_error_at_once() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        drop(handle("127.0.0.1:1", &certificates).await);
        let ca = folder.path().join("ca.crt");
        std::fs::write(&ca, "no certificate").unwrap();
        let error = Orchestrator::quic("127.0.0.1:1", certificates, OrchestratorOptions::default());
        let error = error.await.unwrap_err();
        assert!(matches!(error, SetupError::Certificate(_)), "{error}");
        assert!(error.to_string().contains("ca.crt"), "{error}");
    });
}

#[test]
fn an_orchestrator_of_another_authority_is_refused_for_good_with_the_reason() {
    let (ours, theirs) = (Folder::new(), Folder::new());
    run(async {
        let scripted = Scripted::new(&Certificates::in_directory(theirs.path()), usual).await;
        let orchestrator = handle(scripted.address, &Certificates::in_directory(ours.path())).await;
        // A call that waits for the connection gets the same error as a later one.
        let early = orchestrator.tool_call(call_of("x")).await.unwrap_err();
        let error = orchestrator.connected(0).await.unwrap_err();
        assert!(matches!(error, SetupError::Refused(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains(&scripted.address.to_string()) && text.contains("certificate"), "{text}");
        let begun = Instant::now();
        let late = orchestrator.list_tools().await.unwrap_err();
        for error in [early, late] {
            assert!(matches!(error.kind, OrchestratorErrorKind::Refused(_)), "{error}");
            assert_eq!(error.to_string(), text, "it was reached, and no time was over");
        }
        assert!(begun.elapsed() < OrchestratorOptions::default().wait, "there is nothing to wait for");
    });
}

#[test]
fn the_plain_form_has_a_connection_for_each_exchange() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = tokio::spawn(async move {
            let mut connections = 0;
            while connections < 2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                connections += 1;
                let request: PluginRequest = wire::read(&mut stream).await.unwrap();
                let response = match request.request {
                    Some(Request::ListTools(_)) => tools(&["one"]),
                    _ => done(&serde_json::json!({ "text": "two" })),
                };
                let response = PluginResponse { request_id: request.request_id, response: Some(response) };
                wire::write(&mut stream, &response).await.unwrap();
            }
        });
        let orchestrator = Orchestrator::tcp(&address, OrchestratorOptions::default()).unwrap();
        assert_eq!(orchestrator.list_tools().await.unwrap()[0].name, "one");
        assert!(orchestrator.tool_call(call_of("two")).await.unwrap().success);
        serve.await.unwrap();

        let mut options = OrchestratorOptions::default();
        options.wait = Duration::from_millis(300);
        let orchestrator = Orchestrator::tcp(&address, options).unwrap();
        let error = orchestrator.tool_call(call_of("three")).await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::Unconnected { .. }), "{error}");
        assert!(error.to_string().contains(&address), "{error}");
    });
}

#[test]
fn a_request_beyond_a_frame_is_not_sent() {
    run(async {
        let (scripted, orchestrator) = scripted(usual).await;
        let mut request = call_of("echo");
        request.trace_parent = "x".repeat(wire::MAX_FRAME);
        let error = orchestrator.tool_call(request).await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::Request(_)), "{error}");
        assert!(error.to_string().contains("16 MiB"), "{error}");
        assert!(scripted.calls().is_empty());
    });
}

#[test]
fn it_is_closed_in_good_order_and_fails_every_call_then() {
    run(async {
        let (scripted, orchestrator) = scripted(usual).await;
        let mut arrivals = scripted.arrivals();
        let under_way = tokio::spawn({
            let orchestrator = orchestrator.clone();
            async move { orchestrator.tool_call(call_of("slow")).await.unwrap_err() }
        });
        arrivals.recv().await.unwrap();
        orchestrator.close(Duration::from_secs(5)).await;
        let error = under_way.await.unwrap();
        assert!(matches!(error.kind, OrchestratorErrorKind::Lost { .. }), "{error}");
        let error = orchestrator.list_tools().await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::Closed), "{error}");
    });
}
