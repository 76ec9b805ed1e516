//! Tests of the protocol requirements for every server that do not depend on HTTP.

use serde_json::{Value, json};

use super::{ERAS, Wire, meta, run, server, silent};

#[test]
fn server_initialize() {
    run(async {
        let mut wire = Wire::legacy(&server()).await;
        let result = wire.received[0]["result"].clone();
        assert_eq!(result["protocolVersion"], "2025-11-25");
        assert_eq!(result["serverInfo"]["name"], "mcpjoin-demo");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["instructions"].is_string());
        let mut capabilities = capabilities();
        // The tasks of the modern era are an extension, and those of a legacy session are a capability.
        capabilities.as_object_mut().unwrap().remove("extensions");
        capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        assert_eq!(result["capabilities"], capabilities);
        wire.is_silent().await;
    });
}

fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true }, "prompts": { "listChanged": true }, "resources": { "subscribe": true },
        "completions": {}, "logging": {}, "extensions": { "io.modelcontextprotocol/tasks": {} }
    })
}

#[test]
fn ping() {
    run(async {
        let mut wire = Wire::legacy(&server()).await;
        assert_eq!(wire.result("ping", json!({})).await, json!({}));
    });
}

#[test]
fn server_stateless_discover() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        let result = wire.result("server/discover", json!({})).await;
        assert_eq!(result["capabilities"], capabilities());
        assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "mcpjoin-demo");
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            wire.result(method, json!({})).await;
        }
    });
}

#[test]
fn server_stateless_meta_is_checked() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        wire.result("tools/list", json!({})).await;
        let without = |member: &str| {
            let mut meta = meta(json!({}));
            meta.as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{member}"));
            Some(meta)
        };
        wire.says(None);
        assert_eq!(wire.code("tools/list", json!({})).await, -32602);
        for member in ["protocolVersion", "clientCapabilities"] {
            wire.says(without(member));
            assert_eq!(wire.code("tools/list", json!({})).await, -32602, "{member}");
        }
        wire.says(without("clientInfo"));
        wire.result("tools/list", json!({})).await;
        let mut unknown = meta(json!({}));
        unknown["io.modelcontextprotocol/protocolVersion"] = json!("1999-01-01");
        wire.says(Some(unknown));
        let answer = wire.ask("tools/list", json!({})).await;
        assert_eq!(answer["error"]["code"], -32022);
        assert!(
            answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")),
            "{answer}"
        );
    });
}

#[test]
fn server_stateless_removed_and_unknown_methods() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        wire.result("tools/list", json!({})).await;
        for method in
            ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "unknown/method"]
        {
            assert_eq!(wire.code(method, json!({})).await, -32601, "{method}");
        }
    });
}

#[test]
fn caching() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        for (method, params) in [
            ("tools/list", json!({})),
            ("prompts/list", json!({})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({ "uri": "test://static-text" })),
        ] {
            let result = wire.result(method, params).await;
            assert!(result["ttlMs"].is_u64(), "{method}: {result}");
            assert!(
                ["public", "private"].map(|scope| json!(scope)).contains(&result["cacheScope"]),
                "{method}"
            );
        }
    });
}

#[test]
fn one_server_serves_both_eras_at_once() {
    run(async {
        let server = server();
        let mut legacy = Wire::legacy(&server).await;
        let mut modern = Wire::modern(&server, json!({}));
        for _ in 0..3 {
            for wire in [&mut legacy, &mut modern] {
                assert_eq!(wire.call("echo", json!({ "message": "m" })).await["content"][0]["text"], "m");
            }
        }
        for era in ERAS {
            silent(era).await.close().await;
        }
    });
}
