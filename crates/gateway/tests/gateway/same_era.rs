//! Tests of a client and a server of the same era: messages pass byte for byte in both directions.

use std::time::Duration;

use serde_json::json;

use super::pools::Person;
use super::{DISCOVERED, INITIALIZE, Servers, client, legacy, modern_request, open_modern, run};
use mcpjoin_gateway::Gateway;

const ODD: &str = r#"{ "n" : [1e400,-0,1e-400,0.10,12345678901234567890123,NINES] ,"é":"\u00e9\/","_meta":{"com.example/k":{"v":-0.0}},"unknown":null}"#;

/// Parameters that decoding and encoding would change.
fn odd() -> String {
    ODD.replace("NINES", &"9".repeat(10_000))
}

#[test]
fn b41_b52_what_a_legacy_client_asks_and_gets_crosses_to_the_byte() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| builder).await;
        let odd = odd();
        for (number, method) in [
            "tools/call",
            "tools/list",
            "com.example/unknown",
            "completion/complete",
            "tasks/get",
            "resources/subscribe",
        ]
        .into_iter()
        .enumerate()
        {
            let ours = number + 2;
            client
                .say(&format!(r#"{{"jsonrpc":"2.0","id":"a{number}","method":"{method}","params":{odd}}}"#))
                .await;
            server
                .expects(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"method":"{method}","params":{odd}}}"#))
                .await;
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{odd}}}"#)).await;
            client.expects(&format!(r#"{{"jsonrpc":"2.0","id":"a{number}","result":{odd}}}"#)).await;
        }
        // No parameters stay none, and an error keeps its code, its message and its data.
        client.say(r#"{"jsonrpc":"2.0","id":-0,"method":"prompts/list"}"#).await;
        server.expects(r#"{"jsonrpc":"2.0","id":8,"method":"prompts/list"}"#).await;
        let error = format!(r#"{{"code":-32002,"message":"näh","data":{odd}}}"#);
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":8,"error":{error}}}"#)).await;
        client.expects(&format!(r#"{{"jsonrpc":"2.0","id":-0,"error":{error}}}"#)).await;
    });
}

/// rmcp 2 agrees to every version, also to one that has no `initialize`.
#[test]
fn a_version_that_cannot_be_opened_with_initialize_is_not_offered_to_a_server() {
    run(async {
        for offered in ["2026-07-28", "2099-01-01"] {
            let (mut servers, start) = Servers::set();
            let gateway = Gateway::builder(start).build();
            let (mut client, _served) = client(&gateway);
            client.say(&INITIALIZE.replace("2025-06-18", offered)).await;
            let mut server = servers.next().await;
            assert_eq!(server.value().await["params"]["protocolVersion"], "2025-11-25", "{offered}");
        }
    });
}

#[test]
fn b41_b52_requests_and_notifications_of_a_legacy_server_pass_byte_for_byte() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| builder).await;
        let odd = odd();
        for (number, method) in
            ["elicitation/create", "sampling/createMessage", "roots/list", "com.example/unknown"]
                .into_iter()
                .enumerate()
        {
            let ours = number + 1;
            server
                .say(&format!(r#"{{"jsonrpc":"2.0","id":"s{number}","method":"{method}","params":{odd}}}"#))
                .await;
            client
                .expects(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"method":"{method}","params":{odd}}}"#))
                .await;
            client.say(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{odd}}}"#)).await;
            server.expects(&format!(r#"{{"jsonrpc":"2.0","id":"s{number}","result":{odd}}}"#)).await;
        }
        for method in [
            "notifications/message",
            "notifications/tools/list_changed",
            "notifications/resources/updated",
            "notifications/com.example/unknown",
            "notifications/elicitation/complete",
        ] {
            let told = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{odd}}}"#);
            server.say(&told).await;
            client.expects(&told).await;
        }
        for method in ["notifications/roots/list_changed", "notifications/com.example/unknown"] {
            let told = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{odd}}}"#);
            client.say(&told).await;
            server.expects(&told).await;
        }
        let error = format!(r#"{{"code":-1,"message":"no","data":{odd}}}"#);
        server.say(r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#).await;
        client.say(&format!(r#"{{"jsonrpc":"2.0","id":5,"error":{error}}}"#)).await;
        server.expects(&format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#)).await;
    });
}

#[test]
fn progress_keeps_its_members_and_gets_the_name_that_its_asker_gave() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| builder).await;
        client
            .say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"x":1.0, "progressToken" : "p\u0041","y":[]}}}"#)
            .await;
        server
            .expects(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","_meta":{"x":1.0, "progressToken" : 2,"y":[]}}}"#)
            .await;
        // Progress that does not grow, is out of range or has unknown members is forwarded.
        for progress in ["1e400", "5", "5"] {
            server
                .say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":{progress},"progressToken":2,"eta":-0}}}}"#))
                .await;
            client
                .expects(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":{progress},"progressToken":"pA","eta":-0}}}}"#))
                .await;
        }
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
        // The opposite direction, for a request of the server.
        server
            .say(r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"progressToken":77}}}"#)
            .await;
        client
            .expects(r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"progressToken":1}}}"#)
            .await;
        client
            .say(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5,"z":1}}"#)
            .await;
        server
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":0.5,"z":1}}"#)
            .await;
    });
}

#[test]
fn who_cancels_is_understood_on_the_other_side_with_the_reason() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| builder).await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#).await;
        server.expects(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#).await;
        client
            .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"tired"}}"#)
            .await;
        server
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"tired"}}"#)
            .await;
        server.say(r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#).await;
        server
            .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#)
            .await;
        client
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
            .await;
        // Neither is answered, and both connections continue.
        client.say(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        client.say(r#"{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"odd"}}"#).await;
        server
            .expects(r#"{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"odd"}}"#)
            .await;
    });
}

#[test]
fn a_question_within_a_call_and_a_hundred_calls_at_once() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| builder).await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asks"}}"#).await;
        server.expects(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"asks"}}"#).await;
        server
            .say(r#"{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"message":"m"}}"#)
            .await;
        client
            .expects(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m"}}"#)
            .await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"x":1e400}}}"#).await;
        server
            .expects(r#"{"jsonrpc":"2.0","id":9,"result":{"action":"accept","content":{"x":1e400}}}"#)
            .await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"hologram","x":-0}]}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"hologram","x":-0}]}}"#).await;
        for number in 0..100 {
            client
                .say(&format!(
                    r#"{{"jsonrpc":"2.0","id":"n{number}","method":"tools/call","params":{{"n":{number}}}}}"#
                ))
                .await;
        }
        let mut asked = Vec::new();
        for _ in 0..100 {
            asked.push(server.value().await);
        }
        for request in asked.iter().rev() {
            server
                .say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": request["params"]}).to_string())
                .await;
        }
        for _ in 0..100 {
            let reply = client.value().await;
            assert_eq!(reply["id"], format!("n{}", reply["result"]["n"]));
        }
    });
}

#[test]
fn b41_b52_what_a_modern_client_asks_and_gets_crosses_to_the_byte() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let (mut client, _served) = client(&gateway);
        let odd = odd();
        let members = format!(r#""odd" :{odd},"#);
        client.say(&modern_request("\"d\"", "server/discover", "", "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.expects(&modern_request("2", "server/discover", "", "")).await;
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{DISCOVERED}}}"#)).await;
        client.expects(&format!(r#"{{"jsonrpc":"2.0","id":"d","result":{DISCOVERED}}}"#)).await;
        let results = [
            r#"{"resultType":"complete","n":1e400,"_meta":{"a":-0}}"#.to_owned(),
            r#"{"n":1e400}"#.to_owned(),
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"x/y","params":{"n":-0}}},"requestState":"s","later":1}"#.to_owned(),
            r#"{"resultType":"com.example/hologram","x":-0}"#.to_owned(),
            odd.clone(),
        ];
        for (number, result) in results.iter().enumerate() {
            let (method, ours) = (["tools/call", "com.example/x"][number % 2], number + 3);
            client.say(&modern_request(&format!("\"c{number}\""), method, &members, r#","x":1.0"#)).await;
            server.expects(&modern_request(&ours.to_string(), method, &members, r#","x":1.0"#)).await;
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{result}}}"#)).await;
            client.expects(&format!(r#"{{"jsonrpc":"2.0","id":"c{number}","result":{result}}}"#)).await;
        }
        let error = format!(r#"{{"code":-32021,"message":"no","data":{odd}}}"#);
        client.say(&modern_request("1", "tools/call", "", "")).await;
        server.expects(&modern_request("8", "tools/call", "", "")).await;
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":8,"error":{error}}}"#)).await;
        client.expects(&format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#)).await;
    });
}

#[test]
fn progress_logs_cancelling_and_streams_of_modern_peers() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let (mut client, _served) = client(&gateway);
        client
            .say(&modern_request(
                "1",
                "tools/call",
                "",
                r#","progressToken":"p","io.modelcontextprotocol/logLevel":"info""#,
            ))
            .await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server
            .expects(&modern_request(
                "2",
                "tools/call",
                "",
                r#","progressToken":2,"io.modelcontextprotocol/logLevel":"info""#,
            ))
            .await;
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1,"w":-0}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"w":-0}}"#).await;
        let log =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":1e400}}"#;
        server.say(log).await;
        client.expects(log).await;
        let unknown = r#"{"jsonrpc":"2.0","method":"notifications/com.example/x","params":{"v":-0}}"#;
        server.say(unknown).await;
        client.expects(unknown).await;
        client.say(unknown).await;
        server.expects(unknown).await;

        client
            .say(&modern_request(
                "\"sub\"",
                "subscriptions/listen",
                r#""notifications":{"toolsListChanged":true,"new":1},"#,
                "",
            ))
            .await;
        server
            .expects(&modern_request(
                "3",
                "subscriptions/listen",
                r#""notifications":{"toolsListChanged":true,"new":1},"#,
                "",
            ))
            .await;
        for method in [
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
            "notifications/com.example/y",
        ] {
            server.say(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"notifications":{{"new":1}},"_meta":{{"io.modelcontextprotocol/subscriptionId":3,"k":-0}}}}}}"#)).await;
            client.expects(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"notifications":{{"new":1}},"_meta":{{"io.modelcontextprotocol/subscriptionId":"sub","k":-0}}}}}}"#)).await;
        }
        // An acknowledged stream stays open for days without a message; a call ends after ten minutes.
        tokio::time::advance(Duration::from_secs(599)).await;
        server.say(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":2}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2}}"#).await;
        tokio::time::advance(Duration::from_secs(599)).await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}"#).await;

        client
            .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"sub"}}"#)
            .await;
        server
            .expects(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#)
            .await;
        client.say(&modern_request("\"again\"", "subscriptions/listen", r#""notifications":{},"#, "")).await;
        server.expects(&modern_request("4", "subscriptions/listen", r#""notifications":{},"#, "")).await;
        server.say(r#"{"jsonrpc":"2.0","id":4,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":4}}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":"again","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"again"}}}"#).await;
    });
}

#[test]
fn tools_that_are_not_for_clients_are_in_no_list_and_cannot_be_called() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) =
            legacy(|builder| builder.tools(|name| name != "secret")).await;
        client.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).await;
        server.expects(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
        server
            .say(r#"{"jsonrpc":"2.0","id":2,"result":{"x":-0,"tools":[{"name":"secret"}, {"n":1e400,"name":"a"},{"name":"s\u0065cret"},{"name":"b" }],"nextCursor":"c"}}"#)
            .await;
        client
            .expects(r#"{"jsonrpc":"2.0","id":1,"result":{"x":-0,"tools":[{"n":1e400,"name":"a"},{"name":"b" }],"nextCursor":"c"}}"#)
            .await;
        client.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"s\u0065cret"}}"#).await;
        client
            .expects(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown tool: secret"}}"#)
            .await;
        client.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}"#).await;
        server.expects(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}"#).await;
    });
}

#[test]
fn modern_clients_over_http_share_a_server_for_what_they_can_do_and_others_have_their_own() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let mut people = [0; 2].map(|_| Person::at(&gateway, "192.0.2.1:5"));
        for person in &mut people {
            person.say(modern_request("1", "a/b", "", "")).await;
        }
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        for _ in 0..2 {
            let request = server.value().await;
            server.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}).to_string()).await;
        }
        for person in &mut people {
            assert_eq!(person.next().await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        }
        assert_eq!(servers.starts(), 1);
        // A client at another address, or with its own connection, has another server.
        let mut far = Person::at(&gateway, "192.0.2.2:5");
        far.say(modern_request("1", "a/b", "", "")).await;
        let mut elsewhere = servers.next().await;
        open_modern(&mut elsewhere).await;
        let (mut one, _one) = client(&gateway);
        one.say(&modern_request("1", "a/b", "", "")).await;
        let mut own = servers.next().await;
        open_modern(&mut own).await;
        own.expects(&modern_request("2", "a/b", "", "")).await;
        // The same client with other capabilities has another server.
        let other = modern_request("2", "a/b", "", "").replace(r#""elicitation":{},"#, "");
        one.say(&other).await;
        let mut second = servers.next().await;
        open_modern(&mut second).await;
        second.expects(&other).await;
        assert_eq!(servers.starts(), 4);
        gateway.close().await;
        for server in [&mut server, &mut second] {
            assert_eq!(server.receive().await, None);
        }
    });
}

const UNKNOWN: &str = r#"{"jsonrpc":"2.0","method":"notifications/com.example/x"}"#;

fn error_log(data: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":"{data}"}}}}"#
    )
}

#[test]
fn what_a_shared_server_logs_reaches_a_call_that_was_alone_from_its_beginning_and_wants_it() {
    run(async {
        for principal in [None, Some("ada")] {
            let (mut servers, start) = Servers::set();
            let gateway = Gateway::builder(start).build();
            let person = || match principal {
                None => Person::at(&gateway, "192.0.2.1:5"),
                Some(principal) => Person::of(&gateway, principal),
            };
            let (mut one, mut two) = (person(), person());
            let level = r#","io.modelcontextprotocol/logLevel":"info""#;
            one.say(modern_request("1", "tools/call", "", level)).await;
            let mut server = servers.next().await;
            open_modern(&mut server).await;
            server.line().await;
            server.say(&error_log("one's")).await;
            assert_eq!(one.next().await["params"]["data"], "one's");
            // A log message below the level, and a notification that is no log message.
            server.say(&error_log("no").replace("error", "debug")).await;
            server.say(UNKNOWN).await;
            server.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
            // The second request wants log messages, too, so their request is unknown.
            two.say(modern_request("1", "tools/call", "", level)).await;
            server.line().await;
            server.say(&error_log("whose?")).await;
            server.say(UNKNOWN).await;
            server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
            assert_eq!(one.next().await["id"], 1);
            // A late message may still belong to the first request.
            server.say(&error_log("late")).await;
            server.say(UNKNOWN).await;
            server.say(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
            assert_eq!(two.next().await["id"], 1);
            one.say(modern_request("2", "tools/call", "", level)).await;
            server.line().await;
            server.say(&error_log("one's again")).await;
            assert_eq!(one.next().await["params"]["data"], "one's again");
        }
    });
}

#[test]
fn what_belongs_to_no_request_reaches_a_client_on_its_own_connection_once() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let (mut client, _served) = client(&gateway);
        for id in ["1", "2"] {
            client.say(&modern_request(id, "tools/call", "", "")).await;
        }
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        server.line().await;
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        for said in [UNKNOWN, changed, UNKNOWN] {
            server.say(said).await;
            client.expects(said).await;
        }
        for (theirs, ours) in [(2, 1), (3, 2)] {
            server.say(&format!(r#"{{"jsonrpc":"2.0","id":{theirs},"result":{{}}}}"#)).await;
            client.expects(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{{}}}}"#)).await;
        }
        // It is also delivered without a request in flight.
        server.say(changed).await;
        client.expects(changed).await;
    });
}

#[test]
fn notifications_over_http_reach_no_server_for_it_is_not_known_whose() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let mut person = Person::at(&gateway, "192.0.2.1:5");
        person.say(modern_request("1", "a/b", "", "")).await;
        let mut server = servers.next().await;
        open_modern(&mut server).await;
        server.line().await;
        person.say(UNKNOWN.into()).await;
        person.say(modern_request("2", "a/b", "", "")).await;
        assert_eq!(server.value().await["method"], "a/b");
    });
}

#[test]
fn a_server_that_had_to_make_room_is_another_one_for_the_next_request() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).build();
        let of = |kind: usize, id: usize, method: &str, members: &str| {
            let name = format!(r#""name":"c{kind}""#);
            modern_request(&id.to_string(), method, members, "").replace(r#""name":"c""#, &name)
        };
        // The oldest pool has an open stream, and the next one is unused.
        let (mut client, _served) = client(&gateway);
        client.say(&of(0, 99, "subscriptions/listen", r#""notifications":{},"#)).await;
        let mut listened = servers.next().await;
        open_any(&mut listened).await;
        listened.line().await;
        let mut running = Vec::new();
        for kind in 1..=16 {
            client.say(&of(kind, kind, "a/b", "")).await;
            let mut server = servers.next().await;
            open_any(&mut server).await;
            server.line().await;
            server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
            client.line().await;
            running.push(server);
        }
        assert_eq!(running[0].receive().await, None);
        client.say(&of(1, 98, "a/b", "")).await;
        let mut server = servers.next().await;
        open_any(&mut server).await;
        server.line().await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","id":98,"result":{}}"#).await;
        listened.say(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}"#).await;
        client.expects(r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":99}}}"#).await;
    });
}

async fn open_any(server: &mut super::Raw) {
    let probe = server.value().await;
    assert_eq!(probe["method"], "server/discover");
    let discovered = DISCOVERED.replace("1e3", "1000");
    server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{discovered}}}"#)).await;
}

const LOG: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"NUMBER"}}"#;
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;

#[test]
fn notifications_before_a_result_arrive_before_it() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| builder).await;
        client.say(CALL).await;
        server.expects(CALL).await;
        let said = [LOG, CHANGED, LOG, CHANGED, RESULT];
        server.say(&said.join("\n")).await;
        for line in said {
            client.expects(line).await;
        }
    });
}

#[test]
fn a_client_that_reads_nothing_holds_its_server_up_and_loses_nothing() {
    run(async {
        let (_gateway, mut client, mut server, _servers, _served) = legacy(|builder| builder).await;
        client.say(CALL).await;
        server.expects(CALL).await;
        // More than is ever buffered for a peer.
        let told = |number: usize| LOG.replace("NUMBER", &format!("{number:02}").repeat(256 * 1024));
        let telling = tokio::spawn(async move {
            for number in 0..24 {
                server.say(&told(number)).await;
            }
            server.say(RESULT).await;
            server
        });
        for _ in 0..2000 {
            tokio::task::yield_now().await;
        }
        assert!(!telling.is_finished(), "everything was taken from a server whose client takes nothing");
        for number in 0..24 {
            assert!(client.line().await == told(number), "the message {number} is not the next");
        }
        client.expects(RESULT).await;
        telling.await.unwrap();
    });
}
