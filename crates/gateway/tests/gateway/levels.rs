//! Tests of the log levels of modern clients in front of legacy servers.

use std::time::Duration;

use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin_gateway::Gateway;
use serde_json::json;
use tokio::time::Instant;

use super::{Servers, client, modern_request, run};

const LEVEL: &str = r#","io.modelcontextprotocol/logLevel":"warning""#;

#[test]
fn a_server_gets_a_level_if_it_logs_and_a_request_wants_log_messages() {
    run(async {
        for (capabilities, level, is_told) in [
            (json!({ "tools": {} }), LEVEL, false),
            (json!({ "tools": {}, "logging": {} }), "", false),
            (json!({ "tools": {}, "logging": {} }), LEVEL, true),
        ] {
            for method in ["tools/call", "tools/list"] {
                let (mut servers, start) = Servers::set();
                let gateway = Gateway::builder(start).era(EraChoice::Only(Era::Legacy)).build();
                let (mut client, _served) = client(&gateway);
                client.say(&modern_request("1", method, "", level)).await;
                let mut server = servers.next().await;
                let id = server.value().await["id"].clone();
                let info = json!({ "name": "s", "version": "1" });
                let result = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info });
                server.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
                assert_eq!(server.value().await["method"], "notifications/initialized");
                let mut asked = server.value().await;
                if is_told {
                    assert_eq!(asked["method"], "logging/setLevel");
                    assert_eq!(asked["params"], json!({ "level": "warning" }));
                    server
                        .say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} }).to_string())
                        .await;
                    asked = server.value().await;
                }
                assert_eq!(asked["method"], method, "{capabilities} {level}");
                server.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} }).to_string()).await;
                assert_eq!(client.value().await["id"], 1);
            }
        }
    });
}

#[test]
fn a_server_that_does_not_take_a_level_delays_a_call_by_five_seconds() {
    run(async {
        let (mut servers, start) = Servers::set();
        let gateway = Gateway::builder(start).era(EraChoice::Only(Era::Legacy)).build();
        let (mut client, _served) = client(&gateway);
        client.say(&modern_request("1", "tools/call", "", LEVEL)).await;
        let mut server = servers.next().await;
        let id = server.value().await["id"].clone();
        let info = json!({ "name": "s", "version": "1" });
        let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {}, "logging": {} }, "serverInfo": info });
        server.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
        assert_eq!(server.value().await["method"], "notifications/initialized");
        assert_eq!(server.value().await["method"], "logging/setLevel");
        let asked = Instant::now();
        assert_eq!(server.value().await["method"], "notifications/cancelled");
        assert_eq!(server.value().await["method"], "tools/call");
        assert_eq!(asked.elapsed().as_millis(), Duration::from_secs(5).as_millis());
    });
}
