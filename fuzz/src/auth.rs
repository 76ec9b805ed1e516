//! Fuzz target of a server's authorization data: no text makes a parser panic; challenges survive a round trip; a document
//! has the values that serde_json reads; and every URL that is built stays at its origin.

use std::collections::HashMap;

use crate::Input;
use mcpjoin_proto::http::challenge::Challenge;
use mcpjoin_proto::http::origin::{Origin, same_origin};
use mcpjoin_proto::http::resource::{authorization_server_urls, canonical, covers, protected_resource_urls};
use serde_json::Value;
use serde_json::value::RawValue;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "it is a module of mcpjoin, read here without all that hangs on it"
)]
#[path = "../../crates/auth/src/metadata.rs"]
mod metadata;

use metadata::{AuthorizationServer, ProtectedResource};

/// The longest part of a header that is read.
const HEADER_BYTES: usize = 16 * 1024;

pub(crate) fn run(data: &[u8]) {
    challenges(data);
    documents(data);
    let mut input = Input::new(data);
    let (first, second) = (input.line(), input.line());
    if let (Ok(first), Ok(second)) = (std::str::from_utf8(first), std::str::from_utf8(second)) {
        urls(first, second);
    }
}

fn challenges(value: &[u8]) {
    let found = Challenge::parse(value);
    assert!(found.len() <= 32);
    let written = found.iter().map(written).collect::<Vec<_>>().join(", ");
    if written.len() <= HEADER_BYTES {
        assert_eq!(Challenge::parse(written.as_bytes()), found, "{written}");
    }
    let twice = Challenge::all([value, value]);
    assert_eq!(twice[..found.len()], found);
}

fn written(challenge: &Challenge) -> String {
    assert!(challenge.parameters.len() <= 32);
    let token68 = challenge.token68.iter().cloned();
    let parameters = challenge.parameters.iter().map(|(name, value)| {
        assert!(challenge.parameter(name).is_some() || value.is_empty());
        format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    });
    let parts: Vec<String> = token68.chain(parameters).collect();
    format!("{} {}", challenge.scheme, parts.join(", "))
}

fn documents(body: &[u8]) {
    // Only the compared members: serde_json rejects numbers outside the range of f64, and other members may have some.
    let members =
        || serde_json::from_slice::<HashMap<String, &RawValue>>(body).expect("what is read is a JSON object");
    let member = |name: &str| {
        let raw = members().get(name).copied();
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
    };
    if let Ok(read) = ProtectedResource::parse(body.to_vec()) {
        assert_eq!(member("resource").as_str(), Some(&*read.resource));
        let servers = member("authorization_servers").as_array().map_or(0, Vec::len);
        assert_eq!(servers, read.authorization_servers.len());
        urls(&read.resource, read.authorization_servers.first().map_or("", String::as_str));
    }
    if let Ok(read) = AuthorizationServer::parse(body.to_vec()) {
        assert_eq!(member("issuer").as_str(), Some(&*read.issuer));
        let methods = member("code_challenge_methods_supported");
        assert_eq!(
            methods.as_array().is_some_and(|all| all.iter().any(|one| one == "S256")),
            read.supports_s256()
        );
        urls(&read.issuer, read.token_endpoint.as_deref().unwrap_or_default());
    }
}

fn urls(first: &str, second: &str) {
    let mut built = protected_resource_urls(first);
    built.extend(authorization_server_urls(first));
    built.extend(canonical(first));
    for url in &built {
        assert!(same_origin(url, first), "{url} of {first}");
    }
    assert_eq!(protected_resource_urls(first).is_empty(), Origin::of(first).is_err());
    if let Some(canonical) = canonical(first) {
        assert_eq!(covers(&canonical, first), covers(&canonical, &canonical), "{canonical} of {first}");
    }
    if covers(first, second) {
        assert!(same_origin(first, second));
        let below = format!("{}/x", second.split(['?', '#']).next().unwrap_or_default());
        assert!(first.contains('?') || covers(first, &below), "{first} covers {second}, and not {below}");
    }
}
