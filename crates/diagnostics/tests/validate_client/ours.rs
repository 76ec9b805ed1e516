//! Tests that our own client passes the client validator.

use std::future::pending;
use std::time::Duration;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    CreateMessageResult, ElicitAction, ElicitResult, Members, Role, Root, TextContent,
};
use mcpjoin::proto::{Era, Raw};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link};
use mcpjoin_diagnostics::validate::{ClientValidator, StopReason};
use tokio::sync::oneshot;

use super::{all_passed, checked, failed_rules, link, server};

/// Uses each feature of a client.
async fn work(link: Link, era: Era) {
    let client = Client::builder("worker", "1")
        .era(EraChoice::Only(era))
        .roots(vec![Root::new("file:///tmp")])
        .elicitation(async |_| {
            let mut result = ElicitResult::new(ElicitAction::Accept);
            result.content = Some(Members::new().with("sure", Raw::parse("true").unwrap()));
            Ok(result)
        })
        .sampling(async |_| Ok(CreateMessageResult::new(Role::Assistant, TextContent::new("no"), "none")))
        .connect(link)
        .await
        .unwrap();
    let tools = client.list_tools().all().await.unwrap();
    assert_eq!(tools.len(), 8);
    let arguments = Raw::parse(r#"{"region":"Zürich"}"#).unwrap();
    client.call_tool("region", Some(arguments)).await.unwrap();
    let asked = client.call_tool("ask", ()).await.unwrap();
    assert!(asked.is_error != Some(true), "{asked:?}");
    let waiting = client.call_tool("wait", ());
    assert!(tokio::time::timeout(Duration::from_millis(200), waiting).await.is_err());
    client.call_tool("quiet", ()).await.unwrap();
    client.close().await;
}

async fn over_a_stream(era: Era) -> mcpjoin_rules::Report {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let looking = ClientValidator::new(server()).serve(link(ours), pending());
    let (trace, ()) = tokio::join!(looking, work(link(theirs), era));
    checked(&trace)
}

async fn over_http(era: Era) -> mcpjoin_rules::Report {
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let url = listener.url();
    let (over, gone) = oneshot::channel::<()>();
    let end = async {
        let _ = gone.await;
        StopReason::Gone(None)
    };
    let looking = ClientValidator::new(server()).serve_http(listener, HttpOptions::new(), None, end);
    let working = async {
        work(Link::http(&url).build().unwrap(), era).await;
        let _ = over.send(());
    };
    let (trace, ()) = tokio::join!(looking, working);
    checked(&trace)
}

const LEGACY: [&str; 14] = [
    "client-request-id",
    "client-ping-answered",
    "client-unknown-method-code",
    "client-notification-not-answered",
    "client-cancels-what-is-under-way",
    "client-cursor-unchanged",
    "client-opens-with-initialize",
    "client-waits-for-initialize",
    "client-sends-initialized",
    "client-undeclared-not-asked",
    "client-roots-declared",
    "client-root-is-file",
    "client-elicitation-declared",
    "client-elicitation-conforms",
];

const MODERN: [&str; 10] = [
    "client-meta-complete",
    "client-info-sent",
    "client-sends-no-response",
    "client-cursor-unchanged",
    "client-elicitation-conforms",
    "client-echoes-state",
    "client-retry-has-new-id",
    "client-answers-inputs",
    "client-state-for-its-request-alone",
    "client-known-method",
];

#[tokio::test(start_paused = true)]
async fn our_client_is_clean_over_a_stream() {
    let report = over_a_stream(Era::Legacy).await;
    assert_eq!(failed_rules(&report), [""; 0], "{report:#?}");
    all_passed(&report, &LEGACY);
    all_passed(&report, &["client-only-messages", "client-closes-input"]);
    let report = over_a_stream(Era::Modern).await;
    assert_eq!(failed_rules(&report), [""; 0], "{report:#?}");
    all_passed(&report, &MODERN);
    all_passed(&report, &["client-only-messages", "client-cancels-what-is-under-way"]);
}

#[tokio::test]
async fn our_client_is_clean_over_http() {
    let report = over_http(Era::Legacy).await;
    assert_eq!(failed_rules(&report), [""; 0], "{report:#?}");
    all_passed(&report, &LEGACY);
    all_passed(
        &report,
        &[
            "client-accepts-both",
            "client-get-accepts-events",
            "client-sends-session-id",
            "client-ends-session",
            "client-version-header",
            "client-version-header-negotiated",
        ],
    );
    let report = over_http(Era::Modern).await;
    assert_eq!(failed_rules(&report), [""; 0], "{report:#?}");
    all_passed(&report, &MODERN);
    all_passed(
        &report,
        &[
            "client-version-header-agrees",
            "client-method-header",
            "client-name-header",
            "client-param-headers",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn our_client_leaves_a_server_whose_version_it_does_not_know() {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let looking = ClientValidator::new(server()).refusing().serve(link(ours), pending());
    let connecting = Client::builder("worker", "1").era(EraChoice::Only(Era::Legacy)).connect(link(theirs));
    let (trace, connected) = tokio::join!(looking, connecting);
    assert!(connected.is_err());
    let report = checked(&trace);
    assert_eq!(failed_rules(&report), [""; 0]);
    all_passed(&report, &["client-leaves-unknown-version"]);
}
