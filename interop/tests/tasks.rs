//! Tasks of 2025-11-25 on servers of the TypeScript SDK: the published `server-everything`, and one of ours without
//! sessions, where a client detaches from a task and fetches its result later. No release of the peers has the extension
//! of 2026-07-28 yet.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use interop::{Listening, Peer, URL, Way, first_text, server};
use mcpjoin::Link;
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::types::ElicitResult;
use mcpjoin::proto::{ErrorObject, Raw};
use mcpjoin::transport::ChildCommand;
use tokio::sync::Notify;

const EVERYTHING: &str = "node_modules/.bin/mcp-server-everything";

fn listening() -> Listening {
    Listening::on_a_port(&Peer::installed(EVERYTHING).arg("streamableHttp"), Way::Http, "/mcp")
}

fn sdk_1() -> Listening {
    Listening::new(&Peer::installed("servers/sdk-1-tasks.mjs"), Way::Http)
}

#[test]
fn everything_researches_in_a_task() {
    let ran = Peer::installed(EVERYTHING).run(&["call", "-v", "simulate-research-query", "topic=tea"]);
    assert!(ran.text().contains("# Research Report: tea"), "{}", ran.stdout);
    // The other stages are visible only if the client polls at the right time.
    for status in ["working", "completed"] {
        assert!(ran.stderr.contains(status), "`{status}` is not in {}", ran.stderr);
    }
}

#[test]
fn everything_researches_in_a_task_over_http() {
    let server = listening();
    let result = server.run(&["call", "--json", URL, "simulate-research-query", "topic=tea"]).json();
    assert!(first_text(&result).contains("# Research Report: tea"), "{result}");
    for method in ["tasks/get", "tasks/result"] {
        assert!(server.was_told(method), "{method}");
    }
    assert!(!server.was_told("tasks/cancel"));
}

#[test]
fn everything_calls_off_what_is_interrupted() {
    let server = listening();
    let ran = server.interrupt(&["call", URL, "simulate-research-query", "topic=tea"], "tasks/get");
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(server.was_told("tasks/cancel"));
}

/// A client that accepts tasks, with the number of forms that it received. It answers each form in the same way, but only
/// after the notification that the test has read the task's status: the status lasts until the answer, and a single poll
/// may miss it.
fn answering() -> (ClientBuilder, Arc<AtomicUsize>, Arc<Notify>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let known = Arc::new(Notify::new());
    let (counted, wait) = (asked.clone(), known.clone());
    let client = Client::builder("interop", "0").tasks(true).elicitation(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        let wait = wait.clone();
        async move {
            wait.notified().await;
            let answer = Raw::parse(r#"{"action":"accept","content":{"interpretation":"snake"}}"#);
            let answer = answer.unwrap().decode::<ElicitResult>();
            answer.map_err(|error| ErrorObject::internal(error.to_string()))
        }
    });
    (client, asked, known)
}

/// Researches an ambiguous topic, so that the server asks for its meaning.
async fn asks_what_is_meant(link: Link) {
    let (client, asked, known) = answering();
    let client = client.connect(link).await.unwrap();
    let arguments = Raw::parse(r#"{"topic":"python","ambiguous":true}"#).unwrap();
    let mut call = client.call_tool("simulate-research-query", Some(arguments));
    let result = tokio::time::timeout(Duration::from_secs(60), async {
        while let Some(event) = call.next_event().await {
            let CallEvent::Task(task) = event else { panic!("{event:?}") };
            if task.status.as_str() == "input_required" {
                known.notify_one();
            }
        }
        call.raw().await.unwrap()
    });
    let result = result.await.unwrap();
    assert!(result.as_str().contains("# Research Report: python (snake)"), "{}", result.as_str());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    client.close().await;
}

#[tokio::test]
async fn everything_asks_what_is_meant() {
    let link = ChildCommand::new(server(EVERYTHING).unwrap()).start().await.unwrap();
    asks_what_is_meant(link).await;
}

#[tokio::test]
async fn everything_asks_what_is_meant_over_http() {
    let server = listening();
    asks_what_is_meant(Link::http(format!("http://{}/mcp", server.address())).build().unwrap()).await;
}

#[test]
fn sdk_1_runs_what_it_is_asked_for_and_what_it_must() {
    let server = sdk_1();
    assert_eq!(server.run(&["call", URL, "required", "message=done"]).text(), "done\n");
    server.run(&["call", URL, "fails", "message=not today"]).refused_with("not today");
    assert!(server.was_told("tasks/result"));
    let gets = server.was_told("tasks/get");
    assert!(gets);
    // Where a task is optional, the client does not create one unless the user requests it.
    let server = sdk_1();
    assert_eq!(server.run(&["call", URL, "optional", "message=done"]).text(), "done\n");
    assert!(!server.was_told("tasks/get"));
    let left = server.run(&["call", "--detach", URL, "optional", "message=later"]);
    let id = left.text().trim_end().to_owned();
    assert!(left.stderr.contains(&format!("mcpjoin call --task {id} http://")), "{}", left.stderr);
    assert_eq!(server.run(&["call", "--task", &id, URL]).text(), "later\n");
}

#[test]
fn sdk_1_keeps_what_was_left() {
    let server = sdk_1();
    let left = server.run(&["call", "--detach", "--json", URL, "waits", "message=x"]).json();
    let id = left["taskId"].as_str().unwrap();
    assert_eq!((&left["status"], &left["ttlMs"]), (&"working".into(), &3_600_000.into()), "{left}");
    let ran = server.interrupt(&["call", "--task", id, URL], "tasks/get");
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(server.was_told("tasks/cancel"));
    server.run(&["call", "--task", id, URL]).refused_with("was cancelled");
    server.run(&["call", "--task", "nobody", URL]).refused_with("Task not found");
}
