//! Each bound that concerns the transport, set to 1, or as low as it goes.

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::Ask;
use serde_json::json;

use crate::by_hand::{Wire, connect, modern};
use crate::{BOTH, Gate, Up, arguments, builder, limits, run, text};

#[test]
fn with_one_stream_for_requests_they_go_one_after_the_other() {
    run(async {
        for era in BOTH {
            let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
            let link = up.link().streams(1).await.unwrap();
            let client = Client::builder("c", "1").ask(Ask::Only(era)).connect(link).await.unwrap();
            let calls: Vec<_> = (0..50)
                .map(|n| {
                    let client = client.clone();
                    let said = arguments(&json!({"text": n.to_string()}));
                    tokio::spawn(async move { (n, client.call_tool("echo", said).await) })
                })
                .collect();
            for call in calls {
                let (n, outcome) = call.await.unwrap();
                assert_eq!(text(&outcome.unwrap()), n.to_string(), "{era:?}");
            }
            client.close().await;
        }
    });
}

#[test]
fn a_message_limit_of_1_refuses_everything_and_says_so() {
    run(async {
        let server = builder(&Gate::default()).limits(limits(|limits| limits.message = 1)).build().unwrap();
        let up = Up::new(server).await;
        let (connection, _session) = connect(&up).await;
        let mut wire = Wire::open(&connection).await;
        // The server stops to read as soon as it knows.
        let _ = wire.send.write_all(format!("{}\n", modern(1, "tools/list", json!({}))).as_bytes()).await;
        assert_eq!(wire.send.stopped().await.unwrap().map(quinn::VarInt::into_inner), Some(3));
    });
}

#[test]
fn an_answer_above_the_limit_of_the_client_fails_its_call_and_no_other() {
    run(async {
        for era in BOTH {
            let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
            let builder =
                Client::builder("c", "1").ask(Ask::Only(era)).limits(limits(|l| l.message = 20_000));
            let client = builder.connect(up.link().await.unwrap()).await.unwrap();
            let error = client.call_tool("size", arguments(&json!({"bytes": 500_000}))).await.unwrap_err();
            assert!(error.to_string().contains("20000"), "{era:?}: {error}");
            let small = client.call_tool("size", arguments(&json!({"bytes": 5}))).await.unwrap();
            assert_eq!(text(&small), "xxxxx");
            client.close().await;
        }
    });
}

#[test]
fn many_large_answers_at_once_come_one_after_the_other_and_all_of_them() {
    run(async {
        let up = Up::new(builder(&Gate::default()).build().unwrap()).await;
        let client = up.client(Era::Modern).await;
        let calls: Vec<_> = (0..40)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(
                    async move { client.call_tool("size", arguments(&json!({"bytes": 600_000}))).await },
                )
            })
            .collect();
        for call in calls {
            assert_eq!(text(&call.await.unwrap().unwrap()).len(), 600_000);
        }
        client.close().await;
    });
}
