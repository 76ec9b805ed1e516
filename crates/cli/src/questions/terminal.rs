//! Asks the user on the terminal: the fields of a form one after another, or whether a page may be opened.
//!
//! Used by the parent when a user can be asked. The dialogue is written against [`Person`], so that tests have it without
//! a terminal. Texts of the server are escaped, and shortened to what fits on a screen.

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{ElicitAction, ElicitFormParams, ElicitResult, ElicitUrlParams, Members};
use mcpjoin_auth::internal::WebPage;

use super::form::{Field, Form, indented};
use crate::keyboard;
use crate::ui::Ui;

/// How often a field is asked again, so that a terminal that types by itself comes to an end.
const MAX_TRIES: usize = 20;

/// The longest URL that is shown: it is shown whole or not at all.
const MAX_URL_BYTES: usize = 4096;

/// A person who reads and types.
pub(super) trait Person {
    /// Shows a text of several lines, which is escaped.
    fn show(&mut self, text: &str);

    /// Shows the prompt, and returns the line that is typed; `None` at the end of the input.
    async fn line(&mut self, prompt: &str) -> Option<String>;

    /// Opens a page in the browser.
    fn open(&mut self, page: &WebPage) -> std::io::Result<()>;
}

/// The user at the terminal.
pub(super) struct User<'a>(pub(super) &'a Ui);

impl Person for User<'_> {
    fn show(&mut self, text: &str) {
        self.0.say(text);
    }

    async fn line(&mut self, prompt: &str) -> Option<String> {
        keyboard::line(self.0, prompt).await
    }

    fn open(&mut self, page: &WebPage) -> std::io::Result<()> {
        page.open()
    }
}

/// What the user wants instead of a value.
enum Instead {
    Decline,
    Cancel,
}

/// Has the user fill in a form. `server`: who asks, as the user typed it.
pub(super) async fn form(person: &mut impl Person, server: &str, params: ElicitFormParams) -> ElicitResult {
    let mut intro = format!("{server} asks:{}", indented(&params.message));
    let form = match Form::new(params.requested_schema) {
        Ok(form) => form,
        Err(problem) => {
            person.show(&format!("{intro}\ndeclined: {problem}"));
            return ElicitResult::decline();
        }
    };
    if !form.fields.is_empty() {
        intro.push_str(
            "\n(Enter accepts the value in brackets; :skip leaves out a field, :decline refuses, :cancel \
             stops)",
        );
    }
    person.show(&intro);
    let mut values: Members<Raw> = Members::new();
    loop {
        let mut filled = Members::new();
        for field in &form.fields {
            let before = values.get(&field.name).or(field.default.as_ref()).cloned();
            match ask(person, field, before.as_ref()).await {
                Ok(Some(value)) => drop(filled.insert(field.name.clone(), value)),
                Ok(None) => {}
                Err(Instead::Decline) => return ElicitResult::decline(),
                Err(Instead::Cancel) => return ElicitResult::cancel(),
            }
        }
        values = filled;
        let edit = if form.fields.is_empty() { "" } else { "[e]dit, " };
        let question = format!("Send this answer? [Y]es, {edit}[d]ecline, [c]ancel ");
        let Some(answer) = person.line(&question).await else { return ElicitResult::cancel() };
        match answer.to_ascii_lowercase().as_str() {
            "" | "y" | "yes" => return ElicitResult::new(ElicitAction::Accept).with_content(values),
            "d" | "decline" | ":decline" | "n" | "no" => return ElicitResult::decline(),
            "c" | "cancel" | ":cancel" => return ElicitResult::cancel(),
            // Everything else was no consent.
            _ => {}
        }
    }
}

/// Asks for one field until there is a valid value. `before`: what Enter takes.
async fn ask(person: &mut impl Person, field: &Field, before: Option<&Raw>) -> Result<Option<Raw>, Instead> {
    person.show(&field.question());
    let prompt = before.map_or_else(|| "> ".to_owned(), |before| format!("[{}] > ", field.shown(before)));
    for _ in 0..MAX_TRIES {
        let Some(word) = person.line(&prompt).await else { return Err(Instead::Cancel) };
        match word.as_str() {
            ":decline" => return Err(Instead::Decline),
            ":cancel" => return Err(Instead::Cancel),
            ":skip" if field.is_required => person.show("  this field is required"),
            ":skip" => return Ok(None),
            word => match field.value(word, before) {
                Ok(value) => return Ok(value),
                Err(problem) => person.show(&format!("  {problem}")),
            },
        }
    }
    person.show("cancelled: too many wrong answers");
    Err(Instead::Cancel)
}

/// Shows a URL and its host, and opens it when the user agrees.
pub(super) async fn page(person: &mut impl Person, server: &str, params: &ElicitUrlParams) -> ElicitResult {
    let intro = format!("{server} asks you to open a web page:{}", indented(&params.message));
    let parsed = match params.url.len() {
        0..=MAX_URL_BYTES => WebPage::parse(&params.url),
        _ => Err("its URL is longer than 4 KiB"),
    };
    let page = match parsed {
        Ok(page) => page,
        Err(problem) => {
            let url = indented(&params.url);
            person.show(&format!("{intro}\n{url}\ndeclined: mcpjoin does not open this URL: {problem}"));
            return ElicitResult::decline();
        }
    };
    person.show(&format!("{intro}\n\n  {}\n  on the host {}\n", page.url(), page.host()));
    let Some(answer) = person.line("Open it in your browser? [y]es, [N]o, [c]ancel ").await else {
        return ElicitResult::cancel();
    };
    match answer.to_ascii_lowercase().as_str() {
        "y" | "yes" => {
            if let Err(error) = person.open(&page) {
                person.show(&format!("no browser could be started ({error}): open the URL yourself"));
            }
            ElicitResult::new(ElicitAction::Accept)
        }
        "c" | "cancel" => ElicitResult::cancel(),
        _ => ElicitResult::decline(),
    }
}

#[cfg(test)]
mod tests;
