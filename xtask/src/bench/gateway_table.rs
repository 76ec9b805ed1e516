//! The tables of the part `gateway`, and the table at its end: one row for each figure, one column for each gateway.

use serde_json::Value as Json;

use super::cells::{Cell, DEAD};
use super::gateways::{NONE, OURS};
use super::sample::Row;
use super::table::{Spread, lines, middle, more, number, ratio, spread};

/// A peer is ahead when its figure is better than ours by more than this share: less is not established within one run.
const ESTABLISHED: f64 = 0.15;
/// Where a peer is ahead and the cause is known: the beginning of the row, the peer, and the cause.
const EXPLAINED: &[(&str, &str, &str)] = &[
    (
        "ms from the start",
        "mcp-proxy (crate)",
        "it starts its servers before it listens and has one set of them for all clients; ours starts them when a client comes",
    ),
    (
        "MiB after: 64 B, 16 calls at once, a session for each",
        "mcp-proxy (crate)",
        "ours has the five servers once for each of 16 sessions, 80 in all; mcp-proxy has one set of them for all clients",
    ),
    (
        "MiB",
        "mcp-proxy (crate)",
        "nearly all of ours are pages of the program's file, which is larger; the data of both is 2 to 3 MiB",
    ),
    (
        "ms until a killed server",
        "fastmcp",
        "it starts a killed server within the next call; ours starts it 0.1 s after its end, and calls wait until then",
    ),
    (
        "ms until a killed server",
        "mcpo",
        "it starts a killed server within the next call, but other servers may fail from then on",
    ),
];

/// Prints the table of one cell.
pub(super) fn print(cell: &Cell, rows: &[Row]) {
    println!("\n### gateway: {}\n", cell.title());
    let shown = |row: &Row, figure| spread(row, figure).map_or_else(String::new, Spread::shown);
    let mib = |row: &Row| {
        spread(row, "gateway_kib").map_or_else(String::new, |spread| number(spread.median / 1024.0))
    };
    let count = |row: &Row, figure| {
        spread(row, figure).map_or_else(String::new, |spread| format!("{:.0}", spread.median))
    };
    let to_ours = |row: &Row, figure| ratio(spread(row, figure), middle(rows, OURS, figure));
    match cell.words {
        ["first", _, servers @ ..] => {
            let is_apart = servers.is_empty();
            // Published servers are scripts, whose processes are not told apart from those of the gateway.
            println!("| | ms | / ours | lists until then | CPU ms | MiB | processes of servers |");
            println!("|---|--:|--:|--:|--:|--:|--:|");
            lines(rows, |row| {
                let mut cells = vec![shown(row, "ms"), to_ours(row, "ms"), count(row, "lists")];
                if is_apart {
                    cells.extend([count(row, "cpu_ms"), mib(row), count(row, "backends")]);
                }
                cells
            });
        }
        ["calls", ..] => {
            println!(
                "| | calls per s | / ours | p50 us | more than without | p99 us | more than without | CPU us per call | / ours | MiB | processes of servers |"
            );
            println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
            lines(rows, |row| {
                vec![
                    shown(row, "per_second"),
                    to_ours(row, "per_second"),
                    shown(row, "p50_us"),
                    more(spread(row, "p50_us"), middle(rows, NONE, "p50_us")),
                    shown(row, "p99_us"),
                    more(spread(row, "p99_us"), middle(rows, NONE, "p99_us")),
                    shown(row, "cpu_us"),
                    to_ours(row, "cpu_us"),
                    mib(row),
                    count(row, "backends"),
                ]
            });
        }
        _ => dead(rows),
    }
}

fn dead(rows: &[Row]) {
    println!(
        "| | killed: ms until it answers again | calls that failed until then | gone: ms until the error | other servers that answer | tools in the list | a new session | back: ms until it answers again |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let text =
        |row: &Row, figure: &str| row.samples.first()?.get(figure).and_then(Json::as_str).map(str::to_owned);
    let number_or = |row: &Row, figure, otherwise: &str| {
        spread(row, figure).map_or_else(|| otherwise.to_owned(), |spread| number(spread.median))
    };
    lines(rows, |row| {
        vec![
            number_or(row, "back_ms", "never"),
            number_or(row, "failed", ""),
            number_or(row, "gone_error_ms", ""),
            number_or(row, "alive", ""),
            number_or(row, "listed", "none"),
            if text(row, "new_session_error").is_none() { "works".into() } else { "fails".into() },
            number_or(row, "back_after_gone_ms", "never"),
        ]
    });
    println!();
    for row in rows {
        let about = [
            ("the call", "gone_error"),
            ("the next call", "gone_error_later"),
            ("the list", "list_error"),
            ("a new session", "new_session_error"),
        ];
        for (what, figure) in about {
            if let Some(text) = text(row, figure) {
                println!("- {}, {what}: `{}`", row.name, text.replace('`', "'"));
            }
        }
    }
}

/// All figures of the part.
#[derive(Default)]
pub(super) struct Summary(Vec<Line>);

/// One figure of all gateways.
struct Line {
    title: String,
    /// Whether more of it is better; otherwise less.
    more_is_better: bool,
    figures: Vec<(String, Option<f64>)>,
}

impl Summary {
    /// Adds the figures of a cell.
    pub(super) fn add(&mut self, cell: &Cell, rows: &[Row]) {
        let mut line = |title: String, more_is_better, value: &dyn Fn(&Row) -> Option<f64>| {
            let measured = rows.iter().filter(|row| row.name != NONE);
            let figures = measured.map(|row| (row.name.clone(), value(row))).collect();
            self.0.push(Line { title, more_is_better, figures });
        };
        let median = |row: &Row, figure| spread(row, figure).map(|spread| spread.median);
        let mib = |row: &Row| median(row, "gateway_kib").map(|kib| kib / 1024.0);
        let title = cell.title();
        match cell.words {
            ["first", count, servers @ ..] => {
                line(format!("ms {title}"), false, &|row| median(row, "ms"));
                if *count == "five" && servers.is_empty() {
                    line("MiB after the first list, five servers".into(), false, &mib);
                }
            }
            ["calls", sessions] => {
                line(format!("calls per s: {title}"), true, &|row| median(row, "per_second"));
                line(format!("CPU us per call: {title}"), false, &|row| median(row, "cpu_us"));
                for figure in ["p50_us", "p99_us"] {
                    if let Some(without) = middle(rows, NONE, figure) {
                        let title = format!("{} added: {title}", figure.replace("_us", " us"));
                        line(title, false, &|row| median(row, figure).map(|with| with - without));
                    }
                }
                if *sessions == "apart" || cell.depth == 16 {
                    line(format!("MiB after: {title}"), false, &mib);
                }
            }
            words if words == DEAD => {
                line("of four other servers, those that answer when one is gone".into(), true, &|row| {
                    median(row, "alive")
                });
                line("ms until a killed server answers again".into(), false, &|row| median(row, "back_ms"));
            }
            _ => {}
        }
    }

    /// Prints the table; returns where a peer is ahead without a known cause.
    pub(super) fn print(&self) -> Vec<String> {
        let Some(first) = self.0.iter().max_by_key(|line| line.figures.len()) else { return Vec::new() };
        let names: Vec<&str> = first.figures.iter().map(|(name, _)| name.as_str()).collect();
        println!("\n### gateway: all figures (in brackets: as a ratio to ours)\n");
        println!("| | {} |", names.join(" | "));
        println!("|---|{}", "--:|".repeat(names.len()));
        let (mut known, mut behind) = (Vec::new(), Vec::new());
        for line in &self.0 {
            let figure = |name: &str| line.figures.iter().find(|(of, _)| of == name)?.1;
            let ours = figure(OURS);
            let shown = names.iter().map(|name| match (figure(name), ours) {
                (None, _) => "none".to_owned(),
                (Some(value), Some(ours)) if *name != OURS && value > 0.0 && ours > 0.0 => {
                    format!("{} ({:.2})", number(value), value / ours)
                }
                (Some(value), _) => number(value),
            });
            println!("| {} | {} |", line.title, shown.collect::<Vec<_>>().join(" | "));
            for name in names.iter().filter(|name| !name.starts_with(OURS)) {
                if !line.is_ahead(figure(name), ours) {
                    continue;
                }
                let cause = EXPLAINED
                    .iter()
                    .find(|(title, peer, _)| line.title.starts_with(title) && name.starts_with(peer));
                match cause {
                    Some((_, _, cause)) => known.push(format!("- {}, {name} is ahead: {cause}", line.title)),
                    None => behind.push(format!("{}: {name} is ahead", line.title)),
                }
            }
        }
        println!("\n{}", known.join("\n"));
        behind
    }
}

impl Line {
    /// Whether a peer is ahead of us. We are behind where only we have no figure.
    fn is_ahead(&self, peer: Option<f64>, ours: Option<f64>) -> bool {
        match (peer, ours) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(peer), Some(ours)) if self.more_is_better => peer > ours * (1.0 + ESTABLISHED),
            (Some(peer), Some(ours)) => peer < ours * (1.0 - ESTABLISHED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_peer_is_ahead_only_by_more_than_is_established() {
        let line = |more_is_better| Line { title: String::new(), more_is_better, figures: Vec::new() };
        let (rate, time) = (line(true), line(false));
        assert!(rate.is_ahead(Some(116.0), Some(100.0)) && !rate.is_ahead(Some(114.0), Some(100.0)));
        assert!(time.is_ahead(Some(84.0), Some(100.0)) && !time.is_ahead(Some(86.0), Some(100.0)));
        assert!(!rate.is_ahead(None, Some(1.0)) && rate.is_ahead(Some(1.0), None));
    }
}
