//! What all configurations hold: each entry with the place of every value, what shadows it, and what it lacks.
//!
//! Called by the verb `servers`, and by `doctor` without a target. It starts nothing, and gives no value of a variable or a header.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::Configuration;
use super::entry::{Definition, Listening, Way};
use super::launch::{self, written_secrets};
use super::places;
use super::question::Untrusted;
use super::readings::Broken;
use super::source::Problem;
use super::tree::{Entry, Text};
use super::trust;
use super::variables::{Piece, Texts, pieces};
use crate::args::Configured;
use crate::failure::Failure;
use crate::secret::{self, Kept, Secrets};

/// One file.
pub(crate) struct File {
    /// As it would be typed.
    pub(crate) name: String,
    /// What its dialect is called; `None` when it cannot be read.
    pub(crate) dialect: Option<&'static str>,
    /// Why it cannot be used.
    pub(crate) problem: Option<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) entries: Vec<Found>,
}

/// One entry.
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// `stdio`, `http`, `sse`, `quic`, `tcp` or `unix`; `None` when that cannot be told.
    pub(crate) transport: Option<&'static str>,
    pub(crate) description: Option<String>,
    pub(crate) parts: Vec<Part>,
    /// The line that says that other programs leave it out.
    pub(crate) disabled: Option<usize>,
    /// Where the entry of the same name stands that is used in its place.
    pub(crate) shadowed: Option<String>,
    /// Why it cannot be used: what is wrong with it, or every variable that is missing.
    pub(crate) problems: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// What the user has to trust before it is used.
    pub(crate) untrusted: Option<Untrusted>,
    /// What must not be shown where a server says it.
    pub(crate) secrets: Vec<OsString>,
    /// The program or the host, as far as the file names it.
    pub(crate) kept: Option<String>,
}

/// A value of an entry.
pub(crate) struct Part {
    /// What it is: `command`, `args`, `env`, `cwd`, `envFile`, `env_vars`, `url`, `headers`, `pin`, `ca`, `cert`, `key`,
    /// `oauth`, `allowed_tools`, `disabled_tools`.
    pub(crate) what: &'static str,
    /// As it is written, with `***` where a secret stands; of variables and headers the name alone.
    pub(crate) text: String,
    pub(crate) line: usize,
    /// The file in which it stands, where that is another one than the entry's.
    pub(crate) file: Option<String>,
}

/// Every file that would be looked into for an entry, in that order. Whoever uses an entry later finds what was read here.
pub(crate) fn survey(configured: &Configured) -> Result<Vec<File>, Failure> {
    let read = configured.readings.of(None, || super::files(None, configured))?;
    let mut known = BTreeMap::new();
    let mut broken = read.broken.iter().peekable();
    let mut files = Vec::new();
    for (place, configuration) in read.configurations.iter().enumerate() {
        while let Some(broken) = broken.next_if(|broken| broken.before <= place) {
            files.push(File::unread(broken));
        }
        files.push(configuration.survey(&mut known));
    }
    files.extend(broken.map(File::unread));
    Ok(files)
}

impl File {
    fn unread(broken: &Broken) -> Self {
        Self {
            name: crate::target::shown(broken.path.as_os_str()),
            dialect: None,
            problem: Some(broken.failure.message.clone()),
            warnings: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl Configuration {
    /// `known`: the names that were found before, and where.
    fn survey(&self, known: &mut BTreeMap<String, String>) -> File {
        let say = |problem: &Problem| self.source.say(problem);
        let mut entries = Vec::new();
        for entry in &self.contents.entries {
            let mut found = self.found(entry);
            if let Some(problem) = self.twice(&entry.name) {
                found.problems.insert(0, self.source.say(&problem));
            }
            match known.get(&entry.name) {
                Some(place) => found.shadowed = Some(place.clone()),
                None => _ = known.insert(entry.name.clone(), self.source.place(entry.at)),
            }
            entries.push(found);
        }
        let mut warnings: Vec<String> = self.contents.warnings.iter().map(say).collect();
        if self.writable_by_all() {
            warnings.insert(0, format!("anybody may write to {}: chmod o-w it", self.source.name()));
        }
        if let Some(problem) = trust::problem().filter(|_| self.asks()) {
            warnings.insert(0, problem.to_owned());
        }
        let (name, dialect) = (self.source.name(), Some(self.dialect.name()));
        File { name, dialect, problem: None, warnings, entries }
    }

    fn found(&self, entry: &Entry) -> Found {
        let mut found = Found {
            name: entry.name.clone(),
            line: self.source.line(entry.at),
            transport: None,
            description: None,
            parts: Vec::new(),
            disabled: None,
            shadowed: None,
            problems: Vec::new(),
            warnings: Vec::new(),
            untrusted: None,
            secrets: Vec::new(),
            kept: None,
        };
        let definition = match Definition::read(self.dialect, &entry.node) {
            Ok(definition) => definition,
            Err(problem) => {
                found.problems.push(self.source.say(&problem));
                return found;
            }
        };
        let lookup = |name: &str| std::env::var_os(name);
        let workspace = places::workspace(self.source.path());
        let texts = Texts::default();
        let names = self.names(&lookup, &workspace, &texts);
        found.untrusted = self.untrusted(entry, &definition, names);
        found.problems = match launch::launch(&definition.way, names) {
            Ok(launch) => {
                let nowhere = launch::without_directory(&definition.way, &launch);
                let nobody = launch::without_trust(&definition.way);
                found.secrets = launch.secrets;
                nowhere.iter().chain(&nobody).map(|problem| self.source.say(problem)).collect()
            }
            Err(problem) => {
                let missing = launch::missing(&definition.way, names);
                let problems = if missing.is_empty() { vec![problem] } else { missing };
                problems.iter().map(|problem| self.source.say(problem)).collect()
            }
        };
        let called = |what, name: &str, at| Part {
            what,
            text: name.to_owned(),
            line: self.source.line(at),
            file: None,
        };
        let part = |what, text: &Text| called(what, &text.text, text.at);
        let url = |text: &Text| called("url", &secret::masked([text.text.as_str()]).concat(), text.at);
        let named = |what, (name, text): &(String, Text)| called(what, name, text.at);
        // What names variables is not their value.
        let files = names.files;
        let is_literal = |text: &str| matches!(pieces(text, files)[..], [] | [Piece::Literal(_)]);
        let literal = |text: &Text| Some(OsString::from(&text.text)).filter(|_| is_literal(&text.text));
        let host = |text: &Text| secret::host(&text.text).filter(|host| is_literal(host)).map(str::to_owned);
        match &definition.way {
            Way::Child(child) => {
                found.transport = Some("stdio");
                found.kept = is_literal(&child.command.text).then(|| child.command.text.clone());
                found.parts.push(part("command", &child.command));
                let masked = secret::masked(child.args.iter().map(|arg| arg.text.as_str()));
                let args = child.args.iter().zip(&masked).map(|(arg, text)| called("args", text, arg.at));
                found.parts.extend(args);
                found.parts.extend(child.cwd.iter().map(|cwd| part("cwd", cwd)));
                found.parts.extend(child.env.iter().map(|pair| named("env", pair)));
                found.parts.extend(child.env_file.iter().map(|file| part("envFile", file)));
                if let Some(file) = &child.env_file {
                    // Why it cannot be read is among the problems.
                    let variables = launch::variables(child, names).unwrap_or_default();
                    found.parts.extend(variables.into_iter().map(|variable| Part {
                        what: "env",
                        text: variable.name,
                        line: variable.line,
                        file: Some(crate::target::shown(file.text.as_ref())),
                    }));
                }
                found.parts.extend(child.passed.iter().map(|name| part("env_vars", name)));
                let words: Vec<OsString> = child.args.iter().map(|arg| OsString::from(&arg.text)).collect();
                found.secrets.extend(written_secrets(&words));
                found.secrets.extend(child.env.iter().filter_map(|(_, text)| literal(text)));
            }
            Way::Http(remote) => {
                found.transport = Some(if remote.sse { "sse" } else { "http" });
                found.parts.push(url(&remote.url));
                found.kept = host(&remote.url);
                found.parts.extend(remote.headers.iter().map(|pair| named("headers", pair)));
                found.parts.extend(remote.ca.iter().map(|file| part("ca", file)));
                if let Some(oauth) = &remote.oauth {
                    let id = oauth.client_id.iter().map(|id| part("oauth", id));
                    let secret = oauth.client_secret.iter();
                    let secret = secret.map(|text| called("oauth", "clientSecret", text.at));
                    let scopes = oauth.scopes.iter().map(|scopes| part("oauth", scopes));
                    found.parts.extend(id.chain(secret).chain(scopes));
                    found.secrets.extend(oauth.client_secret.iter().filter_map(literal));
                }
                found.secrets.extend(written_secrets(&[OsString::from(&remote.url.text)]));
                found.secrets.extend(remote.headers.iter().filter_map(|(_, text)| literal(text)));
            }
            Way::Listening(Listening { url: address, scheme, sides }) => {
                found.transport = Some(scheme.name());
                found.parts.push(url(address));
                found.kept = host(address);
                found.parts.extend(sides.pin.iter().map(|pin| part("pin", pin)));
                found.parts.extend(sides.ca.iter().map(|file| part("ca", file)));
                if let Some((certificate, key)) = &sides.identity {
                    found.parts.extend([part("cert", certificate), part("key", key)]);
                }
                found.secrets.extend(written_secrets(&[OsString::from(&address.text)]));
            }
        }
        let [allowed, denied] = &definition.patterns;
        found.parts.extend(allowed.iter().map(|pattern| part("allowed_tools", pattern)));
        found.parts.extend(denied.iter().map(|pattern| part("disabled_tools", pattern)));
        found.description = definition.description;
        found.disabled = definition.disabled.map(|at| self.source.line(at));
        found.warnings = definition.warnings.iter().map(|problem| self.source.say(problem)).collect();
        // What is said of an entry is masked with its own secrets: no other entry decides about it.
        let secrets = Secrets::new(&found.secrets);
        let mut kept = Kept::default();
        found.kept.iter().for_each(|text| kept.add(text));
        for text in found.problems.iter_mut().chain(&mut found.warnings) {
            *text = kept.apart(text, |piece| secrets.hide(piece).into()).into_owned();
        }
        found
    }
}
