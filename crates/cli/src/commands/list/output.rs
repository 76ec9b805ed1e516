//! Writes lists while they are read: as a page for a person, or as one JSON document that is valid wherever a list fails.
//! Text that was written is not kept in memory. Escapes all texts of a server.

use std::fmt::Write;

use mcpjoin::proto::Raw;
use serde_json::Value;

use crate::commands::items::{described, name_columns, row, signature, table};
use crate::commands::lists::{Part, Section, ServerFacts, Stopped, TOOLS, error_of};
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase};
use crate::fold;
use crate::object;
use crate::ui::{HEADING, NAME, Ui, Unwritten};
use crate::visible;

/// The width of the column of names is that of the widest of this many items.
const MAX_HELD_ROWS: usize = 256;
/// Text is written as soon as it is longer than this.
const CHUNK_BYTES: usize = 64 * 1024;

/// How much of each item is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) enum Detail {
    /// Its name, and the first line of its description.
    #[default]
    Rows,
    /// Of a tool its name and the types of its parameters.
    Signatures,
    /// All that is known of it.
    Whole,
}

/// Writes lists. Nothing is written after the first failed write.
pub(super) struct Output<'a> {
    ui: &'a Ui,
    form: Form,
    /// The text that is not yet written.
    out: String,
    /// There are several servers. Secrets of each of them are hidden in the text of all of them.
    several: bool,
    unwritten: Option<Unwritten>,
}

enum Form {
    Page(Page),
    Document(Document),
}

impl<'a> Output<'a> {
    pub(super) fn new(ui: &'a Ui, detail: Detail, several: bool) -> Self {
        let form = match ui.json {
            true => Form::Document(Document::default()),
            false => Form::Page(Page { width: ui.width(), detail, ..Page::default() }),
        };
        let mut writing = Self { ui, form, out: String::new(), several, unwritten: None };
        if let Form::Document(document) = &mut writing.form
            && several
        {
            document.push(&mut writing.out, "{\"servers\":[");
        }
        writing
    }

    /// Begins a server. `name`: of its entry, if there are several servers.
    pub(super) fn begin_server(&mut self, name: Option<&str>, facts: ServerFacts) {
        match &mut self.form {
            Form::Page(page) => page.begin_server(&mut self.out, name, &facts),
            Form::Document(document) => document.begin_server(&mut self.out, name, &facts),
        }
    }

    /// Writes a part of a list.
    pub(super) async fn write(&mut self, part: Part) -> Result<(), Stopped> {
        match part {
            Part::Page(section, items) => {
                self.begin_section(section);
                for item in items {
                    match &mut self.form {
                        Form::Page(page) => page.item(&mut self.out, section, &item),
                        Form::Document(document) => document.begin_item(&mut self.out),
                    }
                    if self.out.len() > CHUNK_BYTES {
                        self.flush().await?;
                    }
                    self.write_item(&item).await?;
                }
            }
            Part::Pause => {
                if let Form::Page(page) = &mut self.form {
                    page.release(&mut self.out);
                }
            }
            Part::End(section) => {
                self.begin_section(section);
                self.end_list();
            }
            Part::Failed(section, failure) => {
                self.end_list();
                match &mut self.form {
                    Form::Page(page) => page.has_failed = true,
                    Form::Document(document) => {
                        document.errors.push(error_of(self.ui, section, &failure));
                    }
                }
            }
        }
        self.flush().await
    }

    /// Writes an item into a document, in chunks: it may be as large as a message.
    async fn write_item(&mut self, item: &Raw) -> Result<(), Stopped> {
        let mut rest = item.as_str();
        while let Form::Document(document) = &mut self.form
            && !rest.is_empty()
        {
            let end = (0..=CHUNK_BYTES.min(rest.len())).rev().find(|end| rest.is_char_boundary(*end));
            let (piece, more) = rest.split_at(end.filter(|end| *end > 0).unwrap_or(rest.len()));
            document.push(&mut self.out, piece);
            rest = more;
            if self.out.len() > CHUNK_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    fn begin_section(&mut self, section: &'static Section) {
        match &mut self.form {
            Form::Page(page) => page.section = Some(section),
            Form::Document(document) => document.begin_section(&mut self.out, section),
        }
    }

    fn end_list(&mut self) {
        match &mut self.form {
            Form::Page(page) => page.end_list(&mut self.out),
            Form::Document(document) => document.end_list(&mut self.out),
        }
    }

    /// Ends a server.
    pub(super) async fn end_server(&mut self) -> Result<(), Stopped> {
        self.end_list();
        match &mut self.form {
            Form::Page(page) => page.end_server(&mut self.out),
            Form::Document(document) => document.end_server(&mut self.out),
        }
        self.flush().await
    }

    /// Writes the failure of a server about which nothing else is known.
    pub(super) async fn absent_server(&mut self, name: &str, failure: &Failure) -> Result<(), Stopped> {
        if let Form::Document(document) = &mut self.form {
            let member =
                object::write([("name", Value::from(name)), ("error", failure.json()["error"].take())]);
            document.separate(&mut self.out);
            document.push(&mut self.out, &member);
        }
        self.flush().await
    }

    /// Marks the output as incomplete after a signal.
    pub(super) fn interrupt(&mut self, signal: Signal) {
        match &mut self.form {
            Form::Document(document) => {
                let message = "a signal stopped it: the list may be incomplete";
                let failure = Failure::new("E_INTERRUPTED", Exit::Signal(signal), Phase::List, message);
                let error = failure.json()["error"].to_string();
                document.errors.push(error.clone());
                document.interrupted = Some(error);
            }
            // What the server has is not known.
            Form::Page(page) => page.has_failed = true,
        }
    }

    /// Ends the output. The error is that of the first failed write.
    pub(super) async fn end(mut self) -> Result<(), Unwritten> {
        if let Form::Document(document) = &mut self.form {
            if self.several {
                document.push(&mut self.out, "]");
                if let Some(error) = document.interrupted.take() {
                    document.push(&mut self.out, &format!(",\"error\":{error}"));
                }
                document.push(&mut self.out, "}");
            }
            self.out.push('\n');
        }
        match self.flush().await {
            Ok(()) => Ok(()),
            Err(Stopped) => Err(self.unwritten.unwrap_or(Unwritten::Gone)),
        }
    }

    async fn flush(&mut self) -> Result<(), Stopped> {
        if self.unwritten.is_some() {
            return Err(Stopped);
        }
        let text = std::mem::take(&mut self.out);
        if text.is_empty() {
            return Ok(());
        }
        let text = match &self.form {
            _ if !self.several => text,
            Form::Document(_) => self.ui.hidden_json(&text).into_owned(),
            _ => self.ui.hidden_whole(&text).into_owned(),
        };
        match self.ui.aside(move |ui| ui.piece(&text)).await {
            Ok(()) => Ok(()),
            Err(unwritten) => {
                self.unwritten = Some(unwritten);
                Err(Stopped)
            }
        }
    }
}

// ---- one JSON document ----

#[derive(Default)]
struct Document {
    indented: visible::Indented,
    /// A server was written.
    has_any: bool,
    /// The server is a member of an object with a name.
    has_name: bool,
    /// The current list, and whether it has an item.
    list: Option<(&'static str, bool)>,
    errors: Vec<String>,
    /// Why the document is incomplete, if there are several servers.
    interrupted: Option<String>,
}

impl Document {
    fn push(&mut self, out: &mut String, text: &str) {
        self.indented.push(out, text);
    }

    fn separate(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.has_any, true) {
            self.push(out, ",");
        }
    }

    fn begin_server(&mut self, out: &mut String, name: Option<&str>, facts: &ServerFacts) {
        self.separate(out);
        self.has_name = name.is_some();
        if let Some(name) = name {
            let name = Raw::string(name);
            self.push(out, &format!("{{\"name\":{},\"server\":", name.as_str()));
        }
        let members = object::write(facts.members.iter().map(|(name, value)| (name, value)));
        // The version is always there, so the object is not empty.
        self.push(out, members.strip_suffix('}').unwrap_or(&members));
    }

    fn begin_section(&mut self, out: &mut String, section: &Section) {
        if self.list.is_none_or(|(member, _)| member != section.member) {
            self.end_list(out);
            self.list = Some((section.member, false));
            self.push(out, &format!(",\"{}\":[", section.member));
        }
    }

    /// Writes what separates an item from the previous one.
    fn begin_item(&mut self, out: &mut String) {
        if let Some((_, has_items)) = &mut self.list
            && std::mem::replace(has_items, true)
        {
            self.push(out, ",");
        }
    }

    fn end_list(&mut self, out: &mut String) {
        if self.list.take().is_some() {
            self.push(out, "]");
        }
    }

    fn end_server(&mut self, out: &mut String) {
        if !self.errors.is_empty() {
            let errors = std::mem::take(&mut self.errors).join(",");
            self.push(out, &format!(",\"errors\":[{errors}]"));
        }
        let end = if self.has_name { "}}" } else { "}" };
        self.push(out, end);
    }
}

// ---- a page for a person ----

#[derive(Default)]
struct Page {
    /// Of the terminal, in columns; `None`: nothing is truncated.
    width: Option<usize>,
    detail: Detail,
    section: Option<&'static Section>,
    /// The heading of the section was written.
    has_heading: bool,
    /// An item of this server was written.
    has_items: bool,
    /// A list of this server failed.
    has_failed: bool,
    /// Another server was written before.
    is_later: bool,
    /// The width of the column of names.
    names: usize,
    /// Rows that are held back until the width of the names is known.
    held_rows: Vec<(String, String)>,
    /// Rows were written: the width of the names is known.
    has_released: bool,
}

impl Page {
    fn begin_server(&mut self, out: &mut String, name: Option<&str>, facts: &ServerFacts) {
        let Some(name) = name else { return };
        if std::mem::replace(&mut self.is_later, true) {
            out.push('\n');
        }
        let _ = writeln!(out, "{NAME}{}{NAME:#}: {}", visible::line(name), facts.header);
    }

    fn item(&mut self, out: &mut String, section: &Section, item: &Raw) {
        let mut text = String::new();
        match self.detail {
            Detail::Whole => described(&mut text, section, item),
            Detail::Signatures if section.member == TOOLS.member => {
                let _ = writeln!(text, "  {}", signature(item));
            }
            _ => {}
        }
        if !text.is_empty() {
            self.heading(out);
            out.push_str(&self.width.map_or_else(|| text.as_str().into(), |width| fold::fold(&text, width)));
            return;
        }
        self.held_rows.push(row(section, item));
        if self.has_released || self.held_rows.len() >= MAX_HELD_ROWS {
            self.release(out);
        }
    }

    fn heading(&mut self, out: &mut String) {
        let Some(section) = self.section.filter(|_| !self.has_heading) else { return };
        if self.has_items {
            out.push('\n');
        }
        (self.has_heading, self.has_items) = (true, true);
        let _ = writeln!(out, "{HEADING}{}{HEADING:#}", section.heading);
    }

    /// Writes the rows that were held back.
    fn release(&mut self, out: &mut String) {
        if self.held_rows.is_empty() {
            return;
        }
        self.heading(out);
        let rows = std::mem::take(&mut self.held_rows);
        self.names = name_columns(&rows, 2, self.width).max(self.names);
        self.has_released = true;
        table(out, &rows, 2, self.names, self.width);
    }

    fn end_list(&mut self, out: &mut String) {
        self.release(out);
        self.section = None;
        (self.has_heading, self.has_released, self.names) = (false, false, 0);
    }

    fn end_server(&mut self, out: &mut String) {
        // A server with nothing but a failure has no such line.
        if !self.has_items && !self.has_failed {
            out.push_str("the server has no tools, resources or prompts\n");
        }
        (self.has_items, self.has_failed) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{Document, Page, ServerFacts};
    use crate::commands::lists::{RESOURCES, Section, TOOLS};

    fn items(json: &str) -> Vec<Raw> {
        Raw::parse(json.as_bytes().to_vec()).unwrap().decode().unwrap()
    }

    fn page(lists: &[(&'static Section, Vec<Raw>)], width: Option<usize>) -> String {
        let mut page = Page { width, ..Page::default() };
        let mut out = String::new();
        for (section, items) in lists {
            page.section = Some(section);
            items.iter().for_each(|item| page.item(&mut out, section, item));
            page.end_list(&mut out);
        }
        page.end_server(&mut out);
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn names_and_first_lines_are_aligned() {
        let tools = items(
            r#"[{"name":"add","description":"Adds.\nAnd more."},{"name":"漢字","title":"Signs"},
                {"name":"bare"},{"name":"\u001b[31mred","description":"x\u202ey"},7,{"description":"?"},
                {"name":"twice","name":"two"}]"#,
        );
        let resources = items(r#"[{"uri":"a://b","name":"first"}]"#);
        let expected = "\
Tools
  add               Adds.
  漢字              Signs
  bare
  \\u{1b}[31mred     x\\u{202e}y
  (not an object)
  (without a name)  ?
  (an object with a member twice)

Resources
  a://b  first
";
        assert_eq!(page(&[(&TOOLS, tools), (&RESOURCES, resources)], None), expected);
    }

    #[test]
    fn one_long_name_leaves_room_for_the_descriptions_of_the_others() {
        let long = "browser_network_requests_of_the_current_page_and_frames";
        let tools = items(&format!(
            r#"[{{"name":"add","description":"Adds two numbers."}},{{"name":"echo","description":"Says it."}},
                {{"name":"{long}","description":"Lists the requests."}},{{"name":"translate","description":"Translates."}}]"#
        ));
        let expected = |gap: &str| {
            format!(
                "Tools\n  add        Adds two numbers.\n  echo       Says it.\n  {long}{gap}Lists the requests.\n  \
                 translate  Translates.\n"
            )
        };
        assert_eq!(page(&[(&TOOLS, tools.clone())], None), expected("  "));
        assert_eq!(page(&[(&TOOLS, tools.clone())], Some(80)), expected("  "));
        assert_eq!(page(&[(&TOOLS, tools)], Some(60)), expected("\n    "));
    }

    #[test]
    fn i175_every_width_is_possible() {
        let long = "x".repeat(200);
        let tools = items(&format!(
            r#"[{{"name":"{long}","description":"{long}漢"}},{{"name":"a","description":"b c"}}]"#
        ));
        for width in (0..120).chain([usize::MAX]) {
            let text = page(&[(&TOOLS, tools.clone())], Some(width));
            assert!(text.starts_with("Tools\n"), "{width}");
            // A narrower line has no room for anything.
            for line in text.lines().filter(|_| width > 6) {
                assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "{width}: {line}");
            }
        }
        let text = page(&[(&TOOLS, items(r#"[{"name":"a","description":"bcd"}]"#))], Some(1));
        assert_eq!(text, "Tools\n  a\n    …\n");
        assert_eq!(page(&[], None), "the server has no tools, resources or prompts\n");
    }

    #[test]
    fn a_long_list_is_shown_before_its_end_and_stays_aligned() {
        let mut page = Page::default();
        let mut out = String::new();
        page.section = Some(&TOOLS);
        for number in 0..super::MAX_HELD_ROWS {
            assert_eq!(out, "");
            let tool = Raw::parse(format!(r#"{{"name":"t{number}","description":"d"}}"#)).unwrap();
            page.item(&mut out, &TOOLS, &tool);
        }
        assert!(out.contains("t0") && out.contains(&format!("t{}", super::MAX_HELD_ROWS - 1)), "{out}");
        out.clear();
        page.item(&mut out, &TOOLS, &Raw::parse(r#"{"name":"a","description":"d"}"#).unwrap());
        assert_eq!(anstream::adapter::strip_str(&out).to_string(), "  a     d\n");
    }

    #[test]
    fn a_document_is_valid_wherever_a_list_breaks_off() {
        let facts =
            || ServerFacts { header: String::new(), members: vec![("protocolVersion", Raw::string("v"))] };
        for (tools, breaks) in [(0, false), (0, true), (1, false), (2, true)] {
            let (mut document, mut out) = (Document::default(), String::new());
            document.begin_server(&mut out, None, &facts());
            document.begin_section(&mut out, &TOOLS);
            for _ in 0..tools {
                document.begin_item(&mut out);
                document.push(&mut out, r#"{"name":"a"}"#);
            }
            document.end_list(&mut out);
            if breaks {
                document.errors.push(r#"{"method":"tools/list","id":"E_X"}"#.into());
            }
            document.end_server(&mut out);
            let json: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!(json["tools"].as_array().map(Vec::len), Some(tools), "{out}");
            assert_eq!(json.get("errors").is_some(), breaks, "{out}");
        }
    }
}
