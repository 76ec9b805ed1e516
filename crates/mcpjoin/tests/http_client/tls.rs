//! Tests of a client over TLS: which certificates it trusts, and its errors for the others.

use mcpjoin::proto::session::TransportErrorReason;
use mcpjoin::transport::{HttpConnect, Link};

use crate::scripted::{Seen, builder, run};
use crate::tls_server::{self, CA, KEY};

/// A TLS server that answers `server/discover` as a modern server.
fn server(certificate: &[u8]) -> u16 {
    tls_server::server(certificate, KEY, |request| {
        let start = request.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let body = request[start..].to_vec();
        let seen = body.ends_with(b"}").then(|| Seen::of(String::from_utf8(body).unwrap()))?;
        let body = seen.result(&crate::scripted::discovered());
        Some(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    })
}

async fn connect(link: HttpConnect) -> Result<(), String> {
    let link = link.build().unwrap();
    builder().connect(link).await.map(drop).map_err(|error| error.to_string())
}

#[test]
fn an_extra_authority_is_trusted_and_the_name_is_checked() {
    run(async {
        let port = server(mcpjoin_test_support::tls::SERVER);
        for host in ["localhost", "127.0.0.1"] {
            connect(Link::http(format!("https://{host}:{port}/")).extra_ca(CA)).await.unwrap();
        }
    });
}

#[test]
fn a_certificate_of_an_unknown_authority_is_refused_and_the_error_names_its_issuer() {
    run(async {
        let port = server(mcpjoin_test_support::tls::SERVER);
        let link = Link::http(format!("https://localhost:{port}/")).build().unwrap();
        let error = builder().connect(link).await.unwrap_err();
        let reason = error.cause.transport_error().and_then(|error| error.reason());
        assert_eq!(reason, Some(TransportErrorReason::UnknownIssuer), "{error}");
        let error = error.to_string();
        assert!(error.contains("signed by An authority that nobody trusts (mcpjoin tests)"), "{error}");
    });
}

#[test]
fn a_certificate_that_has_expired_or_is_for_another_name_is_refused() {
    run(async {
        let port = server(mcpjoin_test_support::tls::EXPIRED);
        let error = connect(Link::http(format!("https://localhost:{port}/")).extra_ca(CA)).await.unwrap_err();
        assert!(error.contains("the certificate of localhost has expired"), "{error}");
        let port = server(mcpjoin_test_support::tls::OTHER_NAME);
        let error = connect(Link::http(format!("https://localhost:{port}/")).extra_ca(CA)).await.unwrap_err();
        assert!(error.contains("not for localhost"), "{error}");
    });
}
