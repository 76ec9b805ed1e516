//! The table of foreign clients, `interop/clients/table.md`: parses its rows, and compares a cell with an observed outcome.
//!
//! Used by [`crate::client`] and the tests of clients. It runs nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use crate::client::Way;

/// The checks of every client, in the order of the table's columns.
pub(crate) const CHECKS: [&str; 13] = [
    "open",
    "list",
    "content",
    "progress",
    "cancel",
    "sampling",
    "elicitation",
    "roots",
    "resources",
    "prompts",
    "completion",
    "fifty",
    "end",
];

/// The table, with its notes.
const TABLE: &str = include_str!("../clients/table.md");

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All values were right.
    Right,
    /// The client has a fault: its message, or the description by its script.
    Fault(String),
    /// The client has a fault: the observation from outside.
    FaultSeen(String),
    /// The client does not support this, with the reason.
    Cannot(String),
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) version: String,
    /// In the order of [`CHECKS`].
    pub(crate) cells: Vec<Cell>,
}

/// A cell of the table, with the text of its note.
#[derive(Debug)]
pub(crate) struct Cell {
    word: String,
    note: Option<String>,
}

impl Row {
    /// The one row of this client in this era over this transport.
    pub(crate) fn of(name: &str, era: &str, way: &str) -> Self {
        let rows = table();
        let mut found = rows.iter().filter(|row| row[0] == name && row[2] == era && row[3] == way);
        let row = found.next().unwrap_or_else(|| panic!("the table has no row `{name}`, `{era}`, `{way}`"));
        assert!(found.next().is_none(), "the table has two rows `{name}`, `{era}`, `{way}`");
        Self { version: row[1].clone(), cells: row[4..].iter().map(|cell| Cell::read(cell)).collect() }
    }
}

impl Cell {
    fn read(cell: &str) -> Self {
        let Some((word, note)) = cell.split_once(" [") else {
            return Self { word: cell.to_owned(), note: None };
        };
        let number = note.strip_suffix(']').unwrap_or_else(|| panic!("no such cell: {cell}"));
        let note = TABLE
            .lines()
            .find_map(|line| line.strip_prefix(number)?.strip_prefix(". "))
            .unwrap_or_else(|| panic!("the table has no note {number}"));
        Self { word: word.to_owned(), note: Some(note.to_owned()) }
    }

    /// Compares the cell with the observed outcome. A cell that is not `right` has a note, and the first text in backticks of
    /// the note quotes a part of the script's message, or the whole observation from outside.
    pub(crate) fn says(&self, seen: &Outcome) -> Result<(), String> {
        let quoted = self.note.as_deref().and_then(|note| note.split('`').nth(1)).unwrap_or_default();
        let (word, noted) = match seen {
            Outcome::Right => ("right", self.note.is_none()),
            Outcome::Fault(why) => ("fault", !quoted.is_empty() && why.contains(quoted)),
            Outcome::FaultSeen(why) => ("fault", why == quoted),
            Outcome::Cannot(why) => ("cannot", !quoted.is_empty() && why.contains(quoted)),
        };
        // The timing of the run decides between these two outcomes; no third one is accepted.
        let raced =
            self.word == "race" && self.note.is_some() && (word == "right" || word == "fault" && noted);
        if raced || self.word == word && noted {
            return Ok(());
        }
        Err(format!("the table has {self:?}, seen {seen:?}"))
    }
}

/// The rows of the table, each with as many cells as it must have.
fn table() -> Vec<Vec<String>> {
    let mut rows = TABLE.lines().filter(|line| line.starts_with('|')).map(|line| {
        let cells = line.trim().trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    });
    let head: Vec<&str> = ["client", "version", "era", "by"].into_iter().chain(CHECKS).collect();
    assert_eq!(rows.next().unwrap_or_default(), head, "the head of the table");
    let rows: Vec<_> = rows.skip(1).collect();
    for row in &rows {
        assert_eq!(row.len(), head.len(), "the row {row:?}");
    }
    rows
}

/// The family of SDKs of a client: the tests in `interop/tests/clients_<family>.rs` run it.
fn family(client: &str) -> &'static str {
    match client {
        "@modelcontextprotocol/sdk"
        | "@modelcontextprotocol/client"
        | "@modelcontextprotocol/inspector"
        | "mcporter" => "node",
        "mcp" | "mcp 1" | "fastmcp" => "python",
        "rmcp" | "rmcp 2" => "rust",
        _ => panic!("no family has a client `{client}`"),
    }
}

/// Checks that the table's rows of this family are exactly these clients, eras and transports, so that no row is without
/// a test.
///
/// # Panics
///
/// When they differ.
pub fn rows_are(of: &str, tested: &[(&str, &str, Way)]) {
    let rows = table();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (&*row[0], &*row[2], &*row[3]))
        .filter(|(client, _, _)| family(client) == of)
        .collect();
    let tested: Vec<_> = tested.iter().map(|(client, era, way)| (*client, *era, way.name())).collect();
    assert_eq!(rows, tested, "the rows of the table and those that are tested");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(word: &str, note: Option<&str>) -> Cell {
        Cell { word: word.to_owned(), note: note.map(str::to_owned) }
    }

    #[test]
    fn a_cell_says_what_was_seen_or_fails() {
        let right = cell("right", None);
        let fault = cell("fault", Some("`no such thing`: and why, `elsewhere`."));
        let race = cell("race", Some("`no such thing`: when both come at once."));
        let seen = |why: &str| Outcome::Fault(format!("it said {why} at 12:00"));
        assert_eq!(right.says(&Outcome::Right), Ok(()));
        assert_eq!(fault.says(&seen("no such thing")), Ok(()));
        assert_eq!(race.says(&seen("no such thing")), Ok(()));
        assert_eq!(race.says(&Outcome::Right), Ok(()));
        assert_eq!(fault.says(&Outcome::FaultSeen("no such thing".to_owned())), Ok(()));
        for (cell, seen) in [
            (&right, seen("no such thing")),
            (&right, Outcome::Cannot("no such thing".to_owned())),
            (&fault, Outcome::Right),
            (&race, seen("elsewhere")),
            (&race, Outcome::Cannot("no such thing".to_owned())),
            (&cell("race", None), Outcome::Right),
            (&fault, Outcome::Cannot("no such thing".to_owned())),
            // The client has a different fault now, or the note quotes none.
            (&fault, seen("elsewhere")),
            (&cell("fault", Some("no such thing")), seen("no such thing")),
            (&fault, Outcome::FaultSeen("no such thing, and more".to_owned())),
            (&cell("fault", None), seen("no such thing")),
        ] {
            cell.says(&seen).unwrap_err();
        }
    }
}
