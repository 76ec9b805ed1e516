//! Tests of the credentials of a bridge at its targets: a token from a file, a client of its own, and the exchange of each
//! client's token.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::ChildStderr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use serde_json::{Value, json};

use super::authority::{Authority, PLANTED, SECRET};
use super::config::Folder;
use super::support::{Ran, Running, command, run, start};

const DOCUMENTED: &str = include_str!("../../../../docs/identity.md");

/// The examples of a policy on the page.
fn documented() -> Vec<&'static str> {
    let examples: Vec<&str> = DOCUMENTED.split("```toml\n").skip(1).collect();
    examples.iter().map(|example| example.split("```").next().unwrap()).collect()
}

/// An authorization server whose tokens for clients this test signs, and an MCP server for its other tokens.
struct World {
    authority: Authority,
    key: KeyPair,
    folder: Folder,
}

impl World {
    fn new(name: &str) -> Self {
        let authority = Authority::new();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let point = URL_SAFE_NO_PAD.encode(key.public_key_raw());
        {
            let mut state = authority.state();
            state.keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": point}]});
            state.metadata.insert("jwks_uri", format!("{}/keys", authority.base).into());
        }
        let folder = Folder::new(name);
        folder.file("gateway.secret", SECRET);
        Self { authority, key, folder }
    }

    /// A token of this user for the bridge, which is valid for so many seconds.
    fn token(&self, user: &str, url: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let claims = json!({"iss": self.authority.base, "sub": user, "client_id": format!("{PLANTED}-app"),
            "aud": url, "exp": now + seconds});
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(json!({"alg": "EdDSA", "typ": "at+jwt"})), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()).unwrap());
        format!("{signed}.{signature}")
    }

    /// The policy with the exchange at this authorization server.
    fn exchanging(&self) -> String {
        format!(
            "[target.far.credentials.token_exchange]\nissuer = \"{}\"\n\
             client = {{ id = \"machine\", secret_file = \"gateway.secret\" }}\n",
            self.authority.base
        )
    }

    /// A bridge to the MCP server, which is called `far`.
    fn bridge(&self, policy: &str, more: &[&str]) -> Bridge {
        let policy = self.folder.file("policy.toml", policy);
        let far = format!("far={}", self.authority.url());
        let mut words = vec!["bridge", "-v", "--policy", policy.to_str().unwrap()];
        words.extend(["--listen", "http://127.0.0.1:0/mcp"]);
        words.extend(more);
        words.extend(["--join", &far]);
        let mut bridge = command(words);
        bridge.env("MCPJOIN_AUTH_DIR", self.folder.path().join("logins"));
        let mut running = start(bridge);
        let mut stderr = BufReader::new(running.child.stderr.take().unwrap());
        let mut said = String::new();
        let url = loop {
            let from = said.len();
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it has ended: {said}");
            if let Some(url) = said[from..].strip_prefix("listening on ") {
                break url.trim_end().to_owned();
            }
        };
        Bridge { running, stderr, said, url }
    }

    fn shown(&self) -> Vec<String> {
        let mut shown = self.authority.state().shown.clone();
        shown.dedup();
        shown
    }
}

struct Bridge {
    running: Running,
    stderr: BufReader<ChildStderr>,
    said: String,
    url: String,
}

impl Bridge {
    fn call(&self, era: &str, token: Option<&str>) -> Ran {
        let header = format!("Authorization: Bearer {}", token.unwrap_or_default());
        let mut words = vec!["call", "--era", era];
        words.extend(token.map(|_| ["-H", &header]).into_iter().flatten());
        words.extend([&self.url, "far__whoami"]);
        run(words)
    }

    /// Ends it, and returns everything that it has printed.
    fn end(mut self) -> String {
        self.running.signal("TERM");
        self.stderr.read_to_string(&mut self.said).unwrap();
        self.running.finish().exits(143);
        self.said
    }
}

#[test]
fn each_client_is_itself_at_the_server_and_no_token_goes_astray() {
    let world = World::new("identity-exchange");
    world.authority.state().denied = "mallory";
    let audit = world.folder.path().join("audit.jsonl");
    let issuer = world.authority.base.clone();
    let more = ["--auth-issuer", &issuer, "--audit", audit.to_str().unwrap()];
    let bridge = world.bridge(&world.exchanging(), &more);
    let token = |user: &str| world.token(user, &bridge.url, 600);
    let (alice, bob, mallory) = (token("alice"), token("bob"), token("mallory"));
    for era in ["legacy", "modern"] {
        for (user, token) in [("alice", &alice), ("bob", &bob), ("alice", &alice)] {
            assert_eq!(bridge.call(era, Some(token)).exits(0).stdout.trim(), user, "{era}");
        }
        let refused = bridge.call(era, Some(&mallory));
        let refused = refused.stdout + &refused.stderr;
        for part in ["far: ", "access_denied: the test says no", "[target.far.credentials]"] {
            assert!(refused.contains(part), "{era}, {part}: {refused}");
        }
    }
    assert_eq!(bridge.call("modern", None).code, Some(3));
    let expired = world.token("alice", &bridge.url, -600);
    assert_eq!(bridge.call("modern", Some(&expired)).code, Some(3));

    // One token for each user, and no other one.
    let mut shown = world.shown();
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 2, "{shown:?}");
    for value in &shown {
        assert!(value.starts_with(&format!("Bearer {PLANTED}-access-")), "{value}");
    }
    let exchanges = world.authority.state().count("POST", "/token");
    assert!((3..=5).contains(&exchanges), "a refused exchange is remembered for 15 s: {exchanges}");
    let text = bridge.end() + &fs::read_to_string(audit).unwrap();
    assert!(text.contains("access_denied"), "{text}");
    for secret in [SECRET, &*alice, &*mallory, &*shown[0], &format!("{PLANTED}-access")] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[test]
fn a_server_that_refuses_the_exchanged_token_is_named_and_the_exchange_is_not_repeated() {
    let world = World::new("identity-refused");
    let issuer = world.authority.base.clone();
    let bridge = world.bridge(&world.exchanging(), &["--auth-issuer", &issuer]);
    let alice = world.token("alice", &bridge.url, 600);
    assert_eq!(bridge.call("modern", Some(&alice)).exits(0).stdout.trim(), "alice");
    world.authority.state().forget_tokens();
    let refused = bridge.call("modern", Some(&alice));
    assert!(refused.stderr.contains("rejects the token that"), "{}", refused.stderr);
    assert_eq!(world.authority.state().count("POST", "/token"), 1);
    bridge.end();
}

#[test]
fn the_token_of_a_file_is_read_again_when_it_changes() {
    let world = World::new("identity-file");
    let file = world.folder.file("far.token", format!("{PLANTED}-one\n"));
    let bridge = world.bridge("[target.far]\ncredentials = { token_file = \"far.token\" }\n", &[]);
    let refused = bridge.call("modern", None);
    let refused = refused.stdout + &refused.stderr;
    assert!(refused.contains("put a token that it accepts into"), "{refused}");
    assert!(!refused.contains(PLANTED), "{refused}");

    let access = world.authority.issue("you");
    fs::write(&file, access).unwrap();
    // The server counts as failed for a moment.
    let deadline = SystemTime::now() + Duration::from_secs(20);
    while bridge.call("modern", None).code != Some(0) {
        assert!(SystemTime::now() < deadline, "the new token is not used");
    }
    assert_eq!(bridge.call("legacy", None).exits(0).stdout.trim(), "you");
    assert!(!bridge.end().contains(PLANTED));
}

#[test]
fn the_bridge_is_a_client_of_its_own_and_its_secret_goes_to_the_issuer_of_the_policy_alone() {
    let world = World::new("identity-own");
    let policy = format!(
        "[target.far.credentials.client_credentials]\nissuer = \"{}\"\n\
         client = {{ id = \"machine\", secret_file = \"gateway.secret\" }}\n",
        world.authority.base
    );
    let bridge = world.bridge(&policy, &[]);
    assert_eq!(bridge.call("modern", None).exits(0).stdout.trim(), "you");
    let said = bridge.end();
    assert!(!said.contains(PLANTED), "{said}");
    assert_eq!(world.authority.state().count("POST", "/token"), 1);

    let bridge = world.bridge(&policy.replace(&world.authority.base, "http://127.0.0.1:1"), &[]);
    let refused = bridge.call("modern", None);
    let refused = refused.stdout + &refused.stderr;
    assert!(refused.contains("the client is registered with http://127.0.0.1:1"), "{refused}");
    assert_eq!(world.authority.state().count("POST", "/token"), 1);
    bridge.end();

    let in_variable = policy.replace("secret_file = \"gateway.secret\"", "secret_env = \"NO_SUCH_SECRET\"");
    world.folder.file("policy.toml", in_variable);
    let missing = world.folder.run(&["bridge", "--policy", "policy.toml", "--check-config"]).exits(2).stderr;
    assert!(missing.contains("the variable NO_SUCH_SECRET with the secret is not set"), "{missing}");
}

#[test]
fn credentials_that_cannot_work_are_a_fault_at_the_start() {
    let world = World::new("identity-faults");
    let issuer = world.authority.base.clone();
    let file = world.folder.file("policy.toml", world.exchanging());
    let check = |more: &[&str]| {
        let mut words = vec!["bridge", "--policy", file.to_str().unwrap()];
        words.extend(more);
        run(words).exits(2).stderr
    };
    let far = format!("far={}", world.authority.url());
    let listen = ["--listen", "http://127.0.0.1:0/mcp"];
    let with = |more: &[&'static str]| -> Vec<String> { more.iter().map(ToString::to_string).collect() };
    for (words, expected) in [
        (with(&["--check-config"]), "the tokens of clients are exchanged for far, but clients need none"),
        ([with(&listen), vec!["--join".into(), far.clone()]].concat(), "but clients need none"),
        (
            [
                with(&listen),
                vec!["--auth-issuer".into(), issuer.clone(), "--join".into(), "far=demo:".into()],
            ]
            .concat(),
            "the policy has credentials for far, which is not reached over HTTP",
        ),
        (
            [
                with(&listen),
                vec![
                    "--auth-issuer".into(),
                    issuer,
                    "-H".into(),
                    "Authorization: x".into(),
                    "--join".into(),
                    far,
                ],
            ]
            .concat(),
            "far has an Authorization header and credentials in the policy",
        ),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = check(&words);
        assert!(said.contains(expected) && said.contains("(E_USAGE)"), "{expected}: {said}");
    }
    fs::remove_file(world.folder.path().join("here/gateway.secret")).unwrap();
    let said = check(&[
        "--check-config",
        "--listen",
        "http://127.0.0.1:0/mcp",
        "--auth-issuer",
        "https://a.example",
    ]);
    assert!(said.contains("the secret in ") && said.contains("cannot be read"), "{said}");
}

#[test]
fn a_policy_that_is_read_again_with_other_credentials_is_refused() {
    let world = World::new("identity-again");
    world.folder.file("far.token", world.authority.issue("you"));
    let mut bridge = world.bridge("[target.far]\ncredentials = { token_file = \"far.token\" }\n", &[]);
    world.folder.file("policy.toml", "[target.far]\ncredentials = { token_file = \"other.token\" }\n");
    while !bridge.said.contains("the policy stays as it was") {
        assert_ne!(bridge.stderr.read_line(&mut bridge.said).unwrap(), 0, "it has ended: {}", bridge.said);
    }
    assert!(bridge.said.contains("the credentials of a target have changed"), "{}", bridge.said);
    assert_eq!(bridge.call("modern", None).exits(0).stdout.trim(), "you");
    bridge.end();
}

#[test]
fn the_policies_of_the_page_are_valid() {
    let folder = Folder::new("identity-documented");
    folder.file("gateway.secret", SECRET);
    let token = folder.file("token", "x");
    let examples = documented();
    assert_eq!(examples.len(), 3);
    for example in examples {
        folder.file("policy.toml", example.replace("/run/secrets/files-token", token.to_str().unwrap()));
        let words =
            ["bridge", "--policy", "policy.toml", "--check-config", "--listen", "http://127.0.0.1:0/mcp"];
        let ran = folder.run(&[&words[..], &["--auth-issuer", "https://login.example.com"]].concat());
        assert_eq!(ran.exits(0).stdout, "policy.toml is valid\n");
    }
}
