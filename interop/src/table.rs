//! The table of foreign clients, `interop/clients/table.md`: reads its rows, and says whether a cell is what was seen.
//!
//! Used by [`crate::client`] and the tests of clients. It runs nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use crate::client::Way;

/// What every client is asked for, in the order of the table's columns.
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

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was as it should be.
    Right,
    /// The client is at fault, and this is what it said, or what its script says of it.
    Fault(String),
    /// The client is at fault, and this is all that was seen of it from outside.
    FaultSeen(String),
    /// The client has no such thing, and why.
    Cannot(String),
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) version: String,
    /// In the order of [`CHECKS`].
    pub(crate) cells: Vec<Cell>,
}

/// A cell of it, with the text of the note that it points to.
#[derive(Debug)]
pub(crate) struct Cell {
    word: String,
    note: Option<String>,
}

impl Row {
    /// The one row of this client in this era by this way.
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

    /// Whether it says what was seen. What is not right has a note, which quotes in its first pair of backticks something
    /// of what the script has said, or all that was seen from outside.
    pub(crate) fn says(&self, seen: &Outcome) -> Result<(), String> {
        let quoted = self.note.as_deref().and_then(|note| note.split('`').nth(1)).unwrap_or_default();
        let (word, noted) = match seen {
            Outcome::Right => ("right", self.note.is_none()),
            Outcome::Fault(why) => ("fault", !quoted.is_empty() && why.contains(quoted)),
            Outcome::FaultSeen(why) => ("fault", why == quoted),
            Outcome::Cannot(why) => ("cannot", !quoted.is_empty() && why.contains(quoted)),
        };
        // Which of the two it is, the timing of the run decides: no third one is taken.
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

/// The family of SDKs that a client belongs to: the tests of `interop/tests/clients_<family>.rs` run it.
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

/// Holds that the table's rows of this family are exactly these, clients, eras and ways, so that no row is without a
/// test.
///
/// # Panics
///
/// When they are not.
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
            // The client's fault is another one now, or is in no quotation.
            (&fault, seen("elsewhere")),
            (&cell("fault", Some("no such thing")), seen("no such thing")),
            (&fault, Outcome::FaultSeen("no such thing, and more".to_owned())),
            (&cell("fault", None), seen("no such thing")),
        ] {
            cell.says(&seen).unwrap_err();
        }
    }
}
