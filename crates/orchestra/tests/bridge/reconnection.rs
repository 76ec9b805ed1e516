//! A lost connection: reconnecting, retried reads, tool calls that run at most once, and errors for pending calls.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{
    Orchestrator, OrchestratorError, OrchestratorErrorKind, OrchestratorOptions,
};
use mcpjoin_orchestra::wire::plugin_request::Request;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lossy::{Lossy, Rates};
use crate::stand_in::StandIn;
use crate::support::{
    Act, Folder, Scripted, call_of, done, handle, handle_with, healthy, run, scripted, scripted_with, tools,
    usual,
};

/// Maximum time of the call after a restart: 2 s, or more if the machine is so busy that the first call took long.
fn most(first: Instant) -> Duration {
    Duration::from_secs(2).max(20 * first.elapsed())
}

/// A stand-in with running tools, a client of it with the default options, and the maximum time for what should take
/// 2 s.
async fn connected() -> (StandIn, Orchestrator, Duration) {
    let stand_in = StandIn::start().await;
    stand_in.up(&["slow", "echo", "fail"]);
    let first = Instant::now();
    let orchestrator = stand_in.client(OrchestratorOptions::default()).await;
    assert_eq!(orchestrator.list_tools().await.unwrap().len(), 3);
    (stand_in, orchestrator, most(first))
}

/// A call that has arrived and gets no response.
async fn in_flight(stand_in: &StandIn, orchestrator: &Orchestrator) -> JoinHandle<OrchestratorError> {
    let mut arrivals = stand_in.arrivals();
    let orchestrator = orchestrator.clone();
    let call = tokio::spawn(async move { orchestrator.tool_call(call_of("slow")).await.unwrap_err() });
    arrivals.recv().await.unwrap();
    call
}

/// Awaits the error of a call, and returns how long that took.
async fn lost(call: JoinHandle<OrchestratorError>, why: &str) -> Duration {
    let begun = Instant::now();
    let error = call.await.unwrap();
    assert!(matches!(error.kind, OrchestratorErrorKind::Lost { maybe_done: true, .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains(why) && error.contains("the request may have been executed"), "{error}");
    begun.elapsed()
}

#[test]
fn after_a_restart_the_next_call_is_right() {
    run(async {
        let (mut stand_in, orchestrator, most) = connected().await;
        stand_in.stop().await;
        stand_in.start_again().await;
        stand_in.up(&["echo"]);
        let begun = Instant::now();
        assert!(orchestrator.tool_call(call_of("echo")).await.unwrap().success);
        assert!(begun.elapsed() < most, "{:?} and not {most:?}", begun.elapsed());
        assert_eq!(stand_in.calls().len(), 1);
        assert_eq!(orchestrator.connected(1).await.unwrap(), 2);
    });
}

/// No other call is made that would probe the orchestrator.
#[test]
fn a_call_in_flight_through_a_kill_ends_within_two_seconds_of_the_return() {
    run(async {
        // How long the call has been in progress, and for how long the orchestrator is gone.
        let cases = [(0, 0), (0, 700), (1_300, 0), (1_300, 2_500)].map(|(under_way, away)| async move {
            let (mut stand_in, orchestrator, most) = connected().await;
            let mut call = in_flight(&stand_in, &orchestrator).await;
            assert!(timeout(Duration::from_millis(under_way), &mut call).await.is_err(), "it is under way");
            stand_in.kill().await;
            let _ = timeout(Duration::from_millis(away), pending::<()>()).await;
            stand_in.start_again().await;
            let why = if away < 1_000 { "" } else { "nothing listens there now" };
            let took = lost(call, why).await;
            println!("killed after {under_way} ms, back after {away} ms: told {took:?} later");
            assert!(took < 2 * most, "{took:?} and not {most:?}");
            assert_eq!(orchestrator.connected(1).await.unwrap(), 2);
            assert_eq!(stand_in.calls().len(), 1, "nothing was called twice");
        });
        join_all(cases).await;
    });
}

#[test]
fn a_call_in_flight_ends_within_two_seconds_when_the_orchestrator_does_not_return() {
    run(async {
        let (mut stand_in, orchestrator, most) = connected().await;
        let call = in_flight(&stand_in, &orchestrator).await;
        stand_in.kill().await;
        let took = lost(call, "nothing listens there now").await;
        println!("told {took:?} after it was killed");
        assert!(took < 2 * most, "{took:?} and not {most:?}");
        let why = orchestrator.connected(1);
        assert!(timeout(Duration::ZERO, why).await.is_err(), "there is no other connection");
    });
}

#[test]
fn a_call_in_flight_ends_at_once_when_the_orchestrator_is_stopped() {
    run(async {
        let (mut stand_in, orchestrator, _) = connected().await;
        let call = in_flight(&stand_in, &orchestrator).await;
        tokio::join!(lost(call, "it has closed the connection (code 0)"), stand_in.stop());
    });
}

/// Independent of the number and duration of the calls in progress.
#[test]
fn a_far_end_that_answers_is_asked_once_in_each_time_of_silence_and_keeps_its_connection() {
    run(async {
        let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
        let options = quick();
        let silence = options.silence;
        let (scripted, orchestrator) = scripted_with(
            move |request| {
                if matches!(request.request, Some(Request::Health(_))) {
                    asked.send(()).unwrap();
                }
                usual(request)
            },
            options,
        )
        .await;
        let mut arrivals = scripted.arrivals();
        let calls = (0..50).map(|_| {
            let orchestrator = orchestrator.clone();
            tokio::spawn(async move { orchestrator.tool_call(call_of("slow")).await })
        });
        let calls: Vec<_> = calls.collect();
        for _ in 0..50 {
            arrivals.recv().await.unwrap();
        }
        // Drop the requests before the calls.
        while asks.try_recv().is_ok() {}
        let begun = Instant::now();
        for _ in 0..6 {
            asks.recv().await.unwrap();
        }
        assert!(begun.elapsed() >= 4 * silence, "{:?}", begun.elapsed());
        assert_eq!(orchestrator.connected(0).await.unwrap(), 1);
        calls.iter().for_each(JoinHandle::abort);
    });
}

/// Closes the connection at the first request, and responds from then on.
fn closing(once: Arc<AtomicBool>) -> impl Fn(&mcpjoin_orchestra::wire::PluginRequest) -> Act {
    move |request| match request.request {
        Some(Request::Health(_)) => healthy(),
        _ if !once.swap(true, Ordering::SeqCst) => Act::Close,
        _ => usual(request),
    }
}

#[test]
fn a_read_is_made_again_when_the_connection_is_lost_under_it() {
    run(async {
        let (scripted, orchestrator) = scripted(closing(Arc::default())).await;
        assert_eq!(orchestrator.list_tools().await.unwrap().len(), 3);
        assert_eq!(scripted.requests().len(), 2);
    });
}

#[test]
fn a_call_of_a_tool_is_not_and_says_that_it_may_have_run() {
    run(async {
        let (scripted, orchestrator) = scripted(closing(Arc::default())).await;
        let error = orchestrator.tool_call(call_of("echo")).await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::Lost { maybe_done: true, .. }), "{error}");
        assert!(error.to_string().contains("the request may have been executed"), "{error}");
        assert_eq!(scripted.calls().len(), 1);
        assert!(orchestrator.tool_call(call_of("echo")).await.unwrap().success, "the next one is another");
    });
}

#[test]
fn a_read_is_not_made_again_for_ever() {
    run(async {
        let (scripted, orchestrator) = scripted(|_| Act::Close).await;
        let error = orchestrator.list_tools().await.unwrap_err();
        assert!(matches!(error.kind, OrchestratorErrorKind::Lost { maybe_done: false, .. }), "{error}");
        assert!(scripted.requests().len() <= 3, "{}", scripted.requests().len());
    });
}

fn quick() -> OrchestratorOptions {
    let mut options = OrchestratorOptions::default();
    options.silence = Duration::from_millis(200);
    options
}

#[test]
fn who_is_gone_is_noticed_within_15_s_also_when_the_limit_begins_anew_with_the_keep_alive() {
    let client = OrchestratorOptions::default();
    assert!(client.idle + client.keep_alive <= Duration::from_secs(15), "{client:?}");
    let host = mcpjoin_orchestra::host::quic_options();
    assert!(host.idle + host.keep_alive <= Duration::from_secs(15), "{host:?}");
}

#[test]
fn h157_an_idle_connection_lives_and_one_without_a_network_is_lost_in_time_and_made_again() {
    let folder = Folder::new();
    run(async {
        let scripted = Scripted::new(&Certificates::in_directory(folder.path()), usual).await;
        let relay = Lossy::to(scripted.address, Rates::NONE).await;
        let mut options = quick();
        (options.idle, options.keep_alive) = (Duration::from_secs(4), Duration::from_millis(400));
        let orchestrator =
            handle_with(relay.address, &Certificates::in_directory(folder.path()), options).await;
        assert_eq!(orchestrator.connected(0).await.unwrap(), 1);
        // Twice the silence limit passes without a request.
        let another = timeout(Duration::from_secs(8), orchestrator.connected(1)).await;
        assert!(another.is_err(), "the first one has not held");
        let mut arrivals = scripted.arrivals();
        let call = tokio::spawn({
            let orchestrator = orchestrator.clone();
            async move { orchestrator.tool_call(call_of("slow")).await.unwrap_err() }
        });
        arrivals.recv().await.unwrap();
        relay.point(None);
        let begun = Instant::now();
        let error = call.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        let OrchestratorErrorKind::Lost { why, maybe_done: true } = error.kind else { panic!("{error}") };
        assert!(why.contains("the peer or the network is gone"), "{why}");
        // The network is back.
        relay.point(Some(scripted.address));
        assert_eq!(orchestrator.connected(1).await.unwrap(), 2);
        assert!(orchestrator.tool_call(call_of("echo")).await.unwrap().success);
        assert_eq!(scripted.calls().len(), 2, "nothing was called twice");
    });
}

#[test]
fn a_killed_orchestrator_that_is_back_is_reached_within_two_seconds() {
    run(async {
        let (mut stand_in, orchestrator, most) = connected().await;
        stand_in.kill().await;
        stand_in.start_again().await;
        stand_in.up(&["echo"]);
        let begun = Instant::now();
        assert_eq!(orchestrator.list_tools().await.unwrap().len(), 1);
        assert!(begun.elapsed() < most, "{:?} and not {most:?}", begun.elapsed());
        assert!(orchestrator.tool_call(call_of("echo")).await.unwrap().success);
        assert_eq!(stand_in.calls().len(), 1);
    });
}

#[test]
fn a_tool_is_not_called_over_a_connection_that_has_been_silent_before_it_gives_a_sign_of_life() {
    run(async {
        let mut stand_in = StandIn::start().await;
        let mut options = quick();
        options.health_check_after = Duration::ZERO;
        let orchestrator = stand_in.client(options).await;
        assert_eq!(orchestrator.list_tools().await.unwrap(), []);
        stand_in.kill().await;
        stand_in.start_again().await;
        stand_in.up(&["echo"]);
        assert!(orchestrator.tool_call(call_of("echo")).await.unwrap().success, "it was not lost");
        assert_eq!(stand_in.calls().len(), 1);
    });
}

#[test]
fn a_slow_tool_is_not_taken_for_a_dead_peer() {
    run(async {
        let (go, told) = tokio::sync::watch::channel(false);
        let mut options = quick();
        options.silence = Duration::from_millis(50);
        let (scripted, orchestrator) = scripted_with(
            move |request| match request.request {
                Some(Request::ToolCall(_)) => Act::When(told.clone(), tools(&[])),
                _ => usual(request),
            },
            options,
        )
        .await;
        let mut call = std::pin::pin!(orchestrator.tool_call(call_of("x")));
        let early = timeout(Duration::from_millis(800), &mut call).await;
        assert!(early.is_err(), "it waits many times as long as a peer may be silent: {early:?}");
        go.send(true).unwrap();
        // The response is of the wrong kind, which does not matter here: it arrived.
        assert!(matches!(call.await.unwrap_err().kind, OrchestratorErrorKind::Unexpected { .. }));
        assert_eq!(orchestrator.connected(0).await.unwrap(), 1);
        assert_eq!(scripted.calls().len(), 1);
    });
}

/// When the network is back, the silent connection is probed once more before it is replaced. By itself it retransmits
/// only after as long as it has already waited.
#[test]
fn a_call_in_flight_survives_a_network_that_is_away_for_a_moment() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let moments = [600, 900, 1_200, 1_500, 1_800, 2_100, 2_400, 2_700, 3_000].map(|moment| {
            let certificates = &certificates;
            async move {
                let (go, told) = tokio::sync::watch::channel(false);
                let scripted = Scripted::new(certificates, move |request| match request.request {
                    Some(Request::ToolCall(_)) => Act::When(told.clone(), done(&json!({ "text": "x" }))),
                    _ => usual(request),
                })
                .await;
                let relay = Lossy::to(scripted.address, Rates::NONE).await;
                let orchestrator = handle(relay.address, certificates).await;
                let mut arrivals = scripted.arrivals();
                let mut call = tokio::spawn({
                    let orchestrator = orchestrator.clone();
                    async move { orchestrator.tool_call(call_of("x")).await }
                });
                arrivals.recv().await.unwrap();
                for (is_away, time) in
                    [(true, Duration::from_millis(moment)), (false, Duration::from_secs(3))]
                {
                    relay.cut(is_away);
                    let early = timeout(time, &mut call).await;
                    assert!(early.is_err(), "away for {moment} ms: {early:?}");
                }
                go.send(true).unwrap();
                assert!(call.await.unwrap().unwrap().success, "away for {moment} ms");
                assert_eq!(orchestrator.connected(0).await.unwrap(), 1);
            }
        });
        join_all(moments).await;
    });
}

#[test]
fn no_call_runs_twice_while_the_orchestrator_is_killed_and_back_under_load() {
    run(async {
        let (mut stand_in, orchestrator, _) = connected().await;
        let mut arrivals = stand_in.arrivals();
        let calls = (0..200).map(|number| {
            let orchestrator = orchestrator.clone();
            async move {
                let name = format!("call-{number}");
                // An unknown tool is a response like any other.
                (orchestrator.tool_call(call_of(&name)).await.is_ok(), name)
            }
        });
        let kill = async {
            for _ in 0..50 {
                arrivals.recv().await.unwrap();
            }
            stand_in.kill().await;
            stand_in.start_again().await;
        };
        let (outcomes, ()) = tokio::join!(join_all(calls), kill);
        let ran: Vec<String> = stand_in.calls().into_iter().map(|call| call.tool_name).collect();
        for (answered, name) in outcomes {
            let runs = ran.iter().filter(|known| **known == name).count();
            assert!(runs <= 1, "{name} has run {runs} times");
            assert!(!answered || runs == 1, "{name} was answered and has not run");
        }
        stand_in.up(&["echo"]);
        assert!(orchestrator.tool_call(call_of("echo")).await.unwrap().success);
    });
}
