//! Checks the configuration before any of its servers is started: files, entries, variables, programs.
//!
//! Used by `overview` with the results of `config` and the report on the machine. Reads no file and starts no program.

use mcpjoin_diagnostics::doctor::{EnvironmentReport, LaunchContext, Outcome, SearchPaths};
use serde::Serialize;
use serde_json::{Value, json};

use super::json::{check, outcome};
use crate::config::{File, Found, Missing};
use crate::target::{exact, path_shown, shown};

/// Configuration files of programs that are started from a desktop.
const DESKTOP_FILES: [&str; 7] = [
    "claude_desktop_config.json",
    "Code/User/mcp.json",
    ".vscode/mcp.json",
    ".cursor/mcp.json",
    "zed/settings.json",
    "windsurf/mcp_config.json",
    ".lmstudio/mcp.json",
];

/// The fault of a command that contains a whole command line: only its first word is found.
fn command_line_fault(entry: &Found, place: &str, paths: &SearchPaths) -> Option<Fault> {
    let program = &entry.parts.iter().find(|part| part.what == "command")?.text;
    let (first, _) = program.split_once(char::is_whitespace)?;
    if paths.find(LaunchContext::Here, program).is_some() || paths.find(LaunchContext::Here, first).is_none()
    {
        return None;
    }
    Some(Fault {
        id: "entry-command-line",
        seen: format!(
            "{place}: {} has the whole command {} as its program",
            shown(entry.name.as_ref()),
            exact(program)
        ),
        meaning: "command must contain only the program, and no program has this name",
        advice: format!("write {} as the command, and each further word as an item of args", exact(first)),
    })
}

/// A fault in the configuration.
#[derive(Serialize)]
pub(super) struct Fault {
    pub(super) id: &'static str,
    pub(super) seen: String,
    pub(super) meaning: &'static str,
    pub(super) advice: String,
}

/// A server of the configuration.
pub(super) struct Server {
    pub(super) name: String,
    /// `FILE:LINE`
    pub(super) place: String,
    /// Why it is not examined.
    pub(super) not_run: Option<&'static str>,
}

/// The result of the checks.
pub(super) struct Configuration {
    /// The name of each file, its outcome, and its contents or the id of its fault.
    pub(super) files: Vec<(String, Outcome, String)>,
    pub(super) checks: [(&'static str, Outcome); 4],
    pub(super) faults: Vec<Fault>,
    pub(super) notes: Vec<String>,
    pub(super) servers: Vec<Server>,
    /// The command that trusts the entries that are not trusted.
    trusting: Option<String>,
}

const DISABLED: &str = "disabled";
const UNUSABLE: &str = "the entry is unusable";
const UNTRUSTED: &str = "not trusted";
const ASKS: &str = "VS Code asks for its inputs";

/// Indices of the checks.
const FILES: usize = 0;
const ENTRIES: usize = 1;
const PROGRAMS: usize = 2;
const DESKTOP_PROGRAMS: usize = 3;

impl Configuration {
    pub(super) fn of(files: &[File], machine: &EnvironmentReport) -> Self {
        let first =
            if files.is_empty() { Outcome::NotRun("there is no configuration") } else { Outcome::Passed };
        let mut whole = Self {
            files: Vec::new(),
            checks: ["files", "entries", "programs", "desktop-programs"].map(|name| (name, first)),
            faults: Vec::new(),
            notes: Vec::new(),
            servers: Vec::new(),
            trusting: None,
        };
        for file in files {
            whole.file(file, machine);
        }
        whole
    }

    /// The number of checks that were run.
    pub(super) fn checks_run(&self) -> usize {
        self.checks.iter().filter(|(_, how)| !matches!(how, Outcome::NotRun(_))).count()
    }

    /// The reasons why checks were not run and servers were not examined.
    pub(super) fn not_run(&self) -> impl Iterator<Item = &'static str> {
        let checks = self.checks.iter().filter_map(|(_, how)| match how {
            Outcome::NotRun(why) => Some(*why),
            _ => None,
        });
        checks.chain(self.servers.iter().filter_map(|server| server.not_run))
    }

    /// What was not started because it is not trusted, for the verdict.
    pub(super) fn not_started(&self) -> Option<String> {
        let trusting = self.trusting.as_ref()?;
        let all = self.servers.len();
        let what = match self.servers.iter().filter(|server| server.not_run == Some(UNTRUSTED)).count() {
            0 => return None,
            count if count == all => "no server was started".to_owned(),
            1 => format!("1 of {all} servers was not started"),
            count => format!("{count} of {all} servers were not started"),
        };
        Some(format!("{what}: you have not trusted the current definition ({trusting})"))
    }

    fn fail(&mut self, check: usize, fault: Fault) {
        self.checks[check].1 = Outcome::Failed;
        self.faults.push(fault);
    }

    fn file(&mut self, file: &File, machine: &EnvironmentReport) {
        if let Some(problem) = &file.problem {
            self.files.push((file.name.clone(), Outcome::Failed, "config-unreadable".to_owned()));
            return self.fail(
                FILES,
                Fault {
                    id: "config-unreadable",
                    seen: problem.clone(),
                    meaning: "the file is ignored, by mcpjoin and usually by its own program",
                    advice: "fix the file at this place".to_owned(),
                },
            );
        }
        self.notes.extend(file.warnings.iter().cloned());
        if let Some(problem) = &file.strict {
            self.fail(
                FILES,
                Fault {
                    id: "config-not-strict",
                    seen: problem.clone(),
                    meaning: "the program of this file shows none of its servers; mcpjoin can read the file",
                    advice: "write plain JSON there: no comma before a closing bracket, no comments, and \
                        double quotes"
                        .to_owned(),
                },
            );
        }
        for entry in &file.entries {
            self.entry(file, entry, machine);
        }
        let untrusted: Vec<_> = file.entries.iter().filter_map(|entry| entry.untrusted.as_ref()).collect();
        if let Some(first) = untrusted.first() {
            let trusting = format!("mcpjoin servers trust {}", path_shown(&first.folder));
            let what = if untrusted.len() == file.entries.len() { "nothing" } else { "not everything" };
            self.notes.push(format!(
                "{what} of {} was started: you have not trusted the current definition ({trusting})",
                file.name
            ));
            self.trusting.get_or_insert(trusting);
        }
        let count = file.entries.len();
        let entries = if count == 1 { "entry" } else { "entries" };
        let dialect = file.dialect.unwrap_or_default();
        self.files.push((file.name.clone(), Outcome::Passed, format!("{count} {entries} ({dialect})")));
    }

    fn entry(&mut self, file: &File, entry: &Found, machine: &EnvironmentReport) {
        let place = format!("{}:{}", file.name, entry.line);
        let name = shown(entry.name.as_ref());
        let not_run = if let Some(other) = &entry.shadowed {
            self.notes.push(format!("{place}: {name} is not used, because {other} comes first"));
            Some("an earlier entry has the same name")
        } else if entry.disabled.is_some() {
            Some(DISABLED)
        } else if let Some(Missing::Inputs(variables)) = &entry.missing {
            self.notes.push(format!(
                "{place}: {name} was not tried: VS Code would ask for its inputs; set {} to try it here",
                variables.join(" and ")
            ));
            Some(ASKS)
        } else if !entry.problems.is_empty() {
            self.unusable(&name, entry);
            Some(UNUSABLE)
        } else if let Some(fault) =
            machine.paths.as_ref().and_then(|paths| command_line_fault(entry, &place, paths))
        {
            self.fail(ENTRIES, fault);
            Some(UNUSABLE)
        } else if entry.untrusted.is_some() {
            Some(UNTRUSTED)
        } else {
            None
        };
        if entry.shadowed.is_none() {
            self.notes.extend(entry.warnings.iter().cloned());
            let is_usable = !matches!(not_run, Some(DISABLED | UNUSABLE | ASKS));
            if is_usable && let Some(paths) = &machine.paths {
                self.program(file, entry, &place, not_run.is_none(), paths);
            }
        }
        self.servers.push(Server { name: entry.name.clone(), place, not_run });
    }

    fn unusable(&mut self, name: &str, entry: &Found) {
        let unset = entry.missing.is_some();
        let advice = match unset {
            true => {
                "set the variable in the program that starts the server, or give it a default: \
                ${NAME:-default}"
            }
            false => "fix the file at this place",
        };
        self.fail(
            ENTRIES,
            Fault {
                id: if unset { "entry-variable-missing" } else { "entry-unusable" },
                seen: format!("{name}: {}", entry.problems.join("; ")),
                meaning: "this server cannot be started or reached; other servers can",
                advice: advice.to_owned(),
            },
        );
    }

    /// Checks whether the program of an entry is found. `examined`: the examination of the server reports that, too.
    fn program(&mut self, file: &File, entry: &Found, place: &str, examined: bool, paths: &SearchPaths) {
        let program = entry.parts.iter().find(|part| part.what == "command").map(|part| part.text.as_str());
        // A relative path depends on the working directory, and an entry with its own PATH is searched there.
        let own = entry.parts.iter().any(|part| part.what == "env" && part.text == "PATH");
        let written = |program: &&str| !program.contains('$') && !program.contains("{env:") && !own;
        let findable = |program: &&str| program.starts_with('/') || !program.contains('/');
        let Some(program) = program.filter(written).filter(findable) else { return };
        let (name, shown_program) = (shown(entry.name.as_ref()), exact(program));
        let Some(here) = paths.find(LaunchContext::Here, program) else {
            if !examined {
                let fault = Fault {
                    id: "entry-program-missing",
                    seen: format!("{place}: {name} runs {shown_program}, which is not found"),
                    meaning: "this server cannot be started from here",
                    advice: "install the program, or use its absolute path as the command".to_owned(),
                };
                self.fail(PROGRAMS, fault);
            }
            return;
        };
        let of_desktop = DESKTOP_FILES.iter().any(|known| file.name.contains(known));
        if of_desktop
            && paths.is_known(LaunchContext::Desktop)
            && paths.find(LaunchContext::Desktop, program).is_none()
        {
            let folder = here.parent().unwrap_or(&here).display();
            self.fail(
                DESKTOP_PROGRAMS,
                Fault {
                    id: "entry-not-on-desktop",
                    seen: format!(
                        "{place}: {name} runs {shown_program}, which is found from here ({}), but not by a \
                         desktop session",
                        here.display()
                    ),
                    meaning: "the program that reads this file cannot start this server when it is opened \
                        from the menu",
                    advice: format!(
                        "write {} as its command, and add \"PATH\": \
                         \"{folder}:/usr/local/bin:/usr/bin:/bin\" to its env",
                        here.display()
                    ),
                },
            );
        }
    }

    /// For a program.
    pub(super) fn document(&self) -> Value {
        let files = self.files.iter().map(|(path, how, detail)| {
            // The contents, or the id of the fault.
            json!({ "path": path, "outcome": outcome(*how), "detail": detail })
        });
        json!({
            "files": files.collect::<Value>(),
            "checks": self.checks.iter().map(|(it, how)| check(it, *how)).collect::<Value>(),
            "findings": self.faults,
            "notes": self.notes,
        })
    }
}
