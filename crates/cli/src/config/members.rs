//! A definition as a list of members, as its file has them. The user is shown this list before the definition is used, and trust is
//! bound to it, so that nothing can be trusted without being shown.
//!
//! References are not expanded here, so no value of our environment is shown or stored. `question` makes the list for entries of
//! files that the user has not named, and `trust` stores it. The members and their order are part of the digest: with a change
//! here every user is asked again.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::dialect::{Key, Transport};
use super::dotenv;
use super::entry::{CallbackPort, Definition, Setting};
use super::launch;
use super::tree::Text;
use super::variables::{Names, Piece, pieces};
use crate::secret;
use crate::target::exact;

/// The question about one definition: fifty lines of a terminal. A longer one scrolls its beginning off the screen. Real
/// definitions have less than 1 KiB.
const MAX_QUESTION_BYTES: usize = 4 << 10;
/// 4 KiB fill 50 lines of 80 columns. Short variables would fill 500 with the same bytes.
const MAX_QUESTION_LINES: usize = 50;
/// The names and words of one definition, including those that the question leaves out: a file of variables may hold hundreds.
const MAX_DEFINITION_BYTES: usize = 16 << 10;
/// The files that one definition refers to. Real definitions have one or two.
const MAX_TEXT_FILES: usize = 16;

/// One member of a trusted definition as it is stored: enough to detect a change, and to show the old value. Of a value that may be
/// a secret only the digest is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// As in `servers`: `command`, `args`, `env`, `headers` ...
    pub(crate) what: String,
    /// The name of the variable, header, input or file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// As the file has them, without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) words: Vec<String>,
    /// SHA-256 of the words as the file has them, in hexadecimal digits, where `words` is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
}

/// The members of one definition.
#[derive(Clone, Debug)]
pub(crate) struct Members(Vec<MemberText>);

/// A member as the file has it.
#[derive(Clone, Debug)]
struct MemberText {
    what: &'static str,
    name: String,
    words: Vec<String>,
    storage: Storage,
    /// It is a variable that changes which code runs.
    changes_code: bool,
}

/// What is stored of the words of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// All words.
    All,
    /// All words, with `***` for secrets.
    Masked,
    /// The digest.
    Digest,
    /// The value is in another file: the words are its digest.
    Elsewhere,
}

impl Members {
    /// Reads the files that the definition refers to. For a file that cannot be read there is a member that says so.
    pub(super) fn of(definition: &Definition, names: &Names<'_>) -> Self {
        let mut members = Self(Vec::new());
        let end = definition.settings.partition_point(|setting| setting.key < Key::AllowedTools);
        let (server, tools) = definition.settings.split_at(end);
        members.settings(server, definition, names);
        if let Some(CallbackPort { port, by_name }) = definition.callback {
            // The spelling decides whether the redirect names `localhost` or 127.0.0.1.
            let spelling = if by_name { "callbackPort" } else { "callback_port" };
            members.word("oauth", spelling, &port.to_string());
        }
        if definition.oauth_off {
            members.word("oauth", "", "false");
        }
        members.settings(tools, definition, names);
        // For a definition that is too long to be shown, no more files are read.
        if members.size() <= MAX_DEFINITION_BYTES {
            let (last, first): (Vec<_>, Vec<_>) = (definition.settings.iter())
                .filter(|setting| setting.is_expanded())
                .partition(|setting| setting.key == Key::Headers || setting.key.is_oauth());
            first.into_iter().chain(last).for_each(|setting| members.beside(&setting.text.text, names));
        }
        members
    }

    /// One member for each key and name.
    fn settings(&mut self, settings: &[Setting], definition: &Definition, names: &Names<'_>) {
        let is_same = |one: &Setting, next: &Setting| (one.key, &one.name) == (next.key, &next.name);
        for settings in settings.chunk_by(is_same) {
            let [Setting { key, name, text }, ..] = settings else { continue };
            let changes_code = *key == Key::Env && changes_what_runs(name);
            let storage = match key {
                Key::Args | Key::Url => Storage::Masked,
                Key::Env | Key::Headers | Key::ClientSecret if !changes_code => of_value(text, names),
                _ => Storage::All,
            };
            let words = settings.iter().map(|setting| setting.text.text.clone()).collect();
            self.push(key.name(), name, storage, words, changes_code);
            match key {
                Key::EnvFile => self.variables(launch::variables(definition, names).ok()),
                Key::Url if definition.transport == Transport::Sse => self.word("type", "", "sse"),
                _ => {}
            }
        }
    }

    /// The bytes of all names and words together.
    fn size(&self) -> usize {
        let words = |member: &MemberText| match member.storage {
            Storage::Elsewhere => 0,
            _ => member.words.iter().map(String::len).sum(),
        };
        self.0.iter().map(|member| member.name.len() + words(member)).sum()
    }

    fn files(&self) -> usize {
        self.0.iter().filter(|member| member.what == "file").count()
    }

    /// Adds the variables of an `envFile`; `None` where it cannot be read.
    fn variables(&mut self, variables: Option<Vec<dotenv::Variable>>) {
        let Some(variables) = variables else { return self.word("variable", "", "cannot be read") };
        for dotenv::Variable { name, value, .. } in variables {
            let changes_code = changes_what_runs(&name);
            self.push("variable", &name, Storage::Elsewhere, vec![digest(&[value])], changes_code);
        }
    }

    /// Adds the inputs and files to which a text refers.
    fn beside(&mut self, text: &str, names: &Names<'_>) {
        for piece in pieces(text, names.files) {
            match piece {
                Piece::Editor(name) => {
                    let Some(id) = name.strip_prefix("input:").filter(|id| !self.has("inputs", id)) else {
                        continue;
                    };
                    let input = names.inputs.iter().find(|input| input.id == id);
                    if let Some(default) = input.and_then(|input| input.default.as_deref()) {
                        self.word("inputs", id, default);
                    }
                }
                Piece::File(path) if !self.has("file", path) && self.files() <= MAX_TEXT_FILES => {
                    match names.texts.of(&names.path(Path::new(path))) {
                        Ok(content) => {
                            self.push("file", path, Storage::Elsewhere, vec![digest(&[content])], false);
                        }
                        Err(_) => self.word("file", path, "cannot be read"),
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds a member of one word that is no secret.
    fn word(&mut self, what: &'static str, name: &str, word: &str) {
        self.push(what, name, Storage::All, vec![word.to_owned()], false);
    }

    fn push(
        &mut self,
        what: &'static str,
        name: &str,
        storage: Storage,
        words: Vec<String>,
        changes_code: bool,
    ) {
        self.0.push(MemberText { what, name: name.to_owned(), words, storage, changes_code });
    }

    fn has(&self, what: &str, name: &str) -> bool {
        self.0.iter().any(|member| member.what == what && member.name == name)
    }

    /// The members as they are stored.
    pub(super) fn stored(&self) -> Vec<Member> {
        self.0.iter().map(MemberText::stored).collect()
    }

    /// The definition for the user: the command or the address, then a line for each other member. `None` when it is too long.
    pub(super) fn lines(&self) -> Option<Vec<String>> {
        let (mut command, mut lines, mut named) = (Vec::new(), Vec::new(), Vec::new());
        for member in &self.0 {
            let MemberText { what, name, words, changes_code, .. } = member;
            let (name, words) = (exact(name), exact_words(words));
            let pointer = if *changes_code { " (this variable can change which code runs)" } else { "" };
            match *what {
                "command" | "args" | "url" => command.push(words),
                "env" => lines.push(format!("env {name}={words}{pointer}")),
                "headers" => lines.push(format!("header {name}: {words}")),
                "env_vars" => lines.push(format!("your own variables {words}")),
                "variable" if member.name.is_empty() => lines.push(format!("envFile {words}")),
                "variable" if *changes_code => lines.push(format!("envFile sets {name}{pointer}")),
                "variable" => named.push(name),
                "inputs" => lines.push(format!("input {name} is {words} unless you set it")),
                "file" => lines.push(format!("the text of the file {name}")),
                what if member.name.is_empty() => lines.push(format!("{what} {words}")),
                what => lines.push(format!("{what} {name} {words}")),
            }
        }
        if !named.is_empty() {
            lines.push(format!("envFile sets {}", named.join(", ")));
        }
        lines.insert(0, command.join(" "));
        let is_short = lines.iter().map(String::len).sum::<usize>() <= MAX_QUESTION_BYTES;
        let is_short = is_short && lines.len() <= MAX_QUESTION_LINES;
        (is_short && self.size() <= MAX_DEFINITION_BYTES && self.files() <= MAX_TEXT_FILES).then_some(lines)
    }

    /// The differences from the members that were trusted before, a line for each member and state.
    pub(super) fn changes(&self, before: &[Member]) -> Vec<String> {
        let called = |what: &str, name: &str| {
            if name.is_empty() { exact(what) } else { format!("{} {}", exact(what), exact(name)) }
        };
        let mut lines = Vec::new();
        for member in &self.0 {
            let (called, words) = (called(member.what, &member.name), exact_words(&member.words));
            let old = before.iter().find(|old| old.what == member.what && old.name == member.name);
            match old {
                Some(old) if *old == member.stored() => {}
                Some(_) if member.storage == Storage::Elsewhere => {
                    lines.push(format!("{called} has a different value"));
                }
                None if member.storage == Storage::Elsewhere => lines.push(format!("{called} is new")),
                None => lines.push(format!("{called} is new: {words}")),
                Some(old) if old.words.is_empty() => {
                    lines.push(format!("{called} had another value, is {words}"));
                }
                Some(old) => {
                    lines.push(format!("{called} was {}", exact_words(&old.words)));
                    lines.push(format!("{called} is  {words}"));
                }
            }
        }
        let gone = before.iter().filter(|old| !self.has(&old.what, &old.name));
        lines.extend(gone.map(|old| format!("{} was removed", called(&old.what, &old.name))));
        lines
    }
}

impl MemberText {
    fn stored(&self) -> Member {
        let (words, digest) = match self.storage {
            Storage::All => (self.words.clone(), None),
            Storage::Masked => {
                let masked = secret::masked(self.words.iter().map(String::as_str));
                let differs = masked != self.words;
                (masked, differs.then(|| digest(&self.words)))
            }
            Storage::Digest => (Vec::new(), Some(digest(&self.words))),
            Storage::Elsewhere => (Vec::new(), self.words.first().cloned()),
        };
        Member { what: self.what.into(), name: self.name.clone(), words, digest }
    }
}

/// How a value is stored that may be a secret: a reference is no secret.
fn of_value(text: &Text, names: &Names<'_>) -> Storage {
    let is_literal = |piece: &Piece<'_>| matches!(piece, Piece::Literal(_) | Piece::Broken(_));
    let literal = pieces(&text.text, names.files).iter().any(is_literal);
    if literal { Storage::Digest } else { Storage::All }
}

fn exact_words(words: &[String]) -> String {
    words.iter().map(|word| exact(word)).collect::<Vec<_>>().join(" ")
}

/// SHA-256 of words, in hexadecimal digits. The boundaries of the words count.
fn digest(words: &[String]) -> String {
    digest_of(&serde_json::Value::from(words.to_vec()).to_string())
}

/// SHA-256 of a text, in hexadecimal digits.
pub(super) fn digest_of(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Variables that change which code a program runs, where it gets that code from, or which servers it trusts: their names, in
/// capitals. Case does not matter: npm reads `npm_config_*`, and curl reads `https_proxy`. A name that is missing here only lacks
/// the mark in the question, since values are shown all the same.
const CHANGING_NAMES: [&str; 8] = [
    // Shells read a file, or find programs elsewhere.
    "PATH PATHEXT COMSPEC SHELL ENV BASH_ENV BASHOPTS SHELLOPTS IFS PS4 PROMPT_COMMAND ZDOTDIR CDPATH",
    // Settings are read from there, and those of npm, pip and git name programs.
    "HOME USERPROFILE APPDATA XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS",
    // Programs that other programs start.
    "EDITOR VISUAL PAGER BROWSER LESSOPEN LESSCLOSE SSH_ASKPASS SUDO_ASKPASS",
    // Libraries that other libraries load.
    "GCONV_PATH GTK_MODULES QT_PLUGIN_PATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES",
    // Options of interpreters and of what they load.
    "ELECTRON_RUN_AS_NODE VIRTUAL_ENV CLASSPATH JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS",
    // Compilers and their options.
    "MAKEFLAGS CC CXX CFLAGS LDFLAGS MAKE",
    // Folders of files that are run later, and files that tools read.
    "TMPDIR KUBECONFIG NETRC",
    // The servers that code comes from, and whose certificates are trusted.
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE AWS_CONFIG_FILE",
];

/// Prefixes of such names.
const CHANGING_PREFIXES: [&str; 5] = [
    // The dynamic linkers of Linux and macOS.
    "LD_ DYLD_",
    // Functions that bash imports.
    "BASH_FUNC_",
    // Interpreters.
    "NODE_ BUN_ DENO_ PYTHON PERL5 PERLLIB RUBY PHP LUA_ R_ JULIA_ ERL_ ELIXIR_ DOTNET_ COR_ CORECLR_",
    // Programs that install packages, or build and run them.
    "NPM_CONFIG_ PNPM_ YARN_ COREPACK_ PIP_ PIPX_ UV_ CONDA_ GEM_ BUNDLE_ GO CARGO_ RUST DOCKER_",
    // git runs programs that its settings name.
    "GIT_",
];

/// Suffixes of such names: options, programs, and folders of libraries or settings of any program (`ESBUILD_BINARY_PATH`,
/// `MAVEN_OPTS`, `SVN_SSH`, `GST_PLUGIN_PATH`, `NVM_DIR`). Some other variables match: a mark too many is better than one too few.
const CHANGING_SUFFIXES: [&str; 3] = [
    "_OPTS _OPTIONS _FLAGS _CONFIG _CONFIG_FILE _STARTUP _START _TUNABLES",
    "_PATH _HOME _DIR _ROOT _MODULE _MODULES _PLUGINS",
    "_BINARY _PAGER _EDITOR _SSH _RSH _PROXY",
];

/// The names of a table.
fn words(table: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    table.iter().flat_map(|line| line.split(' '))
}

/// Whether a variable of that name changes what a program runs.
fn changes_what_runs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    words(&CHANGING_NAMES).any(|known| name == known)
        || words(&CHANGING_PREFIXES).any(|prefix| name.starts_with(prefix))
        || words(&CHANGING_SUFFIXES).any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::{CHANGING_NAMES, CHANGING_PREFIXES, CHANGING_SUFFIXES, changes_what_runs};

    #[test]
    fn variables_that_change_what_runs_are_known_in_any_case() {
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "NODE_PATH",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "BASH_ENV",
            "ENV",
            "PATH",
            "GIT_SSH_COMMAND",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "npm_config_registry",
            "https_proxy",
            "UV_INDEX_URL",
            "GOFLAGS",
            "ESBUILD_BINARY_PATH",
            "MAVEN_OPTS",
            "SVN_SSH",
            "COVERAGE_PROCESS_START",
            "GLIBC_TUNABLES",
            "NVM_DIR",
            "CC",
        ] {
            assert!(changes_what_runs(name), "{name}");
        }
        for name in ["API_KEY", "REGION", "LANG", "TZ", "DATABASE_URL", "NODENAME", "ENVIRONMENT", "TOKEN"] {
            assert!(!changes_what_runs(name), "{name}");
        }
    }

    #[test]
    fn what_is_compared_stands_in_capitals() {
        for line in CHANGING_NAMES.iter().chain(&CHANGING_PREFIXES).chain(&CHANGING_SUFFIXES) {
            assert_eq!(*line, line.to_ascii_uppercase());
        }
    }
}
