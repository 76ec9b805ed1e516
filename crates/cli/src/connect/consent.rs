//! What is said of servers before anything of them is used, and the question about what lies where somebody else may have
//! put it: asked once for each folder, with everything before it that would be used.
//!
//! The question shows definitions as their files have them. No list of secrets is applied to it: whoever wrote the
//! definition would choose what the user sees of it.
//!
//! Called by `connect` when all plans are made, and before any of them is carried out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Plan;
use crate::config::{self, TOO_LONG, Untrusted};
use crate::failure::Failure;
use crate::target::shown;
use crate::ui::{Secrets, Ui};

/// What has to be said of a server, or asked.
#[derive(Default)]
pub(crate) struct Consent {
    /// What is said of it, and whether without being asked. Its secrets are masked.
    pub(super) say: Option<(String, bool)>,
    /// What the user has to trust first.
    pub(super) untrusted: Option<Box<Untrusted>>,
    /// What is not shown once it is trusted.
    pub(super) secrets: Vec<Secrets>,
}

/// Says what is to be said of them. In the place of one that the user does not let in stands why.
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

/// The most bytes of one question, which is about all definitions of a folder: ten terminals of 80 columns and 40 lines. Users
/// do not read a longer one, and would trust a definition in the middle of it unseen.
const MOST: usize = 32 << 10;
/// The most lines of one question: the same ten terminals. Thousands of short lines have few bytes.
const LINES: usize = 400;

/// Of a longer question a terminal of 24 lines does not show the beginning, where the command stands.
const SCREEN: usize = 20;

/// Shows what would be used, however quiet, and asks whether it is to be.
fn about(ui: &Ui, folder: &Path, definitions: &[&Untrusted]) -> Result<(), Failure> {
    let name = shown(folder.as_os_str());
    let page = config::page(definitions);
    let lines = page.lines().count();
    let is_too_long = page.len() > MOST || lines > LINES;
    if !is_too_long {
        ui.warning_as_written(&format!("you have not trusted what lies in {name}:\n{page}"));
    }
    let refused = |why: &str| {
        let problem = format!("the entry lies in {name} and is not trusted{why}");
        let hint = format!("mcpjoin servers trust {name}, or name the file: --config FILE");
        let mut failure = Failure::usage(problem, hint);
        failure.id = "E_NOT_TRUSTED";
        failure
    };
    if is_too_long {
        let bound = format!("({} KiB or {LINES} lines)", MOST >> 10);
        return Err(refused(&match definitions.len() {
            1 => format!(": what has changed of it is too long to be shown {bound}"),
            count => {
                format!(": {count} entries are too long to be shown together {bound}; name one of them")
            }
        }));
    }
    if definitions.iter().any(|definition| definition.lines.is_none()) {
        return Err(refused(&format!(": {TOO_LONG}")));
    }
    let what = if definitions.len() == 1 { "it" } else { "them" };
    let above = if lines > SCREEN { format!("Read all {lines} lines above. ") } else { String::new() };
    match ui.ask(&format!("{above}Use {what}? [y]es, [a]lways, until it changes, [N]o ")) {
        Some(answer) if answer.eq_ignore_ascii_case("y") => Ok(()),
        Some(answer) if answer.eq_ignore_ascii_case("a") => {
            let trusted: Option<Vec<_>> = definitions.iter().map(|one| one.definition.clone()).collect();
            let stored = match trusted {
                Some(trusted) => config::trust(&trusted).map(drop).map_err(|error| error.to_string()),
                None => Err("the path of its folder is no line of text".into()),
            };
            stored.map_err(|problem| {
                let problem = format!("what lies in {name} cannot be trusted: {problem}");
                Failure::usage(problem, "name the file with --config FILE")
            })
        }
        Some(_) => Err(refused("")),
        None => Err(refused(", and there is no terminal to ask on")),
    }
}
