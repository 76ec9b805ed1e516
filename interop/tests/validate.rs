//! `validate` on published servers over each of their transports: each run finds exactly the findings in
//! `docs/published-findings.md`.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod captures;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use interop::{Folder, Listening, Peer, Way};
use mcpjoin::Link;
use mcpjoin::proto::session::Limits;
use mcpjoin::transport::ChildCommand;
use mcpjoin_diagnostics::validate::{ValidateError, Validator};
use mcpjoin_rules::{Outcome, Report, Selection, check_server, client_rules, rules};

const PAGE: &str = include_str!("../../docs/published-findings.md");
/// More time than any of them takes on a busy machine: slow responses, and slow ends, are not findings here.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rows of the page: the server and its transport, with the rules that it breaks.
fn page() -> BTreeMap<(String, String), BTreeSet<String>> {
    let rows = PAGE.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [server, _version, transport, findings] = cells.as_slice() else { return None };
        let words = findings.split('`').skip(1).step_by(2).map(str::to_owned);
        let is_row = server.starts_with('`');
        is_row.then(|| ((server.trim_matches('`').to_owned(), (*transport).to_owned()), words.collect()))
    });
    rows.collect()
}

/// The report on a server.
fn found(validator: Validator) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut limits = Limits::default();
    (limits.initialize, limits.probe) = (PATIENCE, PATIENCE);
    let looking = validator.limits(limits).respond_within(PATIENCE).end_within(PATIENCE).run();
    check_server(&runtime.block_on(looking).unwrap(), &Selection::default())
}

/// The report on a server that rejects requests without a token.
fn refused(validator: Validator) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(validator.respond_within(PATIENCE).run()) {
        Err(ValidateError::Unauthorized { seen, .. }) => check_server(&seen, &Selection::default()),
        other => panic!("it has let us in without a token, or was not reached: {other:?}"),
    }
}

/// The differences between the page and the tested servers.
#[derive(Default)]
struct Compared(Vec<String>);

impl Compared {
    fn add(&mut self, server: &str, transport: &str, report: &Report) {
        let found: BTreeSet<String> = report.failed().map(|result| result.rule.slug.to_owned()).collect();
        let page = page();
        let wanted = page.get(&(server.to_owned(), transport.to_owned()));
        if Some(&found) == wanted {
            return;
        }
        self.0.push(format!("{server} over {transport}: {found:?}, and on the page {wanted:?}"));
        for result in report.failed() {
            let Outcome::Failed(findings) = &result.outcome else { continue };
            for finding in findings {
                let text = |bytes: &Option<_>| bytes.as_ref().map_or(String::new(), shown);
                let (sent, received) = (text(&finding.sent), text(&finding.received));
                let (rule, problem, run) = (result.rule, &finding.problem, &finding.run);
                let (slug, level, address) = (rule.slug, finding.level.as_str(), &finding.address);
                self.0.push(format!(
                    "  {level} {slug} {address}\n    {run}: {problem}\n    > {sent}\n    < {received}"
                ));
            }
        }
    }

    #[track_caller]
    fn hold(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }

    fn stdio(&mut self, server: &str, command: ChildCommand) {
        self.add(server, "stdio", &found(Validator::new(command)));
    }

    fn http(&mut self, server: &str, transport: &str, listening: &Listening, path: &str) {
        let connect = Link::http(format!("http://{}{path}", listening.address()));
        let connect = if path == "/sse" { connect.legacy_sse() } else { connect };
        self.add(server, transport, &found(Validator::http(connect)));
    }
}

fn shown(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).chars().take(300).collect()
}

fn child(path: &str) -> ChildCommand {
    ChildCommand::new(interop::server(path).unwrap())
}

fn listening(program: &str, words: &[&str], way: Way) -> Listening {
    let peer = words.iter().fold(Peer::installed(program), |peer, word| peer.arg(word));
    Listening::new(&peer, way)
}

#[test]
fn typescript_over_stdio() {
    let mut compared = Compared::default();
    let folder = Folder::new("validate-typescript");
    compared.stdio("server-everything", child("node_modules/.bin/mcp-server-everything"));
    let filesystem = child("node_modules/.bin/mcp-server-filesystem").arg(folder.path());
    compared.stdio("server-filesystem", filesystem);
    let graph = folder.path().join("graph.jsonl");
    compared
        .stdio("server-memory", child("node_modules/.bin/mcp-server-memory").env("MEMORY_FILE_PATH", graph));
    compared.stdio("server-sequential-thinking", child("node_modules/.bin/mcp-server-sequential-thinking"));
    compared.hold();
}

#[test]
fn everything_over_http() {
    let mut compared = Compared::default();
    for (mode, way, path) in [("streamableHttp", Way::Http, "/mcp"), ("sse", Way::Sse, "/sse")] {
        let peer = Peer::installed("node_modules/.bin/mcp-server-everything").arg(mode);
        let server = Listening::on_a_port(&peer, way, path);
        compared.http("server-everything", if path == "/sse" { "HTTP+SSE" } else { "HTTP" }, &server, path);
    }
    compared.hold();
}

#[test]
fn typescript_sdk_over_http() {
    let mut compared = Compared::default();
    for mode in ["sessions", "json", "stateless", "resumes"] {
        let server = listening("servers/sdk-1.mjs", &[mode], Way::Http);
        compared.http("@modelcontextprotocol/sdk", &format!("HTTP, {mode}"), &server, "/mcp");
    }
    for mode in ["both", "sse", "modern", "sessions", "resumes"] {
        let server = listening("servers/sdk-2.mjs", &[mode], Way::Http);
        compared.http("@modelcontextprotocol/server", &format!("HTTP, {mode}"), &server, "/mcp");
    }
    compared.hold();
}

#[test]
fn typescript_sdk_behind_a_token() {
    let mut compared = Compared::default();
    let script = |name: &str| interop::server(name).unwrap().to_str().unwrap().to_owned();
    let issuing = listening(interop::NODE, &[&script("servers/authorization.mjs")], Way::Http);
    let issuer = format!("http://{}", issuing.address());
    let server = listening(interop::NODE, &[&script("servers/sdk-1-protected.mjs"), &issuer], Way::Http);
    let connect = Link::http(format!("http://{}/mcp", server.address()));
    let report = refused(Validator::http(connect));
    compared.add("@modelcontextprotocol/sdk", "HTTP, token, oidc-provider", &report);
    compared.hold();
}

#[test]
fn python_over_stdio() {
    let mut compared = Compared::default();
    compared.stdio("mcp-server-time", child("venv/bin/mcp-server-time"));
    let folder = Folder::new("validate-git");
    let made = Command::new("git").args(["init", "--quiet"]).arg(folder.path()).status().unwrap();
    assert!(made.success());
    compared.stdio("mcp-server-git", child("venv/bin/mcp-server-git").arg("--repository").arg(folder.path()));
    compared.stdio("mcp-server-fetch", child("venv/bin/mcp-server-fetch"));
    compared.hold();
}

#[test]
fn python_sdk_over_http() {
    let mut compared = Compared::default();
    let script = interop::server("servers/python-sdk.py").unwrap();
    let script = script.to_str().unwrap();
    for (mode, way, path) in [
        ("both", Way::Http, "/mcp"),
        ("json", Way::Http, "/mcp"),
        ("stateless", Way::Http, "/mcp"),
        ("sse", Way::Sse, "/sse"),
    ] {
        let server = listening("venv/bin/python", &[script, mode], way);
        let transport = if path == "/sse" { "HTTP+SSE".to_owned() } else { format!("HTTP, {mode}") };
        compared.http("mcp (Python)", &transport, &server, path);
    }
    compared.hold();
}

#[test]
fn rust_over_stdio_and_http() {
    let mut compared = Compared::default();
    compared.stdio("rmcp", child("rmcp/target/debug/rmcp-current"));
    compared.stdio("rmcp 2", child("rmcp/target/debug/rmcp-old"));
    for (mode, words) in [("sessions", "http"), ("stateless", "http-stateless")] {
        let server = listening("rmcp/target/debug/rmcp-current", &[words], Way::Http);
        compared.http("rmcp", &format!("HTTP, {mode}"), &server, "/mcp");
    }
    compared.hold();
}

#[test]
fn the_page_quotes_each_rule_with_its_address() {
    let findings: BTreeSet<String> = page().into_values().flatten().collect();
    for rule in rules() {
        let heading = format!("\n### `{}`", rule.slug);
        let section = PAGE.split(&heading).nth(1).map(|rest| rest.split("\n### ").next().unwrap());
        assert_eq!(section.is_some(), findings.contains(rule.slug), "{}", rule.slug);
        let Some(section) = section else { continue };
        assert!(section.contains(rule.sentence), "{}: {}", rule.slug, rule.sentence);
        let known = rule
            .sources
            .iter()
            .any(|source| source.revisions.iter().any(|version| section.contains(&source.address(version))));
        assert!(known, "{}: no address of it", rule.slug);
    }
    assert!(findings.iter().all(|slug| rules().any(|rule| rule.slug == slug)), "{findings:?}");
    assert!(page().len() > 20, "{}", page().len());
}

#[test]
fn the_page_quotes_each_rule_for_clients_with_its_address() {
    let rows = PAGE.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [client, _version, _era, _by, findings] = cells.as_slice() else { return None };
        client.starts_with('`').then(|| findings.split('`').skip(1).step_by(2))
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 15, "{}", rows.len());
    let findings: BTreeSet<&str> = rows.into_iter().flatten().collect();
    assert!(findings.iter().all(|slug| client_rules().any(|rule| rule.slug == *slug)), "{findings:?}");
    for rule in client_rules() {
        let heading = format!("\n### `{}` ({})\n", rule.slug, rule.level().as_str());
        let section = PAGE.split(&heading).nth(1).map(|rest| rest.split("\n### ").next().unwrap());
        assert_eq!(section.is_some(), findings.contains(rule.slug), "{}", rule.slug);
        let Some(section) = section else { continue };
        assert!(section.contains(rule.sentence), "{}: {}", rule.slug, rule.sentence);
        let mut versions = rule
            .sources
            .iter()
            .flat_map(|source| source.revisions.iter().map(|version| source.address(version)));
        assert!(versions.any(|address| section.contains(&address)), "{}: no address of it", rule.slug);
    }
}
