//! Tests of redirects, which a client follows only within the origin.

use mcpjoin::transport::HttpSetupError;
use mcpjoin::transport::Link;

use crate::scripted::{Scripted, Seen, Talk, V2025_11, builder, call, legacy, modern, run};

/// Redirects every request to a URL.
async fn to(status: u16, url: String) -> Scripted {
    Scripted::new(move |_, talk: Talk| {
        let url = url.clone();
        async move { talk.answer(status, &[("Location", &url)], "").await }
    })
    .await
}

async fn never_leaves(status: u16) {
    let other = Scripted::new(modern).await;
    let server = to(status, other.url()).await;
    let link = server.link().header("Authorization", "Bearer secret").header("X-Api-Key", "secret");
    let error = builder().connect(link.build().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains(&other.url()) && error.contains("another origin"), "{error}");
    assert!(!error.contains("secret"));
    assert_eq!(other.seen().len(), 0, "nothing was sent there");
}

#[test]
fn cve_2026_64684_custom_headers_do_not_follow_a_307_or_308_to_another_origin() {
    run(async {
        never_leaves(307).await;
        never_leaves(308).await;
    });
}

#[test]
fn cve_2026_111769_no_redirect_carries_headers_session_or_body_to_another_origin() {
    run(async {
        for status in [301, 302, 303, 307, 308] {
            never_leaves(status).await;
        }
        // The same in the middle of a session, whose id is a secret too.
        let other = Scripted::new(modern).await;
        let url = other.url();
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let url = url.clone();
            async move {
                match seen.about().as_str() {
                    "tools/call" | "GET" => talk.answer(307, &[("Location", &url)], "").await,
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("another origin"), "{error}");
        client.close().await;
        assert_eq!(other.seen().len(), 0);
    });
}

#[test]
fn cve_2026_116685_other_spellings_of_another_origin_are_not_followed() {
    run(async {
        let other = Scripted::new(modern).await;
        let port = other.port;
        for location in [
            format!("//127.0.0.1:{port}/mcp"),
            format!("http://localhost:{port}/mcp"),
            format!("https://127.0.0.1:{port}/mcp"),
            format!("http://user@127.0.0.1:{port}/mcp"),
            format!("http:\\\\127.0.0.1:{port}/mcp"),
            "file:///etc/passwd".to_owned(),
            "javascript:alert(1)".to_owned(),
        ] {
            let server = to(307, location.clone()).await;
            assert!(server.connect().await.is_err(), "{location}");
        }
        assert_eq!(other.seen().len(), 0);
    });
}

#[test]
fn f115_a_loop_of_redirects_ends() {
    run(async {
        let server = to(308, "/mcp".into()).await;
        let error = server.connect().await.unwrap_err().to_string();
        assert!(error.contains("more than 5 redirects"), "{error}");
        // Six requests for the probe, and six for `initialize`.
        assert_eq!(server.seen().len(), 12);
    });
}

#[test]
fn f115_a_redirect_within_the_origin_is_followed_with_everything() {
    run(async {
        for (status, location) in [(307, "/here"), (308, "here?x=1")] {
            let server = Scripted::new(move |seen: Seen, talk: Talk| async move {
                if seen.target == "/mcp" {
                    return talk.answer(status, &[("Location", location)], "").await;
                }
                assert_eq!(seen.method, "POST");
                assert_eq!(seen.header("x-api-key"), Some("k"));
                modern(seen, talk).await
            })
            .await;
            let link = server.link().header("X-Api-Key", "k").build().unwrap();
            let client = builder().connect(link).await.unwrap();
            assert_eq!(call(&client, "a").await.unwrap(), "a");
        }
    });
}

#[test]
fn f115_a_redirect_that_would_turn_post_into_get_is_refused_and_names_where_it_leads() {
    run(async {
        for status in [301, 302, 303] {
            let server = to(status, "/elsewhere".into()).await;
            let error = server.connect().await.unwrap_err().to_string();
            assert!(error.contains("/elsewhere") && error.contains("would change POST to GET"), "{error}");
        }
        let server = Scripted::new(|_, talk: Talk| async move { talk.status(307).await }).await;
        let error = server.connect().await.unwrap_err().to_string();
        assert!(error.contains("without a Location"), "{error}");
    });
}

#[test]
fn a_url_that_cannot_be_used_is_refused_without_being_repeated() {
    for url in [
        "",
        "mcp",
        "ftp://example.com/mcp",
        "http://user:hunter2@example.com/mcp",
        "http://",
        "http://exa mple.com",
        "http://example.com:99999/",
        "http:\\\\example.com",
        "http://127.1/mcp",
    ] {
        let error = Link::http(url).build().unwrap_err();
        assert!(matches!(error, HttpSetupError::Url(_)), "{url}");
        assert!(!error.to_string().contains("hunter2"));
    }
    assert!(Link::http("https://example.com").build().is_ok());
    assert!(Link::http("http://[::1]:80/mcp?key=1#there").build().is_ok());
}

#[test]
fn headers_that_cannot_be_sent_are_refused_without_their_value() {
    for (name, value) in [
        ("", "secret"),
        ("a b", "secret"),
        ("x", "secret\r\nX-Other: 1"),
        ("Host", "secret"),
        ("Content-Length", "secret"),
        ("mcp-session-id", "secret"),
        ("Mcp-Param-X", "secret"),
        ("Accept", "secret"),
    ] {
        let error = Link::http("http://127.0.0.1/").header(name, value).build().unwrap_err();
        assert!(matches!(error, HttpSetupError::Header { .. }), "{name}");
        assert!(!error.to_string().contains("secret"));
    }
    let debug = format!("{:?}", Link::http("http://h/").header("authorization", "secret"));
    assert!(!debug.contains("secret"), "{debug}");
    let error = Link::http("https://h/").extra_ca("nothing").build().unwrap_err();
    assert!(matches!(error, HttpSetupError::Certificate(_)), "{error}");
}
