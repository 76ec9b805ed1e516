//! Tests of the records of requests, and of the state of a target.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::Restart;
use mcpjoin_gateway::{
    CallOutcome, CallRecord, Gateway, GatewayBuilder, GatewayEvent, Policy, SharedPolicy, TargetState,
};
use serde_json::json;

use super::{INITIALIZE, Raw, Servers, client, legacy, modern_request, open_modern, run};

/// The records of a gateway, and the number of requests that have arrived.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<(Vec<CallRecord>, usize)>>);

impl Records {
    fn of(&self, builder: GatewayBuilder) -> GatewayBuilder {
        let records = self.0.clone();
        builder.record_calls().on_event(move |event| {
            let mut records = records.lock().unwrap();
            match event {
                GatewayEvent::Calling { target } => {
                    assert_eq!(*target, "server");
                    records.1 += 1;
                }
                GatewayEvent::Called(record) => records.0.push((*record).clone()),
                _ => {}
            }
        })
    }

    /// The records since the last call. Asserts that each request that has arrived has one.
    fn take(&self) -> Vec<CallRecord> {
        let mut records = self.0.lock().unwrap();
        assert_eq!(records.1, records.0.len(), "a request without a record, or with two");
        records.1 = 0;
        std::mem::take(&mut records.0)
    }
}

fn call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"a":[1.0]}}}}}}"#
    )
}

/// The server answers its next request with this member.
async fn answer(server: &mut Raw, member: &str) {
    let id = server.value().await["id"].clone();
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#)).await;
}

#[test]
fn each_request_of_a_legacy_client_has_one_record_with_its_outcome() {
    run(async {
        let records = Records::default();
        let (_gateway, mut client, mut server, _servers, _served) =
            legacy(|builder| records.of(builder)).await;
        for (member, outcome) in [
            (r#""result":{"content":[]}"#, CallOutcome::Ok),
            (r#""result":{"content":[],"isError":true}"#, CallOutcome::ToolError),
            (r#""result":{"content":[],"isError":false}"#, CallOutcome::Ok),
            (r#""result":{"content":[],"structuredContent":{"isError":true}}"#, CallOutcome::Ok),
            (r#""error":{"code":-32602,"message":"no"}"#, CallOutcome::Error { code: -32602 }),
            // Some servers say so of a tool that they do not have.
            (r#""error":{"code":-32601,"message":"no"}"#, CallOutcome::Error { code: -32601 }),
            // A server cannot say that the gateway has refused a request.
            (
                r#""error":{"code":-1,"message":"no","data":{"gateway":"tooManyServers"}}"#,
                CallOutcome::Error { code: -1 },
            ),
        ] {
            client.say(&call("7", "t")).await;
            let id = server.value().await["id"].clone();
            tokio::time::advance(Duration::from_millis(250)).await;
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#)).await;
            client.value().await;
            let [record] = &*records.take() else { panic!("one record for {member}") };
            assert_eq!(record.outcome, outcome, "{member}");
            assert_eq!(record.subject().as_deref(), Some("t"));
            assert_eq!(record.arguments().unwrap().as_str(), r#"{"a":[1.0]}"#);
            assert_eq!((record.method.as_str(), &*record.target), ("tools/call", "server"));
            let info = record.client().unwrap();
            assert_eq!((&*info.name, &*info.version), ("c", "1"));
            assert_eq!((record.principal(), record.address()), (None, None));
            assert_eq!(record.bytes_in, r#"{"name":"t","arguments":{"a":[1.0]}}"#.len());
            let result = member.strip_prefix(r#""result":"#).map(str::len);
            assert!(result.is_none_or(|bytes| record.bytes_out == bytes), "{record:?}");
            assert!(!format!("{record:?}").contains("1.0"), "the arguments are shown: {record:?}");
            assert!(record.duration >= Duration::from_millis(250), "{record:?}");
        }
        client.say(r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#).await;
        answer(&mut server, r#""result":{"tools":[{"name":"a"},{"name":"b"},7]}"#).await;
        client.value().await;
        let [record] = &*records.take() else { panic!("one record") };
        assert_eq!(record.listed_tools(), ["a", "b"]);
        // The target has declared no prompts, and a method that it does not have is no error of it.
        for (id, method) in [(9, "prompts/list"), (10, "x/y")] {
            client.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)).await;
            answer(&mut server, r#""error":{"code":-32601,"message":"method not found"}"#).await;
            assert_eq!(client.value().await["error"]["code"], -32601);
            let [record] = &*records.take() else { panic!("one record") };
            assert_eq!((record.outcome, record.outcome.word()), (CallOutcome::Unsupported, "unsupported"));
        }
    });
}

#[test]
fn a_request_is_recorded_as_refused_if_the_gateway_has_refused_it_and_never_because_a_server_says_so() {
    run(async {
        let policy = |text| SharedPolicy::new(Policy::parse(Path::new("policy.toml"), text).unwrap());
        let outcome = |records: &Records| {
            let [record] = &*records.take() else { panic!("one record") };
            record.outcome
        };
        let records = Records::default();
        let kinds = [
            "tooManyServers",
            "tooManyStarts",
            "tooManyRequests",
            "tooManyWait",
            "noTurn",
            "questionRefused",
        ];
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| {
            records.of(builder).policy(policy("[limits]\nrequests_per_minute = 1\nburst = 6\n"))
        })
        .await;
        for kind in kinds {
            client.say(&call("7", "t")).await;
            let error = format!(r#""error":{{"code":-1,"message":"no","data":{{"gateway":"{kind}"}}}}"#);
            answer(&mut server, &error).await;
            assert_eq!(client.value().await["error"]["data"]["gateway"], kind);
            assert_eq!(outcome(&records), CallOutcome::Error { code: -1 }, "{kind}");
        }
        client.say(&call("7", "t")).await;
        assert_eq!(client.value().await["error"]["data"]["gateway"], "tooManyRequests");
        assert_eq!(outcome(&records), CallOutcome::Refused);
        // A question that the server may not ask.
        let (mut servers, start) = Servers::set();
        let builder = Gateway::builder(start).policy(policy("[target.server]\nsampling = false\n"));
        let gateway = records.of(builder).build();
        let (mut client, _served) = super::client(&gateway);
        client.say(&modern_request("1", "tools/call", r#""name":"t","#, "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        let question = r#"{"q":{"method":"sampling/createMessage","params":{}}}"#;
        let asks = format!(r#""result":{{"resultType":"input_required","inputRequests":{question}}}"#);
        answer(&mut server, &asks).await;
        assert_eq!(client.value().await["error"]["data"]["gateway"], "questionRefused");
        assert_eq!(outcome(&records), CallOutcome::Refused);
    });
}

#[test]
fn a_cancelled_request_has_one_record() {
    run(async {
        let records = Records::default();
        let (_gateway, mut client, mut server, _servers, _served) =
            legacy(|builder| records.of(builder)).await;
        client.say(&call("7", "t")).await;
        assert_eq!(server.value().await["method"], "tools/call");
        client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#).await;
        assert_eq!(server.value().await["method"], "notifications/cancelled");
        let [record] = &*records.take() else { panic!("one record") };
        assert_eq!((record.outcome, record.bytes_out), (CallOutcome::Cancelled, 0));
        // So has a request whose client leaves.
        client.say(&call("8", "t")).await;
        assert_eq!(server.value().await["method"], "tools/call");
        drop(client);
        while server.receive().await.is_some() {}
        let [record] = &*records.take() else { panic!("one record") };
        assert_eq!(record.outcome, CallOutcome::Cancelled);
    });
}

#[test]
fn each_request_of_a_modern_client_has_one_record_also_when_it_gets_no_server() {
    run(async {
        let records = Records::default();
        let (mut servers, start) = Servers::set();
        let gateway = records.of(Gateway::builder(start)).upstreams(1).tools(|tool| tool != "hidden").build();
        let (mut first, _served) = client(&gateway);
        first.say(&modern_request("1", "tools/call", r#""name":"t","#, "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        answer(&mut server, r#""result":{"resultType":"complete","content":[],"isError":true}"#).await;
        first.value().await;
        let [record] = &*records.take() else { panic!("one record") };
        assert_eq!(record.outcome, CallOutcome::ToolError);
        assert_eq!(record.client().map(|info| &*info.name), Some("c"));
        first.say(&modern_request("2", "tools/call", r#""name":"hidden","#, "")).await;
        first.value().await;
        let [record] = &*records.take() else { panic!("one record") };
        assert_eq!(record.outcome, CallOutcome::Error { code: -32602 });
        // The only server is in use.
        first.say(&modern_request("3", "tools/call", r#""name":"t","#, "")).await;
        assert_eq!(server.value().await["method"], "tools/call");
        let (mut second, _served) = client(&gateway);
        second.say(&modern_request("1", "tools/call", r#""name":"t","#, "")).await;
        let reply = second.value().await;
        assert_eq!(reply["error"]["data"], json!({"gateway": "tooManyServers", "limit": 1}));
        let records = records.0.lock().unwrap();
        let [record] = &*records.0 else { panic!("one record") };
        assert_eq!(record.outcome, CallOutcome::Refused);
    });
}

#[test]
fn without_being_asked_a_gateway_records_nothing() {
    run(async {
        let events = Arc::new(Mutex::new(0));
        let seen = events.clone();
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| {
            builder.on_event(move |event| {
                *seen.lock().unwrap() +=
                    usize::from(matches!(event, GatewayEvent::Calling { .. } | GatewayEvent::Called(_)));
            })
        })
        .await;
        client.say(&call("7", "t")).await;
        answer(&mut server, r#""result":{"content":[]}"#).await;
        client.value().await;
        assert_eq!(*events.lock().unwrap(), 0);
    });
}

#[test]
fn the_state_of_a_target_follows_its_servers_and_its_cause_has_no_secret() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start)
            .name("files")
            .restart(Restart::default().starts(2))
            .words(|text| text.replace("hunter2", "***"))
            .build();
        let target = || {
            let [target] = &*gateway.targets() else { panic!("one target") };
            assert_eq!(&*target.name, "files");
            target.clone()
        };
        let state = || target().state;
        assert_eq!((state(), gateway.running_servers(), gateway.sessions()), (TargetState::Idle, 0, 0));
        *servers.failing.lock().unwrap() = Some("no such program: hunter2");
        let (mut refused, _served) = client(&gateway);
        refused.say(INITIALIZE).await;
        refused.value().await;
        assert!(matches!(state(), TargetState::CoolingDown { .. }) && !state().is_ready(), "{:?}", state());
        assert_eq!(target().cause.as_deref(), Some("no such program: ***"));
        // The next server is started for a client, so clients must be accepted again.
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!((state(), target().cause.is_some()), (TargetState::Idle, true));
        *servers.failing.lock().unwrap() = None;
        let (mut client, served) = client(&gateway);
        client.say(INITIALIZE).await;
        let mut server = servers.next().await;
        assert_eq!(server.value().await["method"], "initialize");
        assert_eq!((state(), gateway.running_servers(), gateway.sessions()), (TargetState::Starting, 1, 1));
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, super::INITIALIZED_RESULT)).await;
        client.value().await;
        assert_eq!(state(), TargetState::Connected);
        drop(client);
        drop(server);
        served.await.unwrap();
        assert_eq!((gateway.running_servers(), gateway.sessions()), (0, 0));
        assert_ne!(state(), TargetState::Connected);
    });
}
