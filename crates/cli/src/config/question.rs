//! The question before an entry of the working directory is used: the whole entry as the file has it, and its changes since the
//! user trusted it.
//!
//! Used when an entry is launched, by `survey`, and by `servers trust`.

use std::path::{Path, PathBuf};

use super::entry::Definition;
use super::files::{Configuration, Unread};
use super::members::Members;
use super::parsed_file::Entry;
use super::trust::{self, TrustState, Trusted};
use super::variables::Names;
use super::{called, places};
use crate::target::path_shown;

/// A definition that the user has not trusted, or not in its present form.
#[derive(Clone, Debug)]
pub(crate) struct Untrusted {
    /// The real path of the folder.
    pub(crate) folder: PathBuf,
    /// The place of the entry.
    pub(crate) place: String,
    pub(crate) name: String,
    /// The command or the address, then a line for each other member; `None` where that is too long.
    pub(crate) lines: Option<Vec<String>>,
    /// The differences from the trusted definition; `None` where there is none.
    pub(crate) changes: Option<Vec<String>>,
    /// The definition for the list of trusted ones; `None` where the list cannot hold it.
    pub(crate) definition: Option<Trusted>,
    /// The list of an earlier version that names the folder, and is not used any more.
    pub(crate) outdated: Option<PathBuf>,
}

impl Configuration {
    /// Whether its entries need trust.
    pub(super) fn asks(&self) -> bool {
        self.here.as_ref().is_some_and(|(folder, _)| !trust::is_home(folder))
    }

    /// The definition that the user has to trust before the entry is used; `None` where that is not necessary.
    pub(super) fn untrusted(
        &self,
        entry: &Entry,
        definition: &Definition,
        names: &Names<'_>,
    ) -> Option<Untrusted> {
        let (folder, file) = self.here.as_ref().filter(|_| self.asks())?;
        let members = Members::of(definition, names);
        let lines = members.lines();
        let text = folder.to_str().filter(|_| lines.is_some());
        let trusted = text.map(|text| Trusted::new(text, file, &entry.name, members.stored()));
        let changes = match trusted.as_ref().map_or(TrustState::Unknown, trust::state) {
            TrustState::Trusted => return None,
            TrustState::Unknown => None,
            TrustState::Changed(before) => Some(members.changes(&before)),
        };
        Some(Untrusted {
            folder: folder.clone(),
            place: self.source.place(entry.at),
            name: called(&entry.name),
            lines,
            changes,
            definition: trusted,
            outdated: trust::outdated(folder),
        })
    }
}

/// An entry in a folder, for `servers trust`.
pub(crate) struct Trustable {
    /// `FILE:LINE:COLUMN`
    pub(crate) place: String,
    /// As the file has it.
    pub(crate) name: String,
    /// The lines that are shown, and the definition for the list; otherwise why it cannot be trusted.
    pub(crate) definition: Result<(Vec<String>, Trusted), String>,
}

/// Every entry of a folder, as if it were the working directory, and why files there cannot be read.
pub(crate) fn in_folder(folder: &Path) -> (Vec<Trustable>, Vec<String>) {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for place in places::in_folder(folder) {
        match Configuration::at(&place) {
            Ok(configuration) => {
                let found = configuration.parsed.entries.iter();
                entries.extend(found.map(|entry| configuration.trustable(entry)));
            }
            Err(Unread { empty: true, .. }) if place.shared => {}
            Err(Unread { failure, .. }) => problems.push(failure.message),
        }
    }
    (entries, problems)
}

impl Configuration {
    fn trustable(&self, entry: &Entry) -> Trustable {
        let definition = self.definition(entry).map_err(|problem| problem.text);
        let definition = definition.and_then(|definition| {
            let members = Members::of(&definition, &self.names_of_process());
            let lines = members.lines().ok_or_else(|| TOO_LONG.to_owned())?;
            let here = self.here.as_ref().and_then(|(folder, file)| Some((folder.to_str()?, file)));
            let (folder, file) = here.ok_or("the path of its folder contains a line break")?;
            Ok((lines, Trusted::new(folder, file, &entry.name, members.stored())))
        });
        Trustable { place: self.source.place(entry.at), name: entry.name.clone(), definition }
    }
}

/// The text of the question about definitions.
pub(crate) fn page(definitions: &[&Untrusted]) -> String {
    let mut page = Vec::new();
    for Untrusted { place, name, lines, changes, .. } in definitions {
        let Some((first, rest)) = lines.as_deref().and_then(<[String]>::split_first) else {
            page.push(format!("  {name} of {place}: {TOO_LONG}"));
            continue;
        };
        page.push(format!("  {name} of {place}: {first}"));
        page.extend(rest.iter().map(|line| format!("    {line}")));
        if let Some(changes) = changes {
            page.push("    it differs from the definition that you trusted:".into());
            page.extend(changes.iter().map(|line| format!("      {line}")));
        }
    }
    if let Some(list) = definitions.iter().find_map(|one| one.outdated.as_ref()) {
        let list = path_shown(list);
        page.push(format!(
            "  The folders in {list} no longer count: each definition is trusted in its \
            current form"
        ));
    }
    page.join("\n")
}

/// The reason why the user is not asked about a definition.
pub(crate) const TOO_LONG: &str = "it is too long to be shown in full (4 KiB or 50 lines)";
