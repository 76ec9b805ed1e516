//! What is said of servers before anything of them is used, and the question about what lies where somebody else may have
//! put it: asked once for each folder, with everything before it that would be used.
//!
//! Called by `connect` when all plans are made, and before any of them is carried out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Plan;
use crate::config;
use crate::failure::Failure;
use crate::target::shown;
use crate::ui::Ui;

/// What has to be said of a server, or asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consent {
    /// What is said of it, and whether without being asked.
    pub(super) say: Option<(String, bool)>,
    /// The folder that the user has to trust first.
    pub(super) untrusted: Option<PathBuf>,
}

/// Says what is to be said of them. In the place of one that the user does not let in stands why.
pub(super) fn ask(ui: &Ui, plans: &mut [Result<Plan, Failure>]) {
    let mut asked: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for Consent { say, untrusted } in plans.iter().flatten().map(|plan| &plan.consent) {
        match (untrusted, say) {
            (Some(folder), say) => {
                asked.entry(folder.clone()).or_default().extend(say.iter().map(|(say, _)| say.clone()));
            }
            (None, Some((say, true))) => ui.note(say),
            (None, Some((say, false))) => ui.detail(say),
            (None, None) => {}
        }
    }
    for (folder, entries) in asked {
        let Err(refused) = about(ui, &folder, &entries) else { continue };
        for plan in plans.iter_mut() {
            let is_there = |plan: &Plan| plan.consent.untrusted.as_ref() == Some(&folder);
            if plan.as_ref().is_ok_and(is_there) {
                *plan = Err(refused.clone());
            }
        }
    }
}

/// Shows what would be used, however quiet, and asks whether it is to be.
fn about(ui: &Ui, folder: &Path, entries: &[String]) -> Result<(), Failure> {
    let name = shown(folder.as_os_str());
    ui.warning_in_full(&format!("you have not trusted {name}, where this lies:\n  {}", entries.join("\n  ")));
    let what = if entries.len() == 1 { "it" } else { "them" };
    match ui.ask(&format!("Use {what}? [y]es, [a]lways in this folder, [N]o ")) {
        Some(answer) if answer.eq_ignore_ascii_case("y") => Ok(()),
        Some(answer) if answer.eq_ignore_ascii_case("a") => {
            config::trust(folder).map(|_| ()).map_err(|error| {
                let problem = format!("{name} cannot be trusted: {error}");
                Failure::usage(problem, "name the file with --config FILE")
            })
        }
        answer => {
            let why = if answer.is_some() { "" } else { ", and there is no terminal to ask on" };
            let problem = format!("the entry lies in {name}, which is not trusted{why}");
            let hint = format!("mcpjoin servers trust {name}, or name the file: --config FILE");
            let mut failure = Failure::usage(problem, hint);
            failure.id = "E_NOT_TRUSTED";
            Err(failure)
        }
    }
}
