//! Tests of slow tools that send log messages and progress.

use std::time::Duration;

use mcpjoin::connection::CallEvent;
use mcpjoin::proto::Era;
use mcpjoin::proto::types::LoggingLevel;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ERAS, Wire, listening, meta, run, server, silent, text, value};
use crate::demo::PAUSE;

#[test]
fn tools_call_with_logging() {
    run(async {
        for era in ERAS {
            let (client, mut receiver) = listening(&server(), era).await;
            client.set_level(LoggingLevel::Info).await.unwrap();
            let begun = Instant::now();
            let mut calling = client.call_tool("test_tool_with_logging", ());
            let mut logged: Vec<(Value, Duration)> = Vec::new();
            let result = loop {
                tokio::select! {
                    biased;
                    received = receiver.recv() => {
                        let params = value(received.unwrap().params.unwrap().raw());
                        assert_eq!(params["level"], "info");
                        logged.push((params["data"].clone(), begun.elapsed()));
                    }
                    result = &mut calling => break result.unwrap(),
                }
            };
            let at = |text: &str, pauses| (json!(text), pauses * PAUSE);
            let expected = [
                at("Tool execution started", 0),
                at("Tool processing data", 1),
                at("Tool execution completed", 2),
            ];
            assert_eq!(logged, expected, "{era:?}");
            assert_eq!(text(&result), "Tool with logging executed successfully");
        }
    });
}

#[test]
fn tools_call_with_progress() {
    run(async {
        for era in ERAS {
            let begun = Instant::now();
            let client = silent(era).await;
            let mut calling = client.call_tool("test_tool_with_progress", ());
            let mut told = Vec::new();
            while let Some(event) = calling.next_event().await {
                let CallEvent::Progress(progress) = event else { panic!("{event:?}") };
                told.push((progress.progress, progress.total, begun.elapsed()));
            }
            let total = Some(100.0);
            assert_eq!(told, [(0.0, total, Duration::ZERO), (50.0, total, PAUSE), (100.0, total, 2 * PAUSE)]);
            assert_eq!(text(&calling.await.unwrap()), "Tool with progress executed successfully");
        }
    });
}

#[test]
fn a_call_is_cancelled_between_two_steps() {
    run(async {
        let mut wire = Wire::legacy(&server()).await;
        let call = wire.request("tools/call", json!({ "name": "test_tool_with_logging" })).await;
        assert_eq!(wire.next().await["params"]["data"], "Tool execution started");
        let params = json!({ "requestId": call });
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
        wire.is_silent().await;
        assert_eq!(wire.result("ping", json!({})).await, json!({}));
    });
}

#[test]
fn server_stateless_no_log_message_without_a_level() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        for (level, logged) in [(None, 0), (Some("error"), 0), (Some("info"), 2), (Some("debug"), 3)] {
            let mut meta = meta(json!({}));
            if let Some(level) = level {
                meta["io.modelcontextprotocol/logLevel"] = json!(level);
            }
            wire.says(Some(meta));
            let result = wire.call("test_logging_tool", json!({})).await;
            assert_eq!(result["isError"], Value::Null);
            assert_eq!(wire.received.len(), logged, "{level:?} {:?}", wire.received);
            for message in &wire.received {
                assert_eq!(message["method"], "notifications/message");
                assert_eq!(message["params"]["logger"], "demo");
            }
        }
    });
}

#[test]
fn logging_set_level() {
    run(async {
        let mut wire = Wire::legacy(&server()).await;
        assert_eq!(wire.result("logging/setLevel", json!({ "level": "warning" })).await, json!({}));
        wire.call("test_logging_tool", json!({})).await;
        let levels: Vec<_> = wire.received.iter().map(|message| &message["params"]["level"]).collect();
        assert_eq!(levels, ["warning"]);
        assert_eq!(wire.code("logging/setLevel", json!({ "level": "loud" })).await, -32602);
    });
}

#[test]
fn a_result_comes_after_a_pause() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            let begun = Instant::now();
            let result = client.call_tool("test_reconnection", ()).await.unwrap();
            assert_eq!(text(&result), "The result has arrived, over whichever stream");
            assert_eq!(begun.elapsed(), 3 * PAUSE);
        }
    });
}

#[test]
fn slow_work_reports_its_progress() {
    run(async {
        for era in [Era::Legacy, Era::Modern] {
            let begun = Instant::now();
            let client = silent(era).await;
            let arguments = super::raw(&json!({ "seconds": 600, "label": "Sum" }));
            let mut calling =
                client.call_tool("slow_compute", Some(arguments)).total(Duration::from_secs(900));
            let mut told = Vec::new();
            while let Some(event) = calling.next_event().await {
                let CallEvent::Progress(progress) = event else { panic!("{event:?}") };
                assert_eq!((progress.total, progress.message.as_deref()), (Some(10.0), Some("Sum")));
                told.push(progress.progress);
            }
            assert_eq!(text(&calling.await.unwrap()), "Sum is there, after 600 s");
            assert_eq!(told, (1..=10).map(f64::from).collect::<Vec<_>>());
            assert_eq!(begun.elapsed(), Duration::from_secs(600));
            let long = super::call(&client, "slow_compute", json!({ "seconds": 3601 })).await;
            assert_eq!((long.is_error, text(&long)), (Some(true), "`seconds` is at most 3600"));
        }
    });
}
