//! Pages that a user must visit before the server accepts a call: the error -32042 of 2025-11-25.
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error>
//!
//! The client receives the pages as questions, one each. If its user agrees to visit all of them, `rounds` repeats the
//! call. The server may report with `notifications/elicitation/complete` that the user is done with a page;
//! [`CompletedPages`] stores that.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use mcpjoin_proto::types::{
    ClientCapabilities, ElicitAction, InputRequest, InputRequests, InputResponses, UrlElicitationRequiredData,
};
use mcpjoin_proto::{ErrorObject, Method, Raw, code};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::translate::question;
use crate::errors::failure;

/// Completed pages that are stored, newest first to stay: a client needs minutes for a page.
const MAX_COMPLETED_PAGES: usize = 256;

/// How long a repeated call waits for the completion of its pages. A server need not report it, so after this time the
/// call is repeated anyway.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(30);

/// The pages that one error names.
pub(super) struct Pages {
    questions: Vec<InputRequest>,
    /// The ids under which the server reports their completion.
    pub(super) ids: Vec<String>,
    /// The message of the server's error.
    message: String,
}

impl Pages {
    /// The pages of an error. `None` for any other error, for one that does not name its pages, and for a client that
    /// has not declared that its user can be sent to pages.
    pub(super) fn of(error: &ErrorObject, client: &ClientCapabilities) -> Option<Self> {
        if error.code != code::URL_ELICITATION_REQUIRED {
            return None;
        }
        let data = error.data.as_ref()?;
        let known: UrlElicitationRequiredData = data.decode().ok()?;
        let pages: Vec<Raw> = data.member("elicitations")?.decode().ok()?;
        let questions: Result<Vec<_>, _> =
            pages.into_iter().map(|page| question(&Method::Elicit, Some(page), client)).collect();
        let questions = questions.ok().filter(|questions| !questions.is_empty())?;
        let ids = known.elicitations.into_iter().filter_map(|page| page.elicitation_id).collect();
        Some(Self { questions, ids, message: error.message.clone() })
    }

    /// The questions for the client, and their size in bytes.
    pub(super) fn questions(&self) -> (InputRequests, usize) {
        let length = |page: &InputRequest| page.params().ok().flatten().as_ref().map_or(0, Raw::len);
        let questions = self.questions.iter().enumerate().map(|(index, page)| (key(index), page.clone()));
        (questions.collect(), self.questions.iter().map(length).sum())
    }

    /// Whether the user has agreed to visit all pages. `false` if the responses do not answer for each of them.
    ///
    /// # Errors
    /// If the user declined one, or a response is not valid.
    pub(super) fn are_accepted(&self, responses: &InputResponses) -> Result<bool, ErrorObject> {
        let mut all = true;
        for index in 0..self.questions.len() {
            let Some(response) = responses.get(&key(index)) else {
                all = false;
                continue;
            };
            let answer = response.to_elicit().map_err(|error| {
                ErrorObject::invalid_params(format!("`inputResponses`: {}: {error}", key(index)))
            })?;
            if answer.action != ElicitAction::Accept {
                let text = format!(
                    "the user did not agree to open a page that the server requires: {}",
                    self.message
                );
                return Err(failure("pageDeclined", &text, &[]));
            }
        }
        Ok(all)
    }
}

/// The key of a page in `inputRequests`.
fn key(index: usize) -> String {
    format!("page-{}", index + 1)
}

/// The pages that one run of a server has reported as completed.
#[derive(Default)]
pub(super) struct CompletedPages {
    /// Hashes of the ids, so that the length of an id costs nothing.
    ids: Mutex<VecDeque<u64>>,
    hasher: RandomState,
    added: Notify,
}

impl CompletedPages {
    /// The server reports a page as completed.
    pub(super) fn add(&self, id: &str) {
        let mut ids = self.ids.lock();
        if ids.len() == MAX_COMPLETED_PAGES {
            ids.pop_front();
        }
        ids.push_back(self.hasher.hash_one(id));
        drop(ids);
        self.added.notify_waiters();
    }

    /// Waits until all of these pages are completed, at most [`COMPLETION_TIMEOUT`].
    pub(super) async fn wait(&self, ids: &[String]) {
        let all = async {
            loop {
                let added = self.added.notified();
                if self.contains(ids) {
                    return;
                }
                added.await;
            }
        };
        // The call is repeated in either case.
        let _ = timeout(COMPLETION_TIMEOUT, all).await;
    }

    fn contains(&self, wanted: &[String]) -> bool {
        let ids = self.ids.lock();
        !wanted.is_empty() && wanted.iter().all(|id| ids.contains(&self.hasher.hash_one(id.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).expect("valid")
    }

    #[test]
    fn the_pages_of_an_error_become_questions() {
        let all = raw(r#"{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}"#).decode();
        let all: ClientCapabilities = all.expect("capabilities");
        let forms: ClientCapabilities = raw(r#"{"elicitation":{}}"#).decode().expect("capabilities");
        let data =
            raw(r#"{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a/","message":"m"}]}"#);
        let error = ErrorObject::new(code::URL_ELICITATION_REQUIRED, "visit").with_data(data);
        let found = Pages::of(&error, &all).expect("pages");
        assert_eq!(found.ids, ["e1"]);
        assert!(found.questions[0].is_url_elicitation());
        assert_eq!(found.message, "visit");
        assert!(Pages::of(&ErrorObject { code: -32000, ..error.clone() }, &all).is_none());
        assert!(Pages::of(&error, &forms).is_none());
        let empty = ErrorObject { data: Some(raw(r#"{"elicitations":[]}"#)), ..error };
        assert!(Pages::of(&empty, &all).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_visits_are_remembered() {
        let completed = CompletedPages::default();
        for id in 0..=MAX_COMPLETED_PAGES {
            completed.add(&id.to_string());
        }
        let begun = Instant::now();
        for id in 1..=MAX_COMPLETED_PAGES {
            completed.wait(&[id.to_string()]).await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        completed.wait(&["0".to_owned()]).await;
        assert_eq!(begun.elapsed(), COMPLETION_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn all_pages_are_waited_for_but_not_for_ever() {
        let completed = CompletedPages::default();
        let begun = Instant::now();
        let ids = ["a".to_owned(), "b".to_owned()];
        completed.add("a");
        let (_, elapsed) = tokio::join!(
            async {
                tokio::time::advance(Duration::from_secs(7)).await;
                completed.add("b");
            },
            async {
                completed.wait(&ids).await;
                begun.elapsed()
            }
        );
        assert_eq!(elapsed, Duration::from_secs(7));
        completed.wait(&["c".to_owned()]).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(37));
    }
}
