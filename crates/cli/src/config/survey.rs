//! The content of all configurations: each entry with the place of every value, the entry that shadows it, and its problems.
//!
//! Used by the verb `servers`, and by `doctor` without a target. It starts nothing, and shows no value of a variable or a header.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Serialize;

use super::dialect::{Key, Transport};
use super::entry::{Definition, Setting};
use super::files::{Broken, Configuration};
use super::launch::{self, written_secrets};
use super::parsed_file::Entry;
use super::question::Untrusted;
use super::source::{Problem, ProblemKind};
use super::strict;
use super::trust;
use super::variables::{Piece, pieces};
use crate::args::Configured;
use crate::failure::Failure;
use crate::secret::{self, AlwaysShown, Secrets};
use crate::target::path_shown;

/// One file.
pub(crate) struct File {
    /// As the user would type it.
    pub(crate) name: String,
    /// For a program.
    pub(crate) path: String,
    /// The name of its dialect; `None` when it cannot be read.
    pub(crate) dialect: Option<&'static str>,
    /// Why it cannot be used.
    pub(crate) problem: Option<String>,
    pub(crate) warnings: Vec<String>,
    /// Why the program that owns the file cannot read it.
    pub(crate) strict: Option<String>,
    pub(crate) entries: Vec<Found>,
}

/// One entry.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// `stdio`, `http`, `sse`, `quic`, `tcp` or `unix`; `None` when the entry cannot be read.
    pub(crate) transport: Option<&'static str>,
    pub(crate) description: Option<String>,
    pub(crate) parts: Vec<Part>,
    /// The line that disables it for other programs.
    pub(crate) disabled: Option<usize>,
    /// The place of the entry of the same name that is used instead.
    pub(crate) shadowed: Option<String>,
    /// Why it cannot be used: its faults, or every variable that is missing.
    pub(crate) problems: Vec<String>,
    /// What is missing, where that is the only problem.
    pub(crate) missing: Option<Missing>,
    pub(crate) warnings: Vec<String>,
    /// The definition that the user has to trust before it is used.
    pub(crate) untrusted: Option<Untrusted>,
    /// The texts that are hidden in the output of a server.
    pub(crate) secrets: Vec<OsString>,
    /// The program or the host, where the file names it without a variable.
    pub(crate) kept: Option<String>,
}

/// Values that an entry refers to and that are not set.
pub(crate) enum Missing {
    Variables,
    /// Inputs alone, for which the owner of the file asks its user. The variables that give them values here.
    Inputs(Vec<String>),
}

impl Missing {
    fn of(problems: &[Problem]) -> Option<Self> {
        let is_unset = |kind: &ProblemKind| matches!(kind, ProblemKind::Unset | ProblemKind::UnsetInput(_));
        if problems.is_empty() || !problems.iter().all(|problem| is_unset(&problem.kind)) {
            return None;
        }
        let input = |problem: &Problem| match &problem.kind {
            ProblemKind::UnsetInput(variable) => Some(variable.clone()),
            _ => None,
        };
        Some(problems.iter().map(input).collect::<Option<_>>().map_or(Self::Variables, Self::Inputs))
    }
}

/// A value of an entry.
#[derive(Serialize)]
pub(crate) struct Part {
    /// Its kind: `command`, `args`, `env`, `cwd`, `envFile`, `env_vars`, `url`, `headers`, `pin`, `ca`, `cert`, `key`,
    /// `oauth`, `allowed_tools`, `disabled_tools`.
    pub(crate) what: &'static str,
    /// As the file has it, with `***` for secrets. Of variables and headers only the name.
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Its file, where that is another one than the entry's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
}

/// Every file in which an entry would be searched, in that order. An entry that is used later is used as it was read here.
pub(crate) fn survey(configured: &Configured) -> Result<Vec<File>, Failure> {
    let read = configured.readings.of(None, || super::files::read(None, configured))?;
    let mut known = BTreeMap::new();
    let survey = |file: &Result<Configuration, Broken>| match file {
        Ok(configuration) => configuration.survey(&mut known),
        Err(broken) => File::unread(broken),
    };
    Ok(read.0.iter().map(survey).collect())
}

impl File {
    fn unread(broken: &Broken) -> Self {
        Self {
            name: path_shown(&broken.path),
            path: broken.path.to_string_lossy().into_owned(),
            dialect: None,
            problem: Some(broken.failure.message.clone()),
            warnings: Vec::new(),
            strict: None,
            entries: Vec::new(),
        }
    }
}

impl Configuration {
    /// `known`: the names of entries that were found before, and their places.
    fn survey(&self, known: &mut BTreeMap<String, String>) -> File {
        let say = |problem: &Problem| self.source.say(problem);
        let mut entries = Vec::new();
        for entry in &self.parsed.entries {
            let mut found = self.found(entry);
            if let Some(problem) = self.twice(&entry.name) {
                found.problems.insert(0, self.source.say(&problem));
                found.missing = None;
            }
            match known.get(&entry.name) {
                Some(place) => found.shadowed = Some(place.clone()),
                None => _ = known.insert(entry.name.clone(), self.source.place(entry.at)),
            }
            entries.push(found);
        }
        let mut warnings: Vec<String> = self.parsed.warnings.iter().map(say).collect();
        if self.source.writable_by_all() {
            warnings.insert(0, format!("all users can write to {}: chmod o-w it", self.source.name()));
        }
        if let Some(problem) = trust::problem().filter(|_| self.asks()) {
            warnings.insert(0, problem.to_owned());
        }
        let (name, dialect) = (self.source.name(), Some(self.dialect.name()));
        let path = self.source.path().to_string_lossy().into_owned();
        let strict = strict::problem(&self.source).map(|problem| say(&problem));
        File { name, path, dialect, problem: None, warnings, strict, entries }
    }

    pub(super) fn found(&self, entry: &Entry) -> Found {
        let (name, line) = (entry.name.clone(), self.source.line(entry.at));
        let mut found = Found { name, line, ..Found::default() };
        let definition = match Definition::read(self.dialect, &entry.node) {
            Ok(definition) => definition,
            Err(problem) => {
                found.problems.push(self.source.say(&problem));
                return found;
            }
        };
        let names = self.names_of_process();
        found.untrusted = self.untrusted(entry, &definition, &names);
        let problems: Vec<Problem> = match launch::launch(&definition, &names) {
            Ok(launch) => {
                let directory = launch::without_directory(&definition, &launch);
                let trust = launch::without_trust(&definition);
                found.secrets = launch.secrets;
                directory.into_iter().chain(trust).collect()
            }
            Err(problem) => {
                let missing = launch::missing(&definition, &names);
                if missing.is_empty() { vec![problem] } else { missing }
            }
        };
        found.missing = Missing::of(&problems);
        found.problems = problems.iter().map(|problem| self.source.say(problem)).collect();
        found.transport = Some(definition.transport.name());
        // A reference is no secret.
        let is_literal =
            |text: &str| matches!(pieces(text, names.files)[..], [] | [Piece::Literal(_) | Piece::Broken(_)]);
        let (command, url) = (definition.text(Key::Command), definition.text(Key::Url));
        let host = url.and_then(|url| secret::host(&url.text)).filter(|host| is_literal(host));
        let program = command.map(|command| command.text.as_str()).filter(|program| is_literal(program));
        found.kept = program.or(host).map(str::to_owned);
        let args = || definition.of(Key::Args).map(|arg| arg.text.text.as_str());
        let mut masked = secret::masked(args()).into_iter();
        for Setting { key, name, text } in &definition.settings {
            let shown = match key {
                Key::RedirectUri => continue,
                Key::Args => masked.next().unwrap_or_default(),
                Key::Url => secret::masked([text.text.as_str()]).concat(),
                Key::Env | Key::Headers | Key::ClientSecret => name.clone(),
                _ => text.text.clone(),
            };
            found.parts.push(Part {
                what: key.name(),
                text: shown,
                line: self.source.line(text.at),
                file: None,
            });
            if *key == Key::EnvFile {
                // The reason why it cannot be read is among the problems.
                let variables = launch::variables(&definition, &names).unwrap_or_default();
                found.parts.extend(variables.into_iter().map(|variable| Part {
                    what: Key::Env.name(),
                    text: variable.name,
                    line: variable.line,
                    file: Some(crate::target::shown(text.text.as_ref())),
                }));
            }
            let is_value = matches!(key, Key::Env | Key::Headers | Key::ClientSecret);
            found.secrets.extend((is_value && is_literal(&text.text)).then(|| OsString::from(&text.text)));
        }
        let words = match definition.transport {
            Transport::Stdio => args().map(OsString::from).collect(),
            _ => url.map(|url| vec![OsString::from(&url.text)]).unwrap_or_default(),
        };
        found.secrets.extend(written_secrets(&words));
        found.description = definition.description;
        found.disabled = definition.disabled.map(|at| self.source.line(at));
        found.warnings = definition.warnings.iter().map(|problem| self.source.say(problem)).collect();
        // Messages about an entry are masked with its own secrets, so that other entries cannot change them.
        let secrets = Secrets::new(&found.secrets);
        let mut kept = AlwaysShown::default();
        found.kept.iter().for_each(|text| kept.add(text));
        for text in found.problems.iter_mut().chain(&mut found.warnings) {
            *text = kept.hide_between(text, |piece| secrets.hide(piece)).into_owned();
        }
        found
    }
}
