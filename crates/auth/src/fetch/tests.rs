//! Tests of the address filter, the redirects, and the limits of the fetcher.

use super::*;
use crate::scripted_server::{Answer, Names, ScriptedServer, answer, json, run};

fn home(url: &str, names: &Names) -> AddressFilter {
    AddressFilter::new(&Url::parse(url).unwrap(), Arc::new(names.clone()))
}

/// The addresses that the filter admits for a name, or the refusal.
async fn resolved(here: &AddressFilter, name: &str) -> String {
    match here.resolve(name.to_owned()).await {
        Ok(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Err(error) if error.is::<AddressRefused>() => "refused".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn g129_a_name_that_leads_to_a_private_address_is_refused() {
    let names = || {
        Names::default()
            .with("public.example", &[&["1.1.1.1"]])
            .with("private.example", &[&["10.9.9.9"]])
            .with("loop.example", &[&["127.0.0.1"]])
            .with("as.example", &[&["2.2.2.2", "2a00::1"]])
            .with("ten.example", &[&["10.0.0.1"]])
            .with("mapped.example", &[&["::ffff:10.0.0.1"]])
            .with("v6.example", &[&["fd00::1"]])
            .with("cloud.example", &[&["169.254.169.254"]])
            .with("here.example", &[&["::1"]])
            .with("both.example", &[&["10.0.0.1", "2.2.2.2"]])
    };
    let table = [
        ("as.example", ["2.2.2.2 2a00::1"; 4]),
        ("ten.example", ["refused", "10.0.0.1", "refused", "refused"]),
        ("mapped.example", ["refused", "::ffff:10.0.0.1", "refused", "refused"]),
        ("v6.example", ["refused", "fd00::1", "refused", "refused"]),
        ("cloud.example", ["refused"; 4]),
        ("here.example", ["refused", "refused", "::1", "::1"]),
        ("both.example", ["2.2.2.2", "10.0.0.1 2.2.2.2", "2.2.2.2", "2.2.2.2"]),
        ("nowhere.example", ["no such name"; 4]),
    ];
    run(async {
        let homes =
            ["https://public.example", "https://private.example", "https://loop.example", "http://localhost"];
        for (name, expected) in table {
            for (server, expected) in homes.into_iter().zip(expected) {
                assert_eq!(resolved(&home(server, &names()), name).await, expected, "{name} for {server}");
            }
        }
        // A server whose name also resolves to private addresses gets no access to them by that.
        let names = names().with("sly.example", &[&["10.0.0.1", "127.0.0.1", "1.1.1.1"]]);
        for (name, expected) in
            [("ten.example", "refused"), ("here.example", "refused"), ("sly.example", "1.1.1.1")]
        {
            assert_eq!(resolved(&home("https://sly.example", &names), name).await, expected, "{name}");
        }
        // The cloud's metadata address is always refused, also for a server whose own name resolves to it.
        assert_eq!(resolved(&home("https://cloud.example", &names), "cloud.example").await, "refused");
    });
}

#[test]
fn g129_a_name_for_this_machine_is_refused_before_any_proxy_resolves_it() {
    run(async {
        let names = Names::default().with("public.example", &[&["1.1.1.1"]]);
        for (server, allowed) in
            [("https://public.example", false), ("https://127.0.0.1", true), ("https://localhost", true)]
        {
            let fetcher = Fetcher::new(server, names.options()).unwrap();
            for named in
                ["http://localhost:1/", "https://LOCALHOST/", "https://a.localhost/", "https://localhost./"]
            {
                let checked = fetcher.check(named).await;
                match (checked, allowed) {
                    (Ok(_), true) => {}
                    (Err(error), false) => {
                        // One of the forms is already refused as a URL.
                        assert!(
                            matches!(error.kind, FetchErrorKind::Address | FetchErrorKind::Url),
                            "{server} {named}: {error}"
                        );
                    }
                    (checked, _) => panic!("{server} {named}: {checked:?}"),
                }
            }
        }
    });
}

#[test]
fn g129_what_a_name_says_later_counts_for_nothing() {
    run(async {
        let names = Names::default()
            .with("mcp.example", &[&["1.1.1.1"], &["10.0.0.1"]])
            .with("as.example", &[&["2.2.2.2"], &["127.0.0.1"]]);
        let here = home("https://mcp.example/mcp", &names);
        for (name, expected) in [
            ("mcp.example", "1.1.1.1"),
            ("as.example", "2.2.2.2"),
            ("mcp.example", "refused"),
            ("as.example", "refused"),
        ] {
            assert_eq!(resolved(&here, name).await, expected, "{name}");
        }
    });
}

#[test]
fn g129_names_are_checked_when_they_are_connected_to() {
    run(async {
        let server = ScriptedServer::new(|_, _| json("{}")).await;
        let url = server.url().replace("127.0.0.1", "localhost");
        let names = Names::default()
            .with("localhost", &[&["127.0.0.1"], &["10.0.0.1"]])
            .with("as.example", &[&["169.254.169.254"]]);
        let fetcher = Fetcher::new(&url, names.options()).unwrap();
        assert_eq!(fetcher.get(&url, HeaderMap::new()).await.unwrap().status, 200);
        let error = fetcher.get(&url, HeaderMap::new()).await.unwrap_err();
        assert_eq!(error.kind, FetchErrorKind::Address, "{error}");
        let error = fetcher.get("https://as.example/x?hunter2", HeaderMap::new()).await.unwrap_err();
        assert_eq!(error.kind, FetchErrorKind::Address);
        assert_eq!(
            error.to_string(),
            "GET https://as.example/x?...: as.example (169.254.169.254) is a link-local or cloud metadata \
             address, unlike the server itself: nothing was sent"
        );
        assert_eq!(server.lines(), ["GET /mcp"]);
    });
}

#[test]
fn g129_an_address_is_checked_in_every_spelling() {
    use FetchErrorKind::{Address, Url};
    let table = [
        ("https://1.1.1.1/x", [None; 4]),
        ("https://as.example/x", [None; 4]),
        ("http://as.example/x", [Some(Url); 4]),
        ("http://1.1.1.1/x", [Some(Url); 4]),
        ("https://127.0.0.1/x", [Some(Address), Some(Address), None, Some(Address)]),
        ("http://127.0.0.1:8/x", [Some(Address), Some(Address), None, Some(Address)]),
        ("https://[::1]/x", [Some(Address), Some(Address), None, Some(Address)]),
        ("https://10.0.0.1/x", [Some(Address), None, Some(Address), Some(Address)]),
        ("https://[::ffff:10.0.0.1]/x", [Some(Address), None, Some(Address), Some(Address)]),
        ("https://[64:ff9b::a00:1]/x", [Some(Address), None, Some(Address), Some(Address)]),
        ("https://[fd00::1]/x", [Some(Address), None, Some(Address), Some(Address)]),
        ("https://169.254.169.254/x", [Some(Address); 4]),
        ("https://169.254.7.7/x", [Some(Address), Some(Address), Some(Address), None]),
        ("https://[fe80::1]/x", [Some(Address); 4]),
        ("https://0.0.0.0/x", [Some(Address); 4]),
        // Forms of 127.0.0.1 that only some parsers understand, and URLs that cannot be fetched.
        ("https://0x7f.1/x", [Some(Url); 4]),
        ("https://2130706433/x", [Some(Url); 4]),
        ("https://127.1/x", [Some(Url); 4]),
        ("https://0177.0.0.1/x", [Some(Url); 4]),
        ("https://me:hunter2@as.example/x", [Some(Url); 4]),
        ("https://as.example\\@10.0.0.1/x", [Some(Url); 4]),
        ("https:/10.0.0.1/x", [Some(Url); 4]),
        ("//10.0.0.1/x", [Some(Url); 4]),
        ("file:///etc/passwd", [Some(Url); 4]),
        ("javascript:alert(1)", [Some(Url); 4]),
        ("\\\\server\\share", [Some(Url); 4]),
        ("", [Some(Url); 4]),
    ];
    run(async {
        let homes = [
            "https://1.1.1.1/mcp",
            "https://10.7.7.7/mcp",
            "http://127.0.0.1:1/mcp",
            "https://169.254.7.7/mcp",
        ];
        for (at, server) in homes.into_iter().enumerate() {
            let fetcher = Fetcher::new(server, Names::default().options()).unwrap();
            for (url, expected) in table {
                let found = fetcher.check(url).await;
                let kind = found.as_ref().err().map(|error| error.kind);
                assert_eq!(kind, expected[at], "{url} for {server}: {found:?}");
                assert!(!found.is_err_and(|error| error.to_string().contains("hunter2")));
            }
        }
    });
}

#[test]
fn g130_a_redirect_is_followed_within_the_origin_alone() {
    run(async {
        let other = ScriptedServer::new(|_, _| json("{}")).await;
        let elsewhere = other.url();
        let server = ScriptedServer::new(move |seen, _| {
            let to = |to: &str| answer("302 Found", &format!("location: {to}\r\n"), "");
            match seen.line.split_once(" /").unwrap().1 {
                "other" => to(&elsewhere),
                "private" => to("http://10.0.0.1/x"),
                "cloud" => to("http://169.254.169.254/latest?x=hunter2"),
                "nowhere" => answer("302 Found", "", ""),
                "3" => to("/2"),
                "2" => to("/1"),
                "1" => to("/0"),
                "4" => to("/3"),
                _ => json("{}"),
            }
        })
        .await;
        let fetcher = server.fetcher();
        let at = |path: &str| format!("{}/{path}", server.origin);
        let fetched = fetcher.get(&at("3"), HeaderMap::new()).await.unwrap();
        assert_eq!(fetched.url.path(), "/0");
        for path in ["other", "private", "cloud", "nowhere", "4"] {
            let error = fetcher.get(&at(path), HeaderMap::new()).await.unwrap_err();
            assert_eq!(error.kind, FetchErrorKind::Redirect, "{error}");
            assert!(!error.to_string().contains("hunter2"));
        }
        // A request with a secret follows no redirect, whatever its target.
        let secret =
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static("Bearer hunter2"))]);
        let error = fetcher.get(&at("1"), secret).await.unwrap_err();
        assert_eq!(error.kind, FetchErrorKind::Redirect);
        let error =
            fetcher.post(&at("1"), HeaderMap::new(), Bytes::from_static(b"code=x")).await.unwrap_err();
        assert_eq!(error.kind, FetchErrorKind::Redirect);
        assert_eq!(server.lines().iter().filter(|line| line.ends_with("/0")).count(), 1);
        assert!(other.seen().is_empty());
    });
}

#[test]
fn g143_what_is_too_long_or_too_slow_is_cut() {
    run(async {
        let server = ScriptedServer::new(|seen, _| match seen.line.split_once(" /").unwrap().1 {
            "gigabyte" => Answer::Endless("HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n".into()),
            "endless" => Answer::Endless("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{".into()),
            "most" => answer("200 OK", "", "x".repeat(MAX_BODY_BYTES)),
            "more" => answer("200 OK", "connection: close\r\n", "x".repeat(MAX_BODY_BYTES + 1)),
            "silent" => Answer::Silent("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{".into()),
            _ => Answer::Silent(String::new()),
        })
        .await;
        let fetcher = server.fetcher();
        let at = |path: &str| format!("{}/{path}", server.origin);
        for path in ["gigabyte", "endless", "more"] {
            let error = fetcher.get(&at(path), HeaderMap::new()).await.unwrap_err();
            assert_eq!(error.kind, FetchErrorKind::TooLarge, "{error}");
            let error = fetcher.post(&at(path), HeaderMap::new(), Bytes::new()).await.unwrap_err();
            assert_eq!(error.kind, FetchErrorKind::TooLarge, "{error}");
        }
        assert_eq!(fetcher.get(&at("most"), HeaderMap::new()).await.unwrap().body.len(), MAX_BODY_BYTES);
        // The body is not read here, so its length causes no error.
        let probed = fetcher.head_of_post(&at("endless"), HeaderMap::new(), Bytes::new()).await.unwrap();
        assert!(probed.body.is_empty());
        let timeout = Duration::from_millis(50);
        let hasty = Fetcher::new(&server.url(), FetchOptions { timeout, ..FetchOptions::default() }).unwrap();
        for path in ["silent", "mute"] {
            let error = hasty.get(&at(path), HeaderMap::new()).await.unwrap_err();
            assert_eq!(
                (error.kind, &*error.what),
                (FetchErrorKind::TimedOut, "no complete response within 50 ms")
            );
        }
    });
}

#[test]
fn every_exchange_is_reported_without_its_query() {
    run(async {
        let server = ScriptedServer::new(|_, _| json("{}")).await;
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let all = Arc::clone(&told);
        let on_exchange: OnExchange = Arc::new(move |exchange| all.lock().unwrap().push(exchange.clone()));
        let options = FetchOptions { on_exchange: Some(on_exchange), ..FetchOptions::default() };
        let fetcher = Fetcher::new(&server.url(), options).unwrap();
        fetcher.get(&format!("{}?key=hunter2", server.url()), HeaderMap::new()).await.unwrap();
        fetcher.post("http://10.0.0.1/token?hunter2", HeaderMap::new(), Bytes::new()).await.unwrap_err();
        let told = told.lock().unwrap();
        assert_eq!((told[0].method.as_str(), &told[0].outcome), ("GET", &Ok(200)));
        assert_eq!(told[0].url, format!("{}?...", server.url()));
        assert_eq!((told[1].method.as_str(), told[1].outcome.is_err()), ("POST", true));
        assert!(!format!("{told:?} {fetcher:?}").contains("hunter2"));
    });
}
