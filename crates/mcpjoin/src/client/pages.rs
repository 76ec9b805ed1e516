//! Lists that come in pages, read as one.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>. A cursor means nothing to
//! a client: every text is one, the empty one too, and only its absence ends a list.

use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListTasksResult, ListToolsResult,
    PageParams, Prompt, Resource, ResourceTemplate, Task, Tool,
};
use mcpjoin_proto::{Method, Raw};

use super::{Client, ClientError, decode, encode};
use crate::connection::Calling;

/// The items of a list, page after page as they are needed.
///
/// Also a [`Stream`]. Ends after the first error: a page that failed, a cursor that came twice, or more pages than the
/// bound. Dropping it cancels the request for the page under way.
#[must_use = "nothing is asked before it is polled"]
pub struct Pages<T: Listed> {
    client: Client,
    items: std::vec::IntoIter<T>,
    asked: usize,
    seen: BTreeSet<String>,
    stage: Stage,
}

enum Stage {
    /// The next page begins there; the first one nowhere in particular.
    Next(Option<String>),
    Reading(Calling),
    /// Told when the items before it are taken.
    Failed(Box<ClientError>),
    Over,
}

mod sealed {
    pub trait Sealed {}
}

/// What servers list: tools, resources, resource templates, prompts. Nobody else implements it.
pub trait Listed: sealed::Sealed + Unpin + Send + Sized {
    /// The method of the list.
    #[doc(hidden)]
    const METHOD: Method;

    /// The items of a page, and where the next one begins.
    #[doc(hidden)]
    fn page(result: &Raw) -> Result<(Vec<Self>, Option<String>), ClientError>;

    /// Leaves out what this connection cannot use.
    #[doc(hidden)]
    fn retain(client: &Client, items: &mut Vec<Self>);
}

macro_rules! listed {
    ($($item:ident, $method:ident => $result:ident.$items:ident, $retain:expr;)*) => {$(
        impl sealed::Sealed for $item {}

        impl Listed for $item {
            const METHOD: Method = Method::$method;

            fn page(result: &Raw) -> Result<(Vec<Self>, Option<String>), ClientError> {
                let page: $result = decode(&Self::METHOD, result)?;
                Ok((page.$items, page.next_cursor))
            }

            fn retain(client: &Client, items: &mut Vec<Self>) {
                $retain(client, items);
            }
        }
    )*};
}

listed! {
    Tool, ListTools => ListToolsResult.tools, |client: &Client, tools| client.inner.catalogue.retain(tools);
    Resource, ListResources => ListResourcesResult.resources, all;
    ResourceTemplate, ListResourceTemplates => ListResourceTemplatesResult.resource_templates, all;
    Prompt, ListPrompts => ListPromptsResult.prompts, all;
    Task, ListTasks => ListTasksResult.tasks, all;
}

/// Nothing is left out.
const fn all<T>(_: &Client, _: &mut Vec<T>) {}

impl<T: Listed> Pages<T> {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            items: Vec::new().into_iter(),
            asked: 0,
            seen: BTreeSet::new(),
            stage: Stage::Next(None),
        }
    }

    /// The next item; `None` at the end and after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        poll_fn(|cx| self.poll_item(cx)).await
    }

    /// All items that are left.
    ///
    /// # Errors
    /// The first that occurs: what was read before it is dropped.
    pub async fn all(mut self) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        while let Some(item) = self.next().await {
            items.push(item?);
            items.extend(self.items.by_ref());
        }
        Ok(items)
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, ClientError>>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            let next = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Over => return Poll::Ready(None),
                Stage::Failed(error) => return Poll::Ready(Some(Err(*error))),
                Stage::Next(cursor) => self.ask(cursor),
                Stage::Reading(mut calling) => match Pin::new(&mut calling).poll(cx) {
                    Poll::Pending => {
                        self.stage = Stage::Reading(calling);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(reply)) => self.read(reply),
                    Poll::Ready(Err(error)) => Err(error.into()),
                },
            };
            self.stage = next.unwrap_or_else(|error| Stage::Failed(Box::new(error)));
        }
    }

    fn ask(&mut self, cursor: Option<String>) -> Result<Stage, ClientError> {
        let limit = self.client.inner.max_pages;
        if self.asked >= limit {
            return Err(ClientError::TooManyPages { method: T::METHOD, limit });
        }
        self.asked += 1;
        let mut params = PageParams::new();
        params.cursor = cursor;
        let call = self.client.call(T::METHOD).with_params(encode(&T::METHOD, &params)?);
        Ok(Stage::Reading(self.client.inner.connection.call(call)))
    }

    fn read(&mut self, reply: Reply) -> Result<Stage, ClientError> {
        let (mut items, next) = T::page(&super::complete(&T::METHOD, reply)?)?;
        T::retain(&self.client, &mut items);
        self.items = items.into_iter();
        let Some(cursor) = next else { return Ok(Stage::Over) };
        if !self.seen.insert(cursor.clone()) {
            return Err(ClientError::RepeatedCursor { method: T::METHOD, cursor });
        }
        Ok(Stage::Next(Some(cursor)))
    }
}

impl<T: Listed> Stream for Pages<T> {
    type Item = Result<T, ClientError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_item(cx)
    }
}

impl<T: Listed> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("method", &T::METHOD)
            .field("pages", &self.asked)
            .finish_non_exhaustive()
    }
}
