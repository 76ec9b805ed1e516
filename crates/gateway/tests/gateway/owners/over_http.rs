//! Tests with schedules over HTTP on the loopback interface: clients of both eras, with principals and without, in front of
//! servers of both eras.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitationSchema, LoggingLevel, Members,
};
use mcpjoin::proto::{Era, Raw, Version};
use mcpjoin::server::{Context, HandlerError, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use mcpjoin_gateway::Gateway;
use serde_json::json;
use tokio::sync::oneshot;

use super::{Choices, mark, marks, seeded};

const SCHEDULES: u64 = 200;
const CALLS: usize = 2;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    mark: String,
    /// The steps of the server: `log`, `ask`, or a number of times to yield.
    steps: Vec<String>,
}

async fn work(work: Work, cx: Context) -> Result<String, HandlerError> {
    let mut answers = String::new();
    for step in &work.steps {
        match step.as_str() {
            "log" => cx.log(LoggingLevel::Error, json!(work.mark)),
            "ask" => {
                let question = ElicitFormParams::new(&work.mark, ElicitationSchema::new(Members::new()));
                // A question that may be about another request is refused.
                match cx.elicit(question).await {
                    Ok(answer) => answers.push_str(&format!("{:?}", answer.content)),
                    Err(error) => answers.push_str(&error.to_string()),
                }
            }
            turns => {
                for _ in 0..turns.parse().unwrap_or(0) {
                    tokio::task::yield_now().await;
                }
            }
        }
    }
    Ok(format!("{} {answers}", work.mark))
}

/// The messages of other clients that a client has received, and its number of log messages.
#[derive(Default)]
struct Received {
    foreign: Vec<String>,
    logs: usize,
}

async fn client(url: String, number: usize, mut choices: Choices, received: Arc<Mutex<Received>>) {
    let is_foreign = move |text: &str| marks(text).any(|owner| owner != number);
    let (asked, told) = (received.clone(), received.clone());
    let note = move |received: &Arc<Mutex<Received>>, text: String| {
        if is_foreign(&text) {
            received.lock().unwrap().foreign.push(format!("c{number}: {text}"));
        }
    };
    let mut link = Link::http(&url);
    if let Some(principal) = choices.pick(&[None, None, Some("ada"), Some("bob")]) {
        link = link.header("x-user", principal);
    }
    let era = choices.pick(&[Era::Legacy, Era::Modern, Era::Modern]);
    let mut builder =
        Client::builder("near", "1").era(EraChoice::Only(era)).on_notification(move |notification| {
            note(&told, format!("{notification:?}"));
            told.lock().unwrap().logs += 1;
        });
    if choices.percent(50) {
        builder = builder.elicitation(move |params| {
            let ElicitParams::Form(params) = params else { panic!("a page") };
            note(&asked, params.message);
            let content: Members<Raw> =
                [("said".to_owned(), Raw::from_value(&mark(number)).unwrap())].into_iter().collect();
            let mut answer = ElicitResult::new(ElicitAction::Accept);
            answer.content = serde_json::from_str(&serde_json::to_string(&content).unwrap()).unwrap();
            async move { Ok(answer) }
        });
    }
    let client = builder.connect(link.build().unwrap()).await.unwrap();
    if choices.percent(60) {
        client.set_level(LoggingLevel::Debug).await.unwrap();
    }
    let calls = (0..CALLS).map(|_| {
        let count = choices.below(4);
        let steps: Vec<&str> = (0..count).map(|_| choices.pick(&["log", "log", "ask", "3", "20"])).collect();
        let arguments = json!({ "mark": mark(number), "steps": steps });
        let call = client.call_tool("work", Some(Raw::from_value(&arguments).unwrap()));
        let received = received.clone();
        async move {
            let result = call.await.unwrap();
            let text = format!("{:?}", result.content);
            assert!(text.contains(&mark(number)), "c{number} lost its result: {text}");
            note(&received, text);
        }
    });
    futures_util::future::join_all(calls).await;
    client.close().await;
}

async fn schedule(seed: u64) -> usize {
    let mut choices = seeded(seed);
    let versions = choices.pick(&[&[Version::V2025_11_25][..], &Version::ALL[..]]).to_vec();
    let server =
        Server::builder("far", "1").versions(versions).logging().tool(tool("work"), work).build().unwrap();
    let start = move || {
        let (near, far) = Link::memory();
        server.connect(far);
        std::future::ready(Ok::<_, std::io::Error>(near))
    };
    let gateway = Gateway::builder(start).build();
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let (url, (end, ended)) = (listener.url(), oneshot::channel::<()>());
    let options = HttpOptions::new().principal(|head| {
        let user = head.headers.get("x-user")?.to_str().ok()?;
        Some(user.into())
    });
    let serving = gateway.clone();
    let served = tokio::spawn(async move {
        serving.serve_http(listener, options, async { drop(ended.await) }).await;
    });
    let received = Arc::new(Mutex::new(Received::default()));
    let clients: Vec<_> = (0..3 + choices.below(2))
        .map(|number| {
            let choices = seeded(choices.next());
            tokio::spawn(client(url.clone(), number, choices, received.clone()))
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    drop(end);
    gateway.close().await;
    served.await.unwrap();
    let received = received.lock().unwrap();
    assert!(received.foreign.is_empty(), "{:?}", received.foreign);
    received.logs
}

#[test]
fn over_http_no_client_receives_what_belongs_to_another_and_none_loses_its_result() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut logs = 0;
    for seed in 1..=SCHEDULES {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                let schedule = tokio::time::timeout(Duration::from_secs(120), schedule(seed));
                schedule.await.expect("the schedule hangs")
            })
        }));
        logs += outcome.unwrap_or_else(|panic| {
            eprintln!("schedule {seed} over HTTP fails");
            std::panic::resume_unwind(panic);
        });
    }
    // The test would also pass if nothing were delivered.
    assert!(logs > 0);
}
