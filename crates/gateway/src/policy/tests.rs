//! Tests of the file of a policy and of the counts of requests. What clients notice is tested in
//! `tests/gateway/policy.rs`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::Origin;
use tokio::time::{Instant, advance};

use super::file::{MAX_FILE_BYTES, PolicyFile};
use super::limiter::{Exceeded, Limiter, Limits, MAX_REMEMBERED};
use super::pins::{MAX_PIN_BYTES, Pin};
use super::rules::{MAX_ENTRIES, MAX_PATTERN_BYTES, scopes_of};
use super::{MAX_NAME_BYTES, Policy, TargetCredentials};
use crate::rate::Rate;

fn parse(text: &str) -> Result<Policy, String> {
    Policy::parse(Path::new("policy.toml"), text).map_err(|error| error.to_string())
}

fn fault(text: &str) -> String {
    parse(text).expect_err(text)
}

/// A folder that is removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-policy-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, text: &[u8]) -> std::path::PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("it is written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn allows(policy: &Policy, tool: &str, origin: Option<&Origin>) -> bool {
    let rules = policy.rules.target("server");
    rules.allows(tool, scopes_of(origin)) && policy.rules.allows("server", tool, origin)
}

fn client(principal: &str, scopes: &[&str]) -> Origin {
    let scopes: Vec<Box<str>> = scopes.iter().map(|scope| (*scope).into()).collect();
    Origin { principal: Some(principal.into()), scopes: Some(scopes.into()), ..Origin::new("http") }
}

#[test]
fn the_example_of_the_documentation_is_a_policy() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let example =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let policy = parse(example).expect("the example is valid");
    assert_eq!(policy.targets().collect::<Vec<_>>(), ["server"]);
    let writer = client("anna", &["files:write"]);
    let ci = client("https://login.example ci-7", &["files:write"]);
    for (tool, without_token, by_writer, by_ci) in [
        ("read_file", true, true, true),
        ("read_secrets", false, false, false),
        ("write_file", false, true, false),
        ("delete", false, false, false),
    ] {
        assert_eq!(allows(&policy, tool, None), without_token, "{tool}");
        assert_eq!(allows(&policy, tool, Some(&writer)), by_writer, "{tool}");
        assert_eq!(allows(&policy, tool, Some(&ci)), by_ci, "{tool}");
    }
    let rules = policy.rules.target("server");
    assert_eq!(
        (rules.sampling, rules.roots, rules.timeout),
        (Some(false), Some(false), Some(Duration::from_secs(120)))
    );
    assert_eq!(rules.limits.concurrent, Some(64));
    let limits = |origin| policy.rules.limits_of(origin);
    let rate = |period, burst| Some(Rate { period: Duration::from_millis(period), burst });
    assert_eq!((limits(None).rate, limits(None).bytes), (rate(100, 50), Some(1_048_576)));
    assert_eq!((limits(Some(&ci)).rate, limits(Some(&ci)).bytes), (rate(10, 100), None));
    // The target without a table has the defaults.
    assert_eq!(policy.rules.target("other").sampling, Some(false));
    assert!(policy.rules.target("other").allows("delete", &[]));
}

#[test]
fn the_schema_in_the_documentation_is_that_of_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.schema.json");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, Policy::schema()).expect("it is written");
    }
    let stored = std::fs::read_to_string(&path).expect("the schema");
    assert_eq!(stored, Policy::schema(), "UPDATE_REFERENCE=1 writes it");
}

#[test]
fn a_fault_of_a_file_is_named_with_its_line_and_its_column() {
    for (text, expected) in [
        (
            "# a comment\n[target.a]\nalow = []\n",
            "policy.toml:3:1: unknown field `alow`, expected one of `allow`, `deny`, `rename`, `redescribe`, `scopes`, `pin`, \
             `sampling`, `roots`, `timeout_ms`, `limits`, `credentials`; did you mean `allow`?",
        ),
        (
            "[limit]\n",
            "policy.toml:1:2: unknown field `limit`, expected one of `limits`, `defaults`, `target`, `rule`; did you mean `limits`?",
        ),
        (
            "[limits]\nburst = 0\n",
            "policy.toml:2:9: invalid value: integer `0`, expected a whole number from 1 to 4294967295",
        ),
        (
            "[limits]\nburst = true\n",
            "policy.toml:2:9: invalid type: boolean `true`, expected a whole number from 1 to 4294967295",
        ),
        ("limits = 7\n", "policy.toml:1:10: invalid type: integer `7`, expected a table"),
        ("rule = 7\n", "policy.toml:1:8: invalid type: integer `7`, expected an array"),
        ("[target.a]\npin = []\n", "policy.toml:2:7: invalid type: an array, expected the path of a file"),
        ("[target.a]\nrename = []\n", "policy.toml:2:10: invalid type: an array, expected a table"),
        ("[target.a]\nsampling = {}\n", "policy.toml:2:12: invalid type: a table, expected a boolean"),
        (
            "[target.a]\ntimeout_ms = 0\n",
            "policy.toml:2:14: invalid value: integer `0`, expected a whole number above 0",
        ),
        ("x = [\n", "policy.toml:1:6: unclosed array, expected `]`"),
        (
            "[target.a]\nallow = [\"x\",\n  \"[\"]\n",
            "policy.toml:3:3: `[` is not a valid pattern: unclosed character class; missing ']'",
        ),
        (
            "[target.a]\nscopes = { \"é\" = [], \"{a\" = [] }\n",
            "policy.toml:2:22: `{a` is not a valid pattern: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)",
        ),
        (
            "[[rule]]\ndeny = []\n",
            "policy.toml:1:1: a rule needs `principals` or `scopes`, which say whom it is for",
        ),
        ("[defaults.rename]\na = \"x\"\nb = \"x\"\n", "policy.toml:3:1: `a` is renamed to `x`, too"),
        ("[defaults.rename]\na = \"\"\n", "policy.toml:2:1: a new name has 1 to 1024 bytes"),
    ] {
        assert_eq!(fault(text), expected);
    }
    let error = Policy::parse(Path::new("p"), "\n\nx").expect_err("a fault");
    assert_eq!(error.line(), Some(3));
    let missing = Policy::read(Path::new("/nonexistent/policy.toml")).expect_err("no file").to_string();
    assert!(missing.starts_with("/nonexistent/policy.toml: cannot be read: "), "{missing}");
}

#[test]
fn a_file_of_a_policy_is_bounded_in_bytes_entries_and_patterns() {
    let folder = Folder::new("bounds");
    let size = usize::try_from(MAX_FILE_BYTES).expect("small");
    let path = folder.write("most.toml", "#".repeat(size).as_bytes());
    Policy::read(&path).expect("at the limit");
    let path = folder.write("more.toml", "#".repeat(size + 1).as_bytes());
    let error = Policy::read(&path).expect_err("above the limit").to_string();
    assert!(error.ends_with(&format!("more.toml: is above the limit of {MAX_FILE_BYTES} bytes")), "{error}");

    // The target, the defaults and their names are entries, too.
    let names = |count: usize| (0..count).map(|name| format!("{name:?}=\"n{name}\"\n")).collect::<String>();
    parse(&format!("[target.a.redescribe]\n{}", names(MAX_ENTRIES - 2))).expect("at the limit");
    let error = fault(&format!("[target.a.redescribe]\n{}", names(MAX_ENTRIES - 1)));
    assert!(error.contains("are above the limit of 10000"), "{error}");

    let of = |bytes: usize| format!("[defaults]\ndeny = [\"{}\"]\n", "x".repeat(bytes));
    parse(&of(MAX_PATTERN_BYTES)).expect("at the limit");
    assert_eq!(
        fault(&of(MAX_PATTERN_BYTES + 1)),
        "policy.toml:2:9: a pattern of 257 bytes is above the limit of 256"
    );
    let renamed = |bytes: usize| format!("[defaults.rename]\na = \"{}\"\n", "x".repeat(bytes));
    parse(&renamed(MAX_NAME_BYTES)).expect("at the limit");
    assert!(fault(&renamed(MAX_NAME_BYTES + 1)).contains("1 to 1024 bytes"));
}

#[test]
fn a_file_of_pinned_tools_is_read_relative_to_the_policy_and_checked() {
    let folder = Folder::new("pins");
    let whole = br#"{"protocolVersion":"x","tools":[{"name":"a"}]}"#;
    folder.write("pinned.json", whole);
    let path = folder.write("policy.toml", b"[target.a]\npin = \"pinned.json\"\n");
    let policy = Policy::read(&path).expect("a policy");
    assert_eq!(policy.files(), [path, folder.0.join("pinned.json")]);
    for (text, problem) in [
        (&b"{"[..], "is not valid JSON"),
        (br#"{"tools":[]}"#, "is not a complete list of tools"),
        (br#"{"protocolVersion":"x","errors":[],"tools":[]}"#, "is not a complete list of tools"),
        (br#"{"protocolVersion":"x","tools":[{}]}"#, "has a tool without a name"),
        (
            br#"{"protocolVersion":"x","tools":[{"name":"a"},{"name":"a"}]}"#,
            "has two tools of the name \"a\"",
        ),
    ] {
        let path = folder.write("wrong.json", text);
        let error = Pin::read(&path).expect_err(problem);
        assert!(error.contains(problem), "{error}");
    }
    let error = fault("[target.a]\nallow = []\npin = \"/nonexistent/pinned.json\"\n");
    assert!(error.starts_with("policy.toml:3:1: /nonexistent/pinned.json cannot be read: "), "{error}");
    let large = folder.0.join("large.json");
    std::fs::File::create(&large).and_then(|file| file.set_len(MAX_PIN_BYTES + 1)).expect("a file");
    let error = Pin::read(&large).expect_err("above the limit");
    assert!(error.ends_with(&format!("is above the limit of {MAX_PIN_BYTES} bytes")), "{error}");
}

#[test]
fn a_name_that_is_replaced_belongs_to_one_tool() {
    let policy = parse("[defaults.rename]\nold = \"new\"\na = \"b\"\nb = \"a\"\n").expect("a policy");
    let rules = policy.rules.target("any");
    for (name, shown) in
        [("old", Some("new")), ("new", None), ("a", Some("b")), ("b", Some("a")), ("c", Some("c"))]
    {
        assert_eq!(rules.shown(name), shown, "{name}");
    }
    for (shown, name) in
        [("new", Some("old")), ("old", None), ("a", Some("b")), ("b", Some("a")), ("c", Some("c"))]
    {
        assert_eq!(rules.original(shown), name, "{shown}");
    }
}

#[test]
fn a_client_sees_a_difference_only_in_rules_that_are_for_it() {
    let old =
        parse("[target.a]\nallow = [\"x\"]\n[[rule]]\nscopes = [\"s\"]\ndeny = [\"y\"]\n").expect("a policy");
    let is_seen = |new: &str, target: &str, origin: Option<&Origin>| {
        parse(new).expect("a policy").rules.view(target, origin) != old.rules.view(target, origin)
    };
    let one = client("one", &["s"]);
    let same = "[target.a]\nallow = [\"x\"]\ntimeout_ms = 5\nlimits = { burst = 1 }\n";
    assert!(!is_seen(same, "a", None) && is_seen(same, "a", Some(&one)));
    let other = "[target.a]\nallow = [\"z\"]\n[[rule]]\nscopes = [\"s\"]\ndeny = [\"y\"]\n";
    assert!(is_seen(other, "a", None) && !is_seen(other, "b", Some(&one)));
}

#[tokio::test(start_paused = true)]
async fn requests_are_limited_in_rate_and_number_for_each_key() {
    let limiter = Arc::new(Limiter::default());
    let rate = Some(Rate { period: Duration::from_secs(1), burst: 2 });
    let limits = Limits { rate, concurrent: Some(3), bytes: None };
    let admit = |key, stays| limiter.admit(&key, &limits, stays);
    let held = [admit(1, false), admit(1, false)];
    assert!(held.iter().all(|held| matches!(held, Ok(Some(_)))));
    let exceeded =
        |outcome: Result<_, Exceeded>| outcome.map(|_: Option<_>| ()).map_err(|e| (e.limit, e.retry_after));
    assert_eq!(exceeded(admit(1, false)), Err((2, Duration::from_secs(1))));
    // Another key has its own bucket.
    assert_eq!(exceeded(admit(2, true)), Ok(()));
    advance(Duration::from_millis(999)).await;
    assert_eq!(exceeded(admit(1, false)), Err((2, Duration::from_millis(1))));
    advance(Duration::from_millis(1)).await;
    let third = admit(1, false);
    advance(Duration::from_secs(60)).await;
    assert_eq!(exceeded(admit(1, false)), Err((3, Duration::from_secs(1))));
    // A stream takes a token and no place.
    assert_eq!(exceeded(admit(1, true)), Ok(()));
    drop(held);
    assert_eq!(exceeded(admit(1, false)), Ok(()));
    drop(third);
}

#[tokio::test(start_paused = true)]
async fn clients_are_limited_and_the_one_unused_for_longest_is_dropped() {
    let limiter = Arc::new(Limiter::default());
    let rate = Some(Rate { period: Duration::from_secs(3_600), burst: 1 });
    let limits = Limits { rate, concurrent: Some(1), bytes: None };
    let begun = Instant::now();
    let first = limiter.admit(&0, &limits, false).expect("room");
    for key in 1..MAX_REMEMBERED {
        advance(Duration::from_millis(1)).await;
        drop(limiter.admit(&key, &limits, false).expect("room"));
    }
    assert_eq!(limiter.len(), MAX_REMEMBERED);
    drop(limiter.admit(&MAX_REMEMBERED, &limits, false).expect("room is made"));
    assert_eq!(limiter.len(), MAX_REMEMBERED);
    // The first has a request in flight, so the second was forgotten.
    assert!(limiter.admit(&0, &limits, false).is_err());
    assert!(limiter.admit(&2, &limits, false).is_err());
    assert!(limiter.admit(&1, &limits, false).is_ok());
    drop(first);
    // Full buckets are forgotten first.
    advance(Duration::from_secs(3_601)).await;
    assert!(limiter.admit(&usize::MAX, &limits, false).is_ok());
    assert!(limiter.len() < 3 && begun.elapsed() > Duration::from_secs(3_600));
}

#[test]
fn the_defaults_of_a_file_are_those_of_no_file() {
    assert_eq!(PolicyFile::default().target.len(), 0);
    let policy = parse("").expect("an empty file is a policy");
    assert!(allows(&policy, "anything", None) && policy.targets().next().is_none());
    assert_eq!(policy.rules.limits_of(None), Limits::default());
}

#[test]
fn credentials_are_one_of_three_ways_and_their_files_are_beside_the_policy() {
    let policy = Policy::parse(
        Path::new("etc/policy.toml"),
        "[target.a]\ncredentials = { token_file = \"a.token\" }\n\
         [target.b.credentials.client_credentials]\nissuer = \"https://as\"\n\
         client = { id = \"me\", secret_file = \"/run/secret\" }\nscopes = [\"x\"]\n\
         [target.c.credentials.token_exchange]\ntoken_endpoint = \"https://as/token\"\n\
         client = { id = \"me\", private_key_file = \"key.pem\" }\naudience = \"c\"\n\
         [target.d]\ndeny = [\"x\"]\n",
    )
    .expect("a policy");
    let all: Vec<(&str, &TargetCredentials)> = policy.credentials().collect();
    let [("a", TargetCredentials::TokenFile(token)), ("b", own), ("c", exchange)] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(token, Path::new("etc/a.token"));
    let TargetCredentials::ClientCredentials(own) = own else { panic!("{own:?}") };
    assert_eq!(own.client.secret_file.as_deref(), Some(Path::new("/run/secret")));
    let TargetCredentials::TokenExchange(exchange) = exchange else { panic!("{exchange:?}") };
    assert_eq!(exchange.client.private_key_file.as_deref(), Some(Path::new("etc/key.pem")));

    let own = "issuer = \"https://as\"\nclient = ";
    for (text, expected) in [
        (
            "[defaults]\ncredentials = { token_file = \"x\" }\n",
            "policy.toml:2:1: credentials are for one server",
        ),
        ("[target.a]\ncredentials = { token = \"x\" }\n", "unknown variant `token`"),
        ("[target.a.credentials]\ntoken_file = \"x\"\nclient_credentials = {}\n", "policy.toml:"),
        (
            &format!("[target.a.credentials.token_exchange]\n{own}{{ id = \"x\" }}\n"),
            "policy.toml:3:1: a client needs one of `secret_file`, `secret_env` and `private_key_file`",
        ),
        (
            &format!("[target.a.credentials.client_credentials]\n{own}{{ id = \"x\", secret = \"y\" }}\n"),
            "unknown field `secret`",
        ),
        (
            "[target.a.credentials.token_exchange]\nclient = { id = \"x\", secret_env = \"Y\" }\n",
            "an exchange needs either `issuer` or `token_endpoint`",
        ),
    ] {
        let fault = fault(text);
        assert!(fault.contains(expected), "{expected}: {fault}");
    }
}
