//! Login on the command line, at a server on the TypeScript SDK whose tokens come from a separate OpenID Connect provider.
//! Both are written by others, and the browser is a script that follows redirects.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use interop::{Folder, Listening, NODE, Peer, Way};

/// A user at a terminal.
struct Person {
    mcpjoin: PathBuf,
    kept: PathBuf,
    /// All output on the terminal until now.
    seen: String,
}

impl Person {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.mcpjoin);
        command.args(words).env("MCPJOIN_AUTH_DIR", &self.kept).env("XDG_CACHE_HOME", "/dev/null");
        command.env("NO_PROXY", "127.0.0.1").stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command
    }

    /// Runs `mcpjoin WORDS`, which must end with this code; returns its output.
    fn types(&mut self, words: &[&str], code: i32) -> String {
        let output = self.command(words).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        self.seen.push_str(&said);
        said
    }

    /// Logs in, with a browser that agrees to everything.
    fn logs_in(&mut self, url: &str) -> String {
        // A terminal on which the user could still type.
        let words = ["auth", "login", "-vv", "--no-browser", url];
        let mut child = self.command(&words).stdin(Stdio::piped()).spawn().unwrap();
        let mut shown = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let page = loop {
            let from = said.len();
            assert_ne!(shown.read_line(&mut said).unwrap(), 0, "no address is shown: {said}");
            let line = said[from..].trim();
            if line.starts_with("http://") {
                break line.to_owned();
            }
        };
        let script = interop::server("clients/browser.py").unwrap();
        let browser =
            Command::new(interop::server("venv/bin/python").unwrap()).arg(script).arg(page).output();
        let browser = browser.unwrap();
        let (page, error) =
            (String::from_utf8_lossy(&browser.stdout), String::from_utf8_lossy(&browser.stderr));
        assert!(page.starts_with("200 ") && page.contains("You can close this window"), "{page}{error}");
        shown.read_to_string(&mut said).unwrap();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
        self.seen.push_str(&said);
        said
    }

    /// The stored tokens, as the file contains them.
    fn tokens(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.kept).unwrap().map(|file| file.unwrap().path());
        let texts: Vec<String> = files
            .filter(|path| path.extension() == Some("json".as_ref()))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        assert_eq!(texts.len(), 1, "one login is kept");
        let text = &texts[0];
        let kept: serde_json::Value = serde_json::from_str(text).unwrap();
        let mut tokens = Vec::new();
        strings(&kept, &mut tokens);
        assert!(tokens.len() >= 2, "an access token and one to refresh it: {text}");
        tokens
    }
}

/// Collects the strings of members whose name says that they are tokens.
fn strings(value: &serde_json::Value, tokens: &mut Vec<String>) {
    let Some(members) = value.as_object() else { return };
    for (name, value) in members {
        match value.as_str() {
            Some(text) if ["access_token", "refresh_token"].contains(&&**name) => {
                tokens.push(text.to_owned());
            }
            _ => strings(value, tokens),
        }
    }
}

#[test]
fn g138_a_login_at_servers_of_others_lasts_from_its_first_page_to_its_end() {
    let folder = Folder::new("login");
    let script = |name: &str| interop::server(name).unwrap();
    let issuing = Peer::installed(NODE).arg(script("servers/authorization.mjs"));
    let issuing = Listening::new(&issuing.env("TOKEN_SECONDS", "4"), Way::Http);
    let issuer = format!("http://{}", issuing.address());
    let server = Peer::installed(NODE).arg(script("servers/sdk-1-protected.mjs")).arg(&issuer);
    let server = Listening::new(&server, Way::Http);
    let url = &*format!("http://{}/mcp", server.address());
    let kept = folder.path().join("kept");
    let mut person = Person { mcpjoin: interop::mcpjoin().unwrap(), kept, seen: String::new() };

    let refused = person.types(&["list", url], 3);
    assert!(refused.contains(&format!("mcpjoin auth login {url}")), "{refused}");
    let explained = person.types(&["auth", "explain", url], 0);
    assert!(explained.contains(&format!("a client can log in: at {issuer}")), "{explained}");
    let login = person.logs_in(url);
    assert!(login.contains("renewed automatically"), "{login}");
    let first = person.tokens();
    assert!(person.types(&["list", url], 0).contains("whoami"));
    assert!(person.types(&["validate", "--rule", "authorization", url], 0).contains("passed 19"));
    let trace = folder.path().join("trace");
    let words = ["call", "-vv", "--trace", trace.to_str().unwrap(), url, "whoami", "greeting=hello"];
    // Calls until the token is renewed, which happens after half of its lifetime.
    let begun = Instant::now();
    let renewed = loop {
        assert!(person.types(&words, 0).contains("hello, alice"));
        let tokens = person.tokens();
        if tokens != first {
            break tokens;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it is never renewed");
    };
    assert!(first.iter().all(|token| !renewed.contains(token)), "each refresh brings both anew");
    assert!(person.types(&["doctor", url], 0).contains("no fault found"));
    assert!(person.types(&["auth", "status"], 0).contains(url));
    let last = person.tokens();
    let out = person.types(&["auth", "logout", url], 0);
    assert!(out.contains("revoked and deleted"), "{out}");
    person.types(&["list", url], 3);

    let traced = std::fs::read_to_string(trace).unwrap();
    assert!(traced.contains("hello, alice"), "{traced}");
    for token in first.iter().chain(&renewed).chain(&last) {
        assert!(!person.seen.contains(token) && !traced.contains(token), "a token is shown");
    }
}
