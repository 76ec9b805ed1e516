//! The tables: medians with their spread, and ratios that can be compared between machines.

use super::cells::{Cell, Part};
use super::gateway_table;
use super::replicas;
use super::sample::Row;

/// The candidate that all others are compared with.
const FLOOR: &str = "floor";
/// The library that a Rust program could use instead of mcpjoin.
const RMCP: &str = "rmcp, one thread";

/// The median of some samples, and their minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    least: f64,
    pub(super) median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        // Of an even number there are two values in the middle.
        let median = f64::midpoint(values[middle], values[(values.len() - 1) / 2]);
        Some(Self { least, median, most })
    }

    pub(super) fn shown(self) -> String {
        format!("{} ({} to {})", number(self.median), number(self.least), number(self.most))
    }
}

/// Formats a number with three significant figures, and from 10 000 on in thousands (`k`).
pub(super) fn number(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{:.1} k", value / 1000.0)
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Prints one table.
pub(crate) fn print(part: Part, cell: &Cell, rows: &[Row]) {
    match part {
        Part::Servers | Part::Clients | Part::Http | Part::Quic => {
            println!("\n### {}: {}\n", part.name(), cell.title());
            println!(
                "| | CPU us per call | / floor | rmcp / it | calls per s | / floor | p50 us | p99 us | peak MiB |"
            );
            println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
            lines(rows, |row| {
                let cpu = spread(row, "cpu_us");
                let rate = spread(row, "per_second");
                vec![
                    cpu.map_or_else(String::new, Spread::shown),
                    ratio(cpu, middle(rows, FLOOR, "cpu_us")),
                    inverse(cpu, middle(rows, RMCP, "cpu_us")),
                    rate.map_or_else(String::new, Spread::shown),
                    ratio(rate, middle(rows, FLOOR, "per_second")),
                    spread(row, "p50_us").map_or_else(String::new, |spread| number(spread.median)),
                    spread(row, "p99_us").map_or_else(String::new, |spread| number(spread.median)),
                    peak(row),
                ]
            });
        }
        Part::Bridge if cell.size == 0 => {
            println!("\n### {}: {}\n", part.name(), cell.title());
            println!(
                "| | open | after 10 of them were ended | ms until then | left after its end | ms of its end | ms per session | MiB | KiB per session |"
            );
            println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
            lines(rows, |row| {
                let shown = |figure| spread(row, figure).map_or_else(|| "never".to_owned(), Spread::shown);
                let count =
                    |figure| spread(row, figure).map_or_else(String::new, |spread| whole(spread.most));
                vec![
                    count("open"),
                    count("after_delete"),
                    shown("delete_ms"),
                    count("left"),
                    shown("end_ms"),
                    shown("open_ms"),
                    peak(row),
                    shown("session_kib"),
                ]
            });
        }
        Part::Bridge => {
            println!("\n### {}: {}\n", part.name(), cell.title());
            println!(
                "| | p50 us | more than the floor | p99 us | more than the floor | CPU us per call | / floor | calls per s | ms to the first reply | peak MiB |"
            );
            println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
            lines(rows, |row| {
                let time = |figure| {
                    let spread = spread(row, figure);
                    [
                        spread.map_or_else(String::new, Spread::shown),
                        more(spread, middle(rows, FLOOR, figure)),
                    ]
                };
                let cpu = spread(row, "cpu_us");
                let [p50, p50_more] = time("p50_us");
                let [p99, p99_more] = time("p99_us");
                vec![
                    p50,
                    p50_more,
                    p99,
                    p99_more,
                    cpu.map_or_else(String::new, Spread::shown),
                    ratio(cpu, middle(rows, FLOOR, "cpu_us")),
                    spread(row, "per_second").map_or_else(String::new, Spread::shown),
                    spread(row, "opened_ms").map_or_else(String::new, |spread| number(spread.median)),
                    peak(row),
                ]
            });
        }
        Part::Sessions => {
            println!("\n### {}: {}\n", part.name(), cell.title());
            println!("| | KiB per session | rmcp / it | CPU us per session | all MiB |");
            println!("|---|--:|--:|--:|--:|");
            lines(rows, |row| {
                let memory = spread(row, "kib_per_session");
                vec![
                    memory.map_or_else(String::new, Spread::shown),
                    inverse(memory, middle(rows, RMCP, "kib_per_session")),
                    spread(row, "cpu_us").map_or_else(String::new, Spread::shown),
                    peak(row),
                ]
            });
        }
        Part::Replicas => {
            println!("\n### {}: {}\n", part.name(), cell.title());
            println!("| | CPU us per call | / one bridge | calls per s | p50 us | p99 us |");
            println!("|---|--:|--:|--:|--:|--:|");
            lines(rows, |row| {
                let cpu = spread(row, "cpu_us");
                let shown =
                    |figure| spread(row, figure).map_or_else(String::new, |spread| number(spread.median));
                vec![
                    cpu.map_or_else(String::new, Spread::shown),
                    ratio(cpu, middle(rows, replicas::ONE, "cpu_us")),
                    shown("per_second"),
                    shown("p50_us"),
                    shown("p99_us"),
                ]
            });
        }
        Part::Gateway => gateway_table::print(cell, rows),
        Part::Startup | Part::CommandLines => {
            println!("\n### {}\n", part.name());
            println!("| | ms | / floor | ms more than it | CPU ms | / floor | peak MiB |");
            println!("|---|--:|--:|--:|--:|--:|--:|");
            lines(rows, |row| {
                let (time, cpu) = (spread(row, "ms"), spread(row, "cpu_ms"));
                let floor = middle(rows, FLOOR, "ms");
                vec![
                    time.map_or_else(String::new, Spread::shown),
                    ratio(time, floor),
                    more(time, floor),
                    cpu.map_or_else(String::new, Spread::shown),
                    ratio(cpu, middle(rows, FLOOR, "cpu_ms")),
                    peak(row),
                ]
            });
        }
    }
}

pub(super) fn lines(rows: &[Row], cells: impl Fn(&Row) -> Vec<String>) {
    for row in rows {
        match &row.fault {
            Some(fault) => println!("| {} | not measured: {} |", row.name, fault.replace('|', "/")),
            None => println!("| {} | {} |", row.name, cells(row).join(" | ")),
        }
    }
}

pub(super) fn spread(row: &Row, figure: &str) -> Option<Spread> {
    Spread::of(row.samples.iter().filter_map(|sample| sample.get(figure)?.as_f64()).collect())
}

pub(super) fn middle(rows: &[Row], name: &str, figure: &str) -> Option<f64> {
    let row = rows.iter().find(|row| row.name == name)?;
    spread(row, figure).map(|spread| spread.median)
}

pub(super) fn ratio(value: Option<Spread>, to: Option<f64>) -> String {
    value.zip(to).map_or_else(String::new, |(value, to)| format!("{:.2}", value.median / to))
}

pub(super) fn more(value: Option<Spread>, than: Option<f64>) -> String {
    value.zip(than).map_or_else(String::new, |(value, than)| format!("{:.2}", value.median - than))
}

/// Formats a count.
fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn inverse(value: Option<Spread>, of: Option<f64>) -> String {
    value.zip(of).map_or_else(String::new, |(value, of)| format!("{:.1}", of / value.median))
}

fn peak(row: &Row) -> String {
    spread(row, "peak_kib").map_or_else(String::new, |spread| format!("{:.1}", spread.most / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::{Spread, inverse, more, number, ratio};

    #[test]
    fn the_middle_and_the_ends_are_found() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { least: 1.0, median: 2.0, most: 3.0 });
        assert_eq!(spread.shown(), "2.00 (1.00 to 3.00)");
        assert_eq!(Spread::of(vec![4.0, 1.0]).map(|two| two.median), Some(2.5));
        assert_eq!(
            (ratio(Some(spread), Some(4.0)), inverse(Some(spread), Some(4.0))),
            ("0.50".into(), "2.0".into())
        );
        assert_eq!(more(Some(spread), Some(0.5)), "1.50");
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn numbers_have_three_figures() {
        let shown = [0.123, 9.99, 12.34, 123.4, 9999.0, 123_456.0].map(number);
        assert_eq!(shown, ["0.12", "9.99", "12.3", "123", "9999", "123.5 k"]);
    }
}
