//! The notes about servers before they are used, and the question about definitions that another person may have written:
//! asked once for each folder, after all definitions of that folder were shown.
//!
//! The question shows definitions as their files have them. No list of secrets is applied to it, since the author of a
//! definition could then choose what the user sees of it.
//!
//! Called by `connect` when all plans are made, and before any server is started or reached.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Plan;
use crate::config::{self, TOO_LONG, Untrusted};
use crate::failure::Failure;
use crate::target::path_shown;
use crate::ui::{Secrets, Ui};

/// The largest question, which is about all definitions of a folder: ten terminals of 80 columns and 40 lines. Users do not
/// read a longer one, and would trust a definition in the middle of it unseen.
const MAX_QUESTION_BYTES: usize = 32 << 10;
/// The most lines of a question: the same ten terminals. Thousands of short lines have few bytes.
const MAX_QUESTION_LINES: usize = 400;
/// A terminal of 24 lines does not show the beginning of a longer question, where the command stands.
const SCREEN_LINES: usize = 20;

/// What is said or asked about a server.
#[derive(Default)]
pub(super) struct Consent {
    /// A note, with its secrets masked, and whether it is shown without `-v`.
    pub(super) say: Option<(String, bool)>,
    /// The definition that the user has to trust.
    pub(super) untrusted: Option<Box<Untrusted>>,
    /// The secrets that are hidden once the definition is trusted.
    pub(super) secrets: Vec<Secrets>,
}

impl Consent {
    /// None of these texts is shown from now on. Secrets of an untrusted entry are hidden once the user has trusted it.
    pub(super) fn hide(&mut self, ui: &Ui, values: &[OsString]) {
        let secrets = Secrets::new(values);
        match self.untrusted {
            Some(_) => self.secrets.push(secrets),
            None => ui.hide(secrets),
        }
    }
}

/// Prints the notes and asks the questions. A plan that the user refuses is replaced by its failure.
pub(super) fn ask(ui: &Ui, plans: &mut [Result<Plan, Failure>]) {
    let mut asked: BTreeMap<PathBuf, Vec<&Untrusted>> = BTreeMap::new();
    for Consent { say, untrusted, .. } in plans.iter().flatten().map(|plan| &plan.consent) {
        match (untrusted, say) {
            (Some(untrusted), _) => asked.entry(untrusted.folder.clone()).or_default().push(untrusted),
            (None, Some((say, true))) => ui.note_masked(say),
            (None, Some((say, false))) if ui.verbosity() > 0 => ui.note_masked(say),
            (None, _) => {}
        }
    }
    let refusals: BTreeMap<PathBuf, Failure> = asked
        .into_iter()
        .filter_map(|(folder, definitions)| Some((folder.clone(), about(ui, &folder, &definitions).err()?)))
        .collect();
    for plan in plans.iter_mut() {
        let Ok(Plan { consent, .. }) = plan else { continue };
        let refused = consent.untrusted.as_ref().and_then(|untrusted| refusals.get(&untrusted.folder));
        match refused {
            Some(refused) => *plan = Err(refused.clone()),
            None => consent.secrets.drain(..).for_each(|secrets| ui.hide(secrets)),
        }
    }
}

/// Shows the definitions, also with `--quiet`, and asks whether to use them.
fn about(ui: &Ui, folder: &Path, definitions: &[&Untrusted]) -> Result<(), Failure> {
    let name = path_shown(folder);
    let page = config::page(definitions);
    let lines = page.lines().count();
    let is_too_long = page.len() > MAX_QUESTION_BYTES || lines > MAX_QUESTION_LINES;
    if !is_too_long {
        ui.warning_as_written(&format!(
            "these servers come from {name}, a folder you have not trusted:\n{page}"
        ));
    }
    let refused = |why: &str| {
        let problem = format!("the entry is in {name} and is not trusted{why}");
        let hint = format!("mcpjoin servers trust {name}, or name the file: --config FILE");
        let mut failure = Failure::usage(problem, hint);
        failure.id = "E_NOT_TRUSTED";
        failure
    };
    if is_too_long {
        let bound = format!("({} KiB or {MAX_QUESTION_LINES} lines)", MAX_QUESTION_BYTES >> 10);
        return Err(refused(&match definitions.len() {
            1 => format!(": its changes are too long to be shown {bound}"),
            count => {
                format!(": {count} entries are too long to be shown together {bound}; name one of them")
            }
        }));
    }
    if definitions.iter().any(|definition| definition.lines.is_none()) {
        return Err(refused(&format!(": {TOO_LONG}")));
    }
    let what = if definitions.len() == 1 { "it" } else { "them" };
    let above = if lines > SCREEN_LINES { format!("Read all {lines} lines above. ") } else { String::new() };
    match ui.ask(&format!("{above}Run {what}? [y]es, [a]lways, until it changes, [N]o ")) {
        Some(answer) if answer.eq_ignore_ascii_case("y") => Ok(()),
        Some(answer) if answer.eq_ignore_ascii_case("a") => {
            let trusted: Option<Vec<_>> = definitions.iter().map(|one| one.definition.clone()).collect();
            let stored = match trusted {
                Some(trusted) => config::trust(&trusted).map(drop).map_err(|error| error.to_string()),
                None => Err("the path of its folder contains a line break".into()),
            };
            stored.map_err(|problem| {
                let problem = format!("the entries in {name} cannot be trusted: {problem}");
                Failure::usage(problem, "use the file with --config FILE")
            })
        }
        Some(_) => Err(refused("")),
        None => Err(refused(", and there is no terminal for the question")),
    }
}
