//! Tests that run the binary as a person or a script does, and check standard output, standard error and the exit code.
//!
//! What needs no process is tested beside its code; these tests cover the behaviour of the whole program.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod auth;
mod auth_faults;
mod auth_guard;
mod authority;
mod block;
mod bridge;
mod bridge_backend;
mod bridge_host;
mod bridge_identity;
mod bridge_joined;
mod bridge_operation;
mod bridge_policy;
mod bridge_relay;
mod bridge_replicas;
#[cfg(feature = "otel")]
mod bridge_traces;
mod bytes;
mod call;
mod complete;
mod config;
mod diff;
mod doctor;
mod doctor_machine;
mod edit;
mod entries;
mod escapes;
mod every;
mod failures;
mod faulty;
mod frequent;
mod help;
mod http;
mod info;
mod large;
mod list;
mod lists;
mod messages;
mod migration;
mod orphans;
mod pages;
mod ping;
mod planted;
mod prompt;
mod questions;
mod quic;
mod read;
mod readme;
mod schema;
mod secrets;
mod servers;
mod shell;
mod signals;
mod sockets;
mod spill;
mod stdio;
mod support;
mod surroundings;
mod tasks;
mod terminal;
mod trace;
mod trust;
mod trust_length;
mod typed;
mod usage;
mod validate;
mod validate_client;
mod validate_eras;
mod validate_report;
mod validate_several;
mod verbs;
mod verdict;
mod waiting;

/// A file that is not declared as a module would not run.
#[test]
fn every_file_here_is_declared() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runner");
    let source = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("main.rs") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(source.contains(&format!("mod {name};")), "{name}.rs is not declared");
        }
    }
}
use mcpjoin_test_support::ports;
