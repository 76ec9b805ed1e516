//! Faults of Streamable HTTP in the modern era: headers, statuses, streams of one request, features of earlier revisions.

use ::http::request::Parts;
use ::http::{HeaderValue, Method};

use super::super::fault::{HTTP, Of, Row, edited, modern};
use super::super::front::{Raw, full};
use super::http::header;

const LIST: &str = "tools/list";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const VERSION: &str = "mcp-protocol-version";
const DISCOVER: &str = "server/discover";

pub(super) fn rows() -> Vec<Row> {
    let rows =
        [headers(), names(), params(), statuses(), earlier(), streams(), tools()].into_iter().flatten();
    rows.map(|row| row.over(HTTP)).collect()
}

/// Sets a header if the request is one of the modern era with a complete `_meta`.
fn set(head: &mut Parts, body: &str, name: &'static str, value: &'static str) {
    if body.contains("\"server/discover\"") && body.contains("/protocolVersion\":\"2026-07-28\"") {
        head.headers.insert(name, HeaderValue::from_static(value));
    }
}

/// A wrong method header that `of` accepts is treated as the right one.
fn taken(rule: &'static str, of: fn(&Parts) -> bool) -> Row {
    modern(rule).before(move |head, body| {
        if of(head) {
            set(head, body, METHOD, DISCOVER);
        }
    })
}

/// A request whose head contains these bytes is refused.
fn refused(rule: &'static str, bytes: &'static [u8]) -> Row {
    modern(rule).instead(move |head, body| {
        let Raw(raw) = head.extensions.get()?;
        raw.windows(bytes.len()).any(|window| window == bytes).then(|| {
            let error = edited(body, |request| {
                let error = serde_json::json!({"code": -32020, "message": "no Mcp-Method"});
                *request = serde_json::json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
            });
            full(400, "application/json", &error)
        })
    })
}

fn headers() -> Vec<Row> {
    vec![
        modern("version-header-required").of(Of::ModernAlone).in_both().before(|head, body| {
            if !head.headers.contains_key(VERSION) {
                set(head, body, VERSION, "2026-07-28");
            }
        }),
        modern("version-header-agrees").before(|head, body| {
            if header(&head.headers, VERSION) == Some("2025-11-25") {
                set(head, body, VERSION, "2026-07-28");
            }
        }),
        taken("method-header-required", |head| !head.headers.contains_key(METHOD)),
        taken("method-header-agrees", |head| header(&head.headers, METHOD) == Some(LIST)),
        taken("header-values-keep-letters", |head| header(&head.headers, METHOD) == Some("SERVER/DISCOVER")),
        refused("header-names-any-letters", b"Mcp-Method"),
        refused("header-space-dropped", b"\t server/discover"),
    ]
}

fn names() -> Vec<Row> {
    const NO_PROMPT: &str = "mcpjoin-no-such-prompt";
    fn named(rule: &'static str, of: fn(&Parts) -> bool, name: &'static str) -> Row {
        modern(rule).before(move |head, body| {
            if body.contains("\"prompts/get\"") && of(head) {
                head.headers.insert(NAME, HeaderValue::from_static(name));
            }
        })
    }
    vec![
        named("name-header-required", |head| !head.headers.contains_key(NAME), NO_PROMPT),
        named(
            "name-header-agrees",
            |head| header(&head.headers, NAME) == Some("mcpjoin-no-other-prompt"),
            NO_PROMPT,
        ),
        named("name-header-agrees", |head| header(&head.headers, NAME) == Some("=?base64?%%%?="), NO_PROMPT),
        named(
            "name-header-decoded",
            |head| header(&head.headers, NAME).is_some_and(|name| name.starts_with("=?base64?b")),
            "another name",
        ),
    ]
}

/// Changes the headers of arguments.
fn param(rule: &'static str, body: &'static str, change: fn(&str, &str) -> Option<[&'static str; 2]>) -> Row {
    const PARAMS: [&str; 2] = ["mcp-param-region", "mcp-param-count"];
    modern(rule).of(Of::Small).reads().before(move |head, text| {
        if !text.contains("\"routed\"") || !text.contains(body) {
            return;
        }
        let [region, count] = PARAMS.map(|name| header(&head.headers, name).unwrap_or_default().to_owned());
        for (name, value) in
            change(&region, &count).into_iter().flat_map(|values| PARAMS.into_iter().zip(values))
        {
            head.headers.insert(name, HeaderValue::from_static(value));
        }
    })
}

fn params() -> Vec<Row> {
    const GIVEN: &str = "\"region\":\"mcpjoin\"";
    const RIGHT: Option<[&str; 2]> = Some(["mcpjoin", "1"]);
    const WRONG: Option<[&str; 2]> = Some(["another", "2"]);
    vec![
        // Wrong values are treated as the right ones.
        param("param-header-required", GIVEN, |region, _| RIGHT.filter(|_| region.is_empty())),
        param("param-header-agrees", GIVEN, |region, _| RIGHT.filter(|_| region == "mcpjoin-another-value")),
        param("param-header-valid", GIVEN, |region, _| RIGHT.filter(|_| region.starts_with("=?base64?%%"))),
        // Right values are treated as wrong ones.
        param("param-header-decoded", GIVEN, |region, _| WRONG.filter(|_| region.starts_with("=?base64?b"))),
        param("param-header-as-number", GIVEN, |_, count| WRONG.filter(|_| count == "1.0")),
        param("param-header-not-expected", "\"region\":null", |_, _| WRONG),
    ]
}

fn statuses() -> Vec<Row> {
    fn fine(rule: &'static str, code: &'static str) -> Row {
        modern(rule).after(move |_, status, _, body| {
            if body.contains(code) {
                *status = 200;
            }
        })
    }
    vec![
        fine("unsupported-version-status", "-32022"),
        fine("missing-meta-status", "-32602"),
        fine("unknown-method-status", "-32601"),
        fine("missing-client-capability-status", "-32021").call("test_missing_capability", "{}"),
    ]
}

fn earlier() -> Vec<Row> {
    const SESSION: &str = "mcp-session-id";
    vec![
        modern("no-session-given").of(Of::ModernAlone).in_both().after(|_, _, headers, _| {
            _ = headers.insert(SESSION, HeaderValue::from_static("a"));
        }),
        modern("earlier-headers-ignored").of(Of::ModernAlone).in_both().instead(|head, _| {
            head.headers.contains_key(SESSION).then(|| full(404, "text/plain", "no such session"))
        }),
        modern("earlier-methods-refused")
            .of(Of::ModernAlone)
            .in_both()
            .instead(|head, _| (head.method != Method::POST).then(|| full(404, "text/plain", "not here"))),
    ]
}

fn streams() -> Vec<Row> {
    const PING: &str = r#"{"jsonrpc":"2.0","id":"s","method":"ping"}"#;
    const PROGRESS: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":1}}"#;
    vec![
        ended(),
        modern("streams-not-buffered")
            .change(|it| it.head = std::sync::Arc::new(|headers| _ = headers.remove("x-accel-buffering"))),
        modern("no-request-on-stream").ahead(LIST, &[PING]),
        modern("notifications-relate").ahead(LIST, &[PROGRESS]),
        modern("listen-acknowledged").frame(|frame| {
            frame.replace("notifications/subscriptions/acknowledged", "notifications/tools/list_changed")
        }),
        modern("listen-acknowledged").frame(|frame| {
            frame.replace("modelcontextprotocol/subscriptionId", "modelcontextprotocol/subscription")
        }),
        modern("listen-filtered").frame(|frame| {
            frame
                .replace("\"toolsListChanged\":true", "\"toolsListChanged\":true,\"promptsListChanged\":true")
        }),
    ]
}

/// A stream of change notifications that ends right after it has opened.
fn ended() -> Row {
    modern("listen-closed-in-order").instead(|_, body| {
        let request: serde_json::Value = serde_json::from_str(body).ok()?;
        (request["method"] == "subscriptions/listen").then(|| {
            let wanted = &request["params"]["notifications"];
            let meta = serde_json::json!({"io.modelcontextprotocol/subscriptionId": request["id"]});
            let told = serde_json::json!({
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": wanted, "_meta": meta},
            });
            let mut reply = full(200, "text/event-stream", &format!("data: {told}\n\n"));
            reply.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
            reply
        })
    })
}

fn tools() -> Vec<Row> {
    vec![modern("header-marks-valid").answer(LIST, |reply| {
        edited(&reply, |reply| {
            let properties = &mut reply["result"]["tools"][0]["inputSchema"]["properties"];
            let (_, property) = properties.as_object_mut().unwrap().iter_mut().next().unwrap();
            property["x-mcp-header"] = "no name of a header".into();
        })
    })]
}
