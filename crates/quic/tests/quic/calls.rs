//! All kinds of messages in both eras, cancellation in both directions, many calls at once, and connections that end.

use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{CloseCause, EraChoice};
use mcpjoin::proto::types::{LoggingLevel, SubscriptionFilter};
use mcpjoin::server::{NoArguments, tool};
use serde_json::json;

use crate::{BOTH, Gate, Up, arguments, builder, client, hearing, run, text, waits};

#[test]
fn every_kind_of_message_crosses_in_both_eras() {
    run(async {
        for era in BOTH {
            let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
            let (client, received) = hearing(&up, era).await;
            assert_eq!(client.server_name(), Some("quic"));
            client.ping().await.unwrap();
            assert_eq!(client.list_tools().all().await.unwrap().len(), 6);
            let echoed = client.call_tool("echo", arguments(&json!({"text": "hé"}))).await.unwrap();
            assert_eq!(text(&echoed), "hé");
            let origin = text(&client.call_tool("origin", ()).await.unwrap());
            assert!(origin.starts_with("quic 127.0.0.1:"), "{origin}");
            // A protocol error, and a failed tool.
            client.call_tool("no such tool", ()).await.unwrap_err();
            assert_eq!(client.call_tool("echo", ()).await.unwrap().is_error, Some(true));
            // Input during a request: a server's request in one era, a second round in the other.
            let asked = client.call_tool("ask", arguments(&json!({"text": "?"}))).await.unwrap();
            assert_eq!(text(&asked), "accept");
            // Notifications of a request, before its result.
            client.set_level(LoggingLevel::Debug).await.unwrap();
            let mut call = client.call_tool("steps", ()).progress(true).log_level(LoggingLevel::Debug);
            let (mut progress, mut logs) = (0, 0);
            while let Some(event) = call.next_event().await {
                match event {
                    CallEvent::Progress(_) => progress += 1,
                    _ => logs += 1,
                }
            }
            assert_eq!(text(&call.await.unwrap()), "done");
            // Of several progress reports the newest counts. In the legacy era a log message does not name its call.
            let received =
                received.notes.lock().unwrap().iter().filter(|note| *note == "notifications/message").count();
            assert!(progress >= 1, "{era:?}");
            assert_eq!(logs + received, 3, "{era:?}");
            up.end().await;
            assert!(client.closed().await != CloseCause::Local, "{era:?}");
        }
    });
}

#[test]
fn what_belongs_to_no_request_comes_on_the_stream_of_the_session_or_of_a_subscription() {
    run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let (client, received) = hearing(&up, Era::Legacy).await;
        up.server.handle().add_tool(tool("new"), |_: NoArguments, _| async { "new" }).unwrap();
        received.until("notifications/tools/list_changed").await;
        client.close().await;

        let client = up.client(Era::Modern).await;
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        let mut subscription = client.listen(filter).await.unwrap();
        up.server.handle().add_tool(tool("newer"), |_: NoArguments, _| async { "newer" }).unwrap();
        let note = subscription.next().await.unwrap().unwrap();
        assert_eq!(note.method.as_str(), "notifications/tools/list_changed");
        // An open stream blocks no other, and ends with the server.
        assert_eq!(text(&client.call_tool("new", ()).await.unwrap()), "new");
        up.end().await;
        assert!(subscription.next().await.is_none_or(|last| last.is_err()));
    });
}

#[test]
fn the_era_is_found_out() {
    run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let client = Client::builder("c", "1").connect(up.link().await.unwrap()).await.unwrap();
        assert_eq!(client.profile().era, Era::Modern);
        client.close().await;
        let server =
            builder(&Gate::default()).versions(vec![mcpjoin::proto::Version::V2025_06_18]).build().unwrap();
        let up = Up::new(server).await;
        let client = Client::builder("c", "1").connect(up.link().await.unwrap()).await.unwrap();
        assert_eq!(client.profile().era, Era::Legacy);
        assert_eq!(text(&client.call_tool("echo", arguments(&json!({"text": "x"}))).await.unwrap()), "x");
        client.close().await;
    });
}

#[test]
fn cancelling_reaches_the_handler_in_both_eras_and_no_other() {
    run(async {
        for era in BOTH {
            let gate = Gate::default();
            let up = Up::new(builder(&gate).build().unwrap()).await;
            let client = up.client(era).await;
            let cancelled = tokio::spawn({
                let client = client.clone();
                async move { client.call_tool("wait", ()).await }
            });
            gate.begin(1).await;
            let other = tokio::spawn({
                let client = client.clone();
                async move { client.call_tool("wait", ()).await }
            });
            gate.begin(1).await;
            cancelled.abort();
            gate.left.notified().await;
            gate.go_on.add_permits(1);
            assert_eq!(text(&other.await.unwrap().unwrap()), "at last", "{era:?}");
            client.close().await;
        }
    });
}

#[test]
fn a_call_that_waits_for_a_stream_is_taken_back_unsent() {
    run(async {
        for era in BOTH {
            let gate = Gate::default();
            let up = Up::with(builder(&gate).build().unwrap(), |listen| listen.streams(2)).await;
            let client = up.client(era).await;
            let first = waits(&client);
            gate.begin(1).await;
            // The only stream is in use.
            let second = waits(&client);
            tokio::task::yield_now().await;
            second.abort();
            assert!(second.await.unwrap_err().is_cancelled());
            let third = waits(&client);
            gate.go_on.add_permits(2);
            first.await.unwrap().unwrap();
            assert_eq!(third.await.unwrap().unwrap(), "at last", "{era:?}");
            assert_eq!(gate.most.load(std::sync::atomic::Ordering::SeqCst), 1);
            client.close().await;
        }
    });
}

#[test]
fn three_hundred_calls_at_once_share_256_streams() {
    run(async {
        for era in BOTH {
            let gate = Gate::default();
            let up = Up::new(builder(&gate).build().unwrap()).await;
            let client = up.client(era).await;
            let calls: Vec<_> = (0..300).map(|_| waits(&client)).collect();
            // QUIC returns the credit for ended streams in steps of an eighth, so at least this many run at once.
            gate.begin(223).await;
            gate.go_on.add_permits(300);
            for call in calls {
                assert_eq!(call.await.unwrap().unwrap(), "at last", "{era:?}");
            }
            // One of the 256 streams is the session stream.
            let most = gate.most.load(std::sync::atomic::Ordering::SeqCst);
            assert!((223..=255).contains(&most), "{era:?}: {most}");
            client.close().await;
        }
    });
}

#[test]
fn a_thousand_calls_of_two_clients_with_equal_ids_do_not_cross() {
    run(async {
        for era in BOTH {
            let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
            let (one, two) = (up.client(era).await, up.client(era).await);
            let calls: Vec<_> = (0..500)
                .flat_map(|n| [(one.clone(), 2 * n), (two.clone(), 2 * n + 1)])
                .map(|(client, n)| {
                    tokio::spawn(async move {
                        let said = json!({"text": n.to_string()});
                        (n, client.call_tool("echo", arguments(&said)).await)
                    })
                })
                .collect();
            for call in calls {
                let (n, outcome) = call.await.unwrap();
                assert_eq!(text(&outcome.unwrap()), n.to_string(), "{era:?}");
            }
        }
    });
}

#[test]
fn a_server_that_stops_finishes_what_is_in_progress() {
    run(async {
        for era in BOTH {
            let gate = Gate::default();
            let mut up = Up::new(builder(&gate).build().unwrap()).await;
            let client = up.client(era).await;
            let calling = tokio::spawn({
                let client = client.clone();
                async move { client.call_tool("wait", ()).await }
            });
            gate.begin(1).await;
            drop(up.stop.take());
            // During the shutdown new clients are rejected, and calls in progress go on.
            let late = client_of(&up).await;
            assert!(late.is_err());
            gate.go_on.add_permits(1);
            assert_eq!(text(&calling.await.unwrap().unwrap()), "at last", "{era:?}");
            up.serving.await.unwrap();
            client.closed().await;
        }
    });
}

/// Connects to a server that is shutting down, until it no longer listens.
async fn client_of(up: &Up) -> Result<(), String> {
    loop {
        let link = up.link().timeout(Duration::from_secs(2)).await.map_err(|error| error.to_string())?;
        drop(link);
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_connection_killed_under_load_ends_each_call_with_the_reason() {
    run(async {
        for era in BOTH {
            let gate = Gate::default();
            let up = Up::new(builder(&gate).build().unwrap()).await;
            let client = up.client(era).await;
            let calls: Vec<_> = (0..300).map(|_| waits(&client)).collect();
            gate.begin(223).await;
            // As in a crash: everything ends at once.
            up.serving.abort();
            for call in calls {
                let error = call.await.unwrap().unwrap_err();
                assert!(error.contains("closed") || error.contains("lost"), "{era:?}: {error}");
            }
            assert!(client.is_closed());
            let error = client.call_tool("echo", ()).await.unwrap_err().to_string();
            assert!(error.contains("closed"), "{error}");
        }
    });
}

#[test]
fn a_client_that_is_gone_leaves_no_handler_behind_in_the_modern_era() {
    run(async {
        let gate = Gate::default();
        let up = Up::new(builder(&gate).build().unwrap()).await;
        let link = up.link().await.unwrap();
        let client = client(Era::Modern).connect(link).await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("wait", ()).await }
        });
        gate.begin(1).await;
        client.close().await;
        calling.await.unwrap().unwrap_err();
        gate.left.notified().await;
        up.end().await;
    });
}

#[test]
fn a_server_that_dies_on_the_probe_is_connected_to_afresh() {
    // This needs a link that can be reopened. The session's own tests show how it is used.
    run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let mut link = up.link().await.unwrap().raw(&mcpjoin::proto::session::Limits::default());
        assert!(link.caps().exchanges && link.caps().reopens);
        link.reopen().await.unwrap();
        drop(link);
        let link = up.link().await.unwrap();
        let client = Client::builder("c", "1").era(EraChoice::Only(Era::Legacy)).connect(link).await.unwrap();
        client.close().await;
        let gone = up.link();
        up.end().await;
        let error = gone.await.unwrap_err().to_string();
        assert!(error.contains("no connection"), "{error}");
    });
}
