//! The requests of a server to its client: forms and web pages for the user, messages of a model, and roots.
//!
//! `connect::plan` declares [them](Answering) for the verbs that meet such requests. A capability is declared only when it can be used: a user at
//! the terminal or `--answer` for forms, a user or `--answer` for pages, `--sampler`, `--root`. The eras and the rounds of questions
//! are the library's. <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>

mod answers;
mod form;
mod sampler;
mod terminal;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::ErrorObject;
use mcpjoin::proto::types::{CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, Root};

use self::answers::Answers;
use self::terminal::User;
use crate::args::Questions;
use crate::failure::Failure;
use crate::keyboard;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

/// What is declared to a server, and who answers it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Answering {
    elicitation: Option<Arc<Asker>>,
    roots: Vec<Root>,
    sampler: Option<Arc<Sampler>>,
}

/// Who answers questions for the user.
enum Source {
    /// The user, at the terminal. Questions that come together are asked one after another.
    Terminal(tokio::sync::Mutex<()>),
    /// `--answer`
    Answers(Mutex<Answers>),
    /// `--no-input`
    Nobody,
}

/// Asks the user what a server asks.
struct Asker {
    ui: Ui,
    /// The server, as the user typed it.
    server: String,
    source: Source,
}

struct Sampler {
    ui: Ui,
    command: String,
}

impl Answering {
    /// What the options and the terminal can answer. `server`: what asks, as the user typed it.
    pub(crate) fn new(ui: &Ui, options: &Questions, server: &str) -> Result<Self, Failure> {
        let source = match (&options.answer, options.no_input) {
            (Some(answer), _) => {
                let answers = Answers::read(answer).map_err(|problem| {
                    let hint = r#"use --answer '{"FIELD": "VALUE"}', or a file with that, or with a list of answers"#;
                    Failure::usage(format!("--answer: {problem}"), hint)
                })?;
                Some(Source::Answers(Mutex::new(answers)))
            }
            (None, true) => Some(Source::Nobody),
            (None, false) => keyboard::is_there().then(|| Source::Terminal(tokio::sync::Mutex::default())),
        };
        let asker = |source| Arc::new(Asker { ui: ui.clone(), server: server.to_owned(), source });
        let sampler = |command: &String| Arc::new(Sampler { ui: ui.clone(), command: command.clone() });
        Ok(Self {
            elicitation: source.map(asker),
            roots: options.root.iter().map(|folder| root(folder)).collect::<Result<_, _>>()?,
            sampler: options.sampler.as_ref().map(sampler),
        })
    }

    /// Declares it.
    pub(crate) fn declare(&self, mut client: ClientBuilder) -> ClientBuilder {
        if let Some(asker) = self.elicitation.clone() {
            client = client.elicitation_url(true).elicitation(move |params| {
                let asker = asker.clone();
                async move { asker.answer(params).await }
            });
        }
        if !self.roots.is_empty() {
            client = client.roots(self.roots.clone());
        }
        if let Some(sampler) = self.sampler.clone() {
            client = client.sampling(move |params| {
                let sampler = sampler.clone();
                async move { sampler.answer(params).await }
            });
        }
        client
    }
}

impl Sampler {
    async fn answer(&self, params: CreateMessageParams) -> Result<CreateMessageResult, ErrorObject> {
        sampler::sample(&self.command, &params).await.map_err(|problem| {
            self.ui.warning(&format!("--sampler {}: {problem}", shown(self.command.as_ref())));
            ErrorObject::internal(format!("the client's model failed: {problem}"))
        })
    }
}

/// A folder as a root.
fn root(folder: &Path) -> Result<Root, Failure> {
    let refused = |problem: String| {
        let problem = format!("--root {}: {problem}", shown(folder.as_ref()));
        Failure::usage(problem, "--root DIR, where DIR is a folder")
    };
    let path = folder.canonicalize().map_err(|error| refused(error.to_string()))?;
    if !path.is_dir() {
        return Err(refused("this is not a folder".into()));
    }
    let uri = url::Url::from_file_path(&path).map_err(|()| refused("this is not an absolute path".into()))?;
    let root = Root::new(String::from(uri));
    Ok(match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => root.with_name(name),
        None => root,
    })
}

impl Asker {
    async fn answer(&self, params: ElicitParams) -> Result<ElicitResult, ErrorObject> {
        match &self.source {
            Source::Terminal(turn) => {
                let _turn = turn.lock().await;
                let _asked =
                    self.ui.asked(|| format!("{} asks a question: press Enter to see it", self.server)).await;
                keyboard::discard();
                let mut user = User(&self.ui);
                match params {
                    ElicitParams::Form(form) => Ok(terminal::form(&mut user, &self.server, form).await),
                    ElicitParams::Url(page) => Ok(terminal::page(&mut user, &self.server, &page).await),
                    _ => Err(ErrorObject::invalid_params(
                        "mcpjoin does not support this mode of \
                        elicitation",
                    )),
                }
            }
            Source::Answers(answers) => {
                let next = answers.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(answer) = next else {
                    self.unasked(&params, "declined", "--answer has no more answers");
                    return Ok(ElicitResult::decline());
                };
                if let ElicitParams::Url(page) = &params {
                    self.ui.say(&format!("{} asks you to open {}", self.server, page.url));
                }
                let (result, unknown) = answer.to(params).map_err(|problem| {
                    self.ui.warning(&format!("--answer does not fit the form of {}: {problem}", self.server));
                    ErrorObject::internal(format!("the client has no valid answer: {problem}"))
                })?;
                for (name, similar) in unknown {
                    let similar =
                        similar.map(|similar| format!("; did you mean {}?", shown(similar.as_ref())));
                    let name = shown(name.as_ref());
                    self.ui.note(&format!("the form has no field {name}{}", similar.unwrap_or_default()));
                }
                Ok(result)
            }
            Source::Nobody => {
                self.unasked(&params, "declined", "--no-input is set; --answer FILE answers it");
                Ok(ElicitResult::decline())
            }
        }
    }

    /// Notes that a question was not shown.
    fn unasked(&self, params: &ElicitParams, what: &str, why: &str) {
        let message = match params {
            ElicitParams::Form(form) => &form.message,
            ElicitParams::Url(page) => &page.message,
            _ => return,
        };
        let message = visible::cut_chars(&visible::first_line(message), form::MAX_TEXT_CHARS);
        self.ui.note(&format!("{} asks: {message} ({what}: {why})", self.server));
    }
}

#[cfg(test)]
mod tests;
