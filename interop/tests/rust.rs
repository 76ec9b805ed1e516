//! `mcpjoin list` and `mcpjoin call` on servers of rmcp, the official Rust SDK, as crates.io publishes it: checks results
//! and exit codes, and that no process is left. The newest version supports both eras; an old one ends when the first
//! request is not `initialize`, and is started again.

#![cfg(target_os = "linux")]

use interop::{LEGACY, MODERN, Peer, first_text};

fn current() -> Peer {
    Peer::installed("rmcp/target/debug/rmcp-current")
}

fn old() -> Peer {
    Peer::installed("rmcp/target/debug/rmcp-old")
}

#[test]
fn rmcp_speaks_the_modern_era_by_itself_and_the_legacy_one_when_asked() {
    for (options, spoken) in
        [(&[][..], MODERN), (&["--era", "modern"], MODERN), (&["--era", "legacy"], LEGACY)]
    {
        let (version, tools) = current().list(options);
        assert_eq!(version, spoken, "{options:?}");
        assert!(tools.iter().eq(["echo", "fail"]), "{tools:?}");
    }
}

#[test]
fn rmcp_is_called_in_both_eras() {
    for era in ["modern", "legacy"] {
        let result = current().run(&["call", "--json", "--era", era, "echo", "message=\u{1f600} hi"]).json();
        assert_eq!(first_text(&result), "\u{1f600} hi", "{era}");
        current().run(&["call", "--era", era, "fail", "message=not today"]).refused_with("not today");
        current().run(&["call", "--era", era, "absent", "message=x"]).refused_with("no such tool");
    }
}

#[test]
fn an_old_rmcp_that_dies_of_the_probe_is_started_afresh() {
    let (version, tools) = old().list(&[]);
    assert_eq!(version, LEGACY);
    assert!(tools.iter().eq(["echo", "fail"]), "{tools:?}");
    assert_eq!(old().run(&["call", "echo", "message=hi"]).text(), "hi\n");
    old().run(&["call", "fail", "message=not today"]).refused_with("not today");
}

#[test]
fn an_old_rmcp_is_reached_with_initialize_first() {
    let (version, _) = old().list(&["--era", "legacy"]);
    assert_eq!(version, LEGACY);
}

#[test]
fn an_old_rmcp_has_no_modern_era() {
    let ran = old().run(&["list", "--era", "modern"]);
    assert_eq!(ran.code, Some(4), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("ExpectedInitializeRequest"), "{}", ran.stderr);
}

#[test]
fn the_doctor_finds_nothing_in_the_newest_rmcp_and_what_an_old_one_dies_of() {
    let healthy = current().run(&["doctor", "--json"]).json();
    assert_eq!(healthy["findings"], serde_json::json!([]));
    assert_eq!(healthy["serverInfo"]["name"], "rmcp-current");

    let ran = old().run(&["doctor", "--json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one JSON document");
    let ids: Vec<_> = report["findings"].as_array().into_iter().flatten().map(|found| &found["id"]).collect();
    assert_eq!(ids, ["probe-fatal"]);
}
