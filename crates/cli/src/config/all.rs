//! Every entry of a configuration that was named, for verbs that look at all of it.

use std::collections::BTreeSet;

use super::{called, source};
use crate::args::Configured;
use crate::config::entry::Definition;
use crate::failure::Failure;
use crate::target::{Named, Target};
use crate::ui::Ui;

/// The entries of what was named, in their order, each by its name. What is wrong with one is told when it is used; one that
/// the file calls disabled is said and left out.
pub(crate) fn all(ui: &Ui, configured: &Configured) -> Result<Vec<Target>, Failure> {
    let files = super::read(ui, None, configured)?;
    let configurations = &files.configurations;
    let mut names = BTreeSet::new();
    let mut targets = Vec::new();
    for configuration in configurations {
        for entry in &configuration.contents.entries {
            // The second of two is told with the first.
            if !names.insert(entry.name.clone()) {
                continue;
            }
            let definition = Definition::read(configuration.dialect, &entry.node);
            if let Some(at) = definition.ok().and_then(|definition| definition.disabled) {
                let place = configuration.source.place(at);
                ui.note(&format!("{place}: {} is disabled, and left out", called(&entry.name)));
                continue;
            }
            targets.push(Target::Entry(Named {
                file: None,
                name: entry.name.clone(),
                or_program: false,
                instead: String::new(),
            }));
        }
    }
    if configurations.is_empty() {
        let problem = "no server is named, and there is no configuration";
        return Err(Failure::usage(problem, "name a server, or a configuration: --config FILE"));
    }
    if targets.is_empty() {
        let names: Vec<String> = configurations.iter().map(|one| one.source.name()).collect();
        let problem = format!("there is no entry in {} that could be used", names.join(" or "));
        return Err(source::failure(problem, "name another file with --config FILE"));
    }
    Ok(targets)
}
