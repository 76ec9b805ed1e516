//! Every entry of one file, for verbs that look at a whole configuration.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Configuration, Origin, source};
use crate::config::entry::Definition;
use crate::failure::Failure;
use crate::target::{Named, Target, shown};
use crate::ui::Ui;

/// The entries of the file, in their order, each by its name. What is wrong with one is told when it is used; one that
/// the file calls disabled is said and left out.
pub(crate) fn all(ui: &Ui, file: &Path) -> Result<Vec<Target>, Failure> {
    let configuration = Configuration::read(file, Origin::Chosen)?;
    let mut names = BTreeSet::new();
    let mut targets = Vec::new();
    for entry in &configuration.contents.entries {
        // The second of two is told with the first.
        if !names.insert(&entry.name) {
            continue;
        }
        let definition = Definition::read(configuration.dialect, &entry.node);
        if let Some(at) = definition.ok().and_then(|definition| definition.disabled) {
            let place = configuration.source.place(at);
            ui.note(&format!("{place}: {} is disabled, and left out", shown(entry.name.as_ref())));
            continue;
        }
        targets.push(Target::Entry(Named {
            file: None,
            name: entry.name.clone(),
            or_program: false,
            instead: String::new(),
        }));
    }
    if targets.is_empty() {
        let problem = format!("there is no entry in {} that could be used", configuration.source.name());
        return Err(source::failure(problem, "name another file with --config FILE"));
    }
    Ok(targets)
}
