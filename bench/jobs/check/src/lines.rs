//! The lines of code of each job: without blank lines and comments, as `rustfmt` writes them.

use std::fmt::Write as _;

use crate::{LIBRARIES, Result};

const JOBS: [(&str, &str); 6] = [
    ("1 a server on standard input and output", "src/server.rs"),
    ("2 a client", "src/client.rs"),
    ("3 a replica in an axum application", "src/replica.rs"),
    ("4 a client over HTTP with a token or a login", "src/login.rs"),
    ("5 tests", "tests/testing.rs"),
    ("6 tools and clients in a larger program", "src/embedding.rs"),
];

pub(crate) fn table() -> Result<String> {
    let mut table = String::from("| job | mcpjoin | rmcp |\n|---|--:|--:|\n");
    let mut sums = [0; 2];
    for (job, file) in JOBS {
        write!(table, "| {job} |")?;
        for (library, sum) in LIBRARIES.iter().zip(&mut sums) {
            let lines = count(&std::fs::read_to_string(format!("{library}/{file}"))?);
            *sum += lines;
            write!(table, " {lines} |")?;
        }
        table.push('\n');
    }
    writeln!(table, "| all | {} | {} |", sums[0], sums[1])?;
    Ok(table)
}

fn count(source: &str) -> usize {
    let lines = source.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}
