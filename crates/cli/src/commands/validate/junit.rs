//! The report as JUnit writes it, which nearly every CI service shows: a suite for each server and chapter, a case for
//! each rule. What is no fault (advice, a SHOULD without `--strict`, what the baseline has) fails no case.

use std::fmt::Write;

use mcpjoin::check::{Chapter, Level};

use super::report::{Document, Found, Places, Ruling, Said, Seen, Server, cut};
use crate::ui::Ui;
use crate::visible;

/// Of the places where one rule was broken, so many are shown: services cut what is long, or refuse it.
const FINDINGS: usize = 20;
/// A line is cut after so many characters.
const SHOWN: usize = 1000;

/// All of it.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let mut suites = String::new();
    let mut sum = Figures::default();
    for server in &document.servers {
        match &server.seen {
            Ok(Seen::Judged(judged)) => {
                for chapter in Chapter::ALL {
                    let rulings: Vec<&Ruling> =
                        judged.rulings.iter().filter(|ruling| ruling.rule.chapter == chapter).collect();
                    if !rulings.is_empty() {
                        sum.add(suite(&mut suites, server, chapter, &rulings, document.least));
                    }
                }
            }
            Ok(Seen::Openers(_)) | Err(_) => {}
        }
        match server.failure() {
            None => {}
            Some(failure) => {
                let (name, message) = (attribute(&server.label), ui.hidden(&failure.message));
                let hint = ui.hidden(&failure.hint);
                let _ = write!(
                    suites,
                    "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\">\n    \
                     <testcase classname=\"{name}\" name=\"connect\">\n      \
                     <error type=\"{}\" message=\"{}\">{}</error>\n    </testcase>\n  </testsuite>\n",
                    failure.id,
                    attribute(&message),
                    content(&hint)
                );
                sum.add(Figures { tests: 1, errors: 1, ..Figures::default() });
            }
        }
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"mcpjoin validate\" {}>\n{suites}</testsuites>\n",
        sum.attributes()
    )
}

/// How many cases came to what.
#[derive(Clone, Copy, Default)]
struct Figures {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Figures {
    const fn add(&mut self, other: Self) {
        self.tests += other.tests;
        self.failures += other.failures;
        self.errors += other.errors;
        self.skipped += other.skipped;
    }

    fn attributes(self) -> String {
        let Self { tests, failures, errors, skipped } = self;
        format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"")
    }
}

fn suite(out: &mut String, server: &Server, chapter: Chapter, rulings: &[&Ruling], least: Level) -> Figures {
    let mut figures = Figures { tests: rulings.len(), ..Figures::default() };
    let mut cases = String::new();
    let class = attribute(&format!("{}.{}", server.label, chapter.as_str()));
    for ruling in rulings {
        let _ = write!(cases, "    <testcase classname=\"{class}\" name=\"{}\"", ruling.rule.slug);
        match &ruling.said {
            Said::Passed => cases.push_str("/>\n"),
            Said::Skipped(why) => {
                figures.skipped += 1;
                let _ =
                    write!(cases, ">\n      <skipped message=\"{}\"/>\n    </testcase>\n", attribute(why));
            }
            Said::Failed(Places { found, .. }) => match ruling.fault() {
                None => {
                    figures.skipped += 1;
                    cases.push_str(">\n      <skipped message=\"known: the baseline has it\"/>\n");
                    let _ = write!(
                        cases,
                        "      <system-out>{}</system-out>\n    </testcase>\n",
                        told(ruling, found)
                    );
                }
                Some(level) if level >= least => {
                    figures.failures += 1;
                    let problem = found.iter().find(|found| !found.known).map(|found| found.problem.as_str());
                    let _ = write!(
                        cases,
                        ">\n      <failure type=\"{}\" message=\"{}\">{}</failure>\n    </testcase>\n",
                        level.as_str(),
                        attribute(&cut(problem.unwrap_or_default(), SHOWN)),
                        told(ruling, found)
                    );
                }
                Some(_) => {
                    let _ = write!(
                        cases,
                        ">\n      <system-out>{}</system-out>\n    </testcase>\n",
                        told(ruling, found)
                    );
                }
            },
        }
    }
    let _ = write!(
        out,
        "  <testsuite name=\"{}\" {}>\n{cases}  </testsuite>\n",
        attribute(&format!("{}: {}", server.label, chapter.title())),
        figures.attributes()
    );
    figures
}

/// Where it was broken, with what crossed.
fn told(ruling: &Ruling, found: &[Found]) -> String {
    let mut out = format!("{}: {}\n", ruling.level().as_str(), ruling.rule.sentence);
    let all: Vec<&Found> = found.iter().filter(|found| !found.known || ruling.fault().is_none()).collect();
    for found in all.iter().take(FINDINGS) {
        let problem = cut(&found.problem, SHOWN);
        let times = if found.count > 1 { format!(", {} times", found.count) } else { String::new() };
        let _ = writeln!(out, "\n{} ({}{times})", visible::line(&problem), visible::line(&found.run));
        for (name, line) in [("sent", &found.sent), ("received", &found.received)] {
            if let Some(line) = line {
                let _ = writeln!(out, "{name:<8} {}", visible::line(&cut(line, SHOWN)));
            }
        }
        let _ = writeln!(out, "see      {}", found.address);
    }
    let more = (all.len() + ruling.left_out()).saturating_sub(FINDINGS);
    if more > 0 {
        let _ = writeln!(out, "\nand {more} more");
    }
    content(&out)
}

/// As the content of an element.
fn content(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in visible::text(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Characters that XML 1.0 cannot carry in any spelling, beside those that are visible already.
            '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// As the value of an attribute, which has no lines.
fn attribute(text: &str) -> String {
    content(&visible::line(text))
}

#[cfg(test)]
mod tests {
    use super::{attribute, content};

    #[test]
    fn no_text_ends_its_element_or_is_forbidden() {
        assert_eq!(content("<a b=\"c\">]]>&\n\t"), "&lt;a b=&quot;c&quot;&gt;]]&gt;&amp;\n\t");
        assert_eq!(
            attribute("a\nb\u{0}\u{1b}\u{ffff}\u{fffe}\u{85}"),
            "a\\u{a}b\\u{0}\\u{1b}\\u{ffff}\\u{fffe}\\u{85}"
        );
    }
}
