//! Lists that come in pages, read as one.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>. A cursor means nothing to
//! a client: every text is one, the empty one too, and only its absence ends a list.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use mcpjoin_proto::session::{CallError, Reply};
use mcpjoin_proto::types::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListTasksResult, ListToolsResult,
    PageParams, Prompt, Resource, ResourceTemplate, Task, Tool,
};
use mcpjoin_proto::{Method, Raw, code};
use tokio::time::Instant;

use super::cache::is_public;
use super::connection_cache::{CacheTicket, Lookup};
use super::{Client, ClientError, decode, encode};
use crate::connection::Calling;

/// The items of a list, page after page as they are needed.
///
/// Also a [`Stream`]. Ends after the first error: a page that failed, a cursor that came twice, or more pages than the
/// bound. Dropping it cancels the request for the page under way.
///
/// Pages that are remembered as fresh are not asked for, each for itself ([`Cache`](super::Cache)); when the list has
/// changed meanwhile, items may come twice or be missing, as with a list that changes while it is read.
/// [`Client::uncached`] reads a list as it is.
///
/// When the server refuses a cursor (-32602, or any error behind a remembered page), all pages of the list are forgotten,
/// and it is read from the beginning, [once](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#interaction-with-pagination):
/// items with the name or the address of one that was handed out do not come again. The second refusal is an error.
#[must_use = "nothing is asked before it is polled"]
pub struct Pages<T: Listed> {
    client: Client,
    items: std::vec::IntoIter<T>,
    asked: usize,
    seen: BTreeSet<String>,
    stage: Stage,
    /// The page before was remembered.
    from_memory: bool,
    /// An earlier page was for this client alone, and so is the whole list.
    private: bool,
    /// What was handed out and cannot be taken back: of each item a number that stands for its name.
    handed_out: HashSet<u64>,
    numbers: RandomState,
    /// A cursor was refused, and the list begun again for it.
    has_restarted: bool,
    /// The list was begun again, and what was read before is void.
    begun_again: bool,
}

enum Stage {
    /// The next page begins there; the first one nowhere in particular.
    Next(Option<String>),
    Reading {
        calling: Calling,
        asked: Option<CacheTicket>,
        first: bool,
    },
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

    /// By what it is known among the others: its name or its address.
    #[doc(hidden)]
    fn listed_as(&self) -> &str;

    /// Leaves out what this connection cannot use.
    #[doc(hidden)]
    fn retain(client: &Client, items: &mut Vec<Self>);
}

macro_rules! listed {
    ($($item:ident.$key:ident, $method:ident => $result:ident.$items:ident, $retain:expr;)*) => {$(
        impl sealed::Sealed for $item {}

        impl Listed for $item {
            const METHOD: Method = Method::$method;

            fn page(result: &Raw) -> Result<(Vec<Self>, Option<String>), ClientError> {
                let page: $result = decode(&Self::METHOD, result)?;
                Ok((page.$items, page.next_cursor))
            }

            fn listed_as(&self) -> &str {
                &self.$key
            }

            fn retain(client: &Client, items: &mut Vec<Self>) {
                $retain(client, items);
            }
        }
    )*};
}

listed! {
    Tool.name, ListTools => ListToolsResult.tools, |client: &Client, tools| client.inner.catalogue.retain(tools);
    Resource.uri, ListResources => ListResourcesResult.resources, all;
    ResourceTemplate.uri_template, ListResourceTemplates => ListResourceTemplatesResult.resource_templates, all;
    Prompt.name, ListPrompts => ListPromptsResult.prompts, all;
    Task.task_id, ListTasks => ListTasksResult.tasks, all;
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
            from_memory: false,
            private: false,
            handed_out: HashSet::new(),
            numbers: RandomState::new(),
            has_restarted: false,
            begun_again: false,
        }
    }

    /// The next item; `None` at the end and after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        poll_fn(|cx| self.poll_handed(cx)).await
    }

    /// All items that are left.
    ///
    /// # Errors
    /// The first that occurs: what was read before it is dropped.
    pub async fn all(mut self) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        loop {
            let item = poll_fn(|cx| self.poll_item(cx)).await.transpose()?;
            if std::mem::take(&mut self.begun_again) {
                items.clear();
            }
            let Some(item) = item else { return Ok(items) };
            items.push(item);
            items.extend(self.items.by_ref());
        }
    }

    fn poll_handed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, ClientError>>> {
        let item = self.poll_item(cx);
        if let Poll::Ready(Some(Ok(item))) = &item {
            self.handed_out.insert(self.numbers.hash_one(item.listed_as()));
        }
        item
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, ClientError>>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            let next = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Over => return Poll::Ready(None),
                Stage::Failed(error) => return Poll::Ready(Some(Err(*error))),
                Stage::Next(cursor) => self.request_page(cursor),
                Stage::Reading { mut calling, asked, first } => match Pin::new(&mut calling).poll(cx) {
                    Poll::Pending => {
                        self.stage = Stage::Reading { calling, asked, first };
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(reply)) => self.take(reply, asked, calling.arrived()),
                    Poll::Ready(Err(error)) => self.refused(error, first),
                },
            };
            self.stage = next.unwrap_or_else(|error| Stage::Failed(Box::new(error)));
        }
    }

    fn request_page(&mut self, cursor: Option<String>) -> Result<Stage, ClientError> {
        let limit = self.client.inner.max_pages;
        if self.asked >= limit {
            return Err(ClientError::TooManyPages { method: T::METHOD, limit });
        }
        self.asked += 1;
        let mut params = PageParams::new();
        params.cursor = cursor;
        let first = params.cursor.is_none();
        let params = encode(&T::METHOD, &params)?;
        let asked = match self.client.look_up(&T::METHOD, Some(&params)) {
            Lookup::Hit(result) => {
                self.from_memory = true;
                self.private |= !is_public(&result);
                return self.read(T::page(&result)?);
            }
            Lookup::Miss(asked) => asked,
        };
        let call = self.client.call(T::METHOD).with_params(params);
        Ok(Stage::Reading { calling: self.client.inner.connection.call(call), asked, first })
    }

    /// Takes a page that was asked for.
    fn take(
        &mut self,
        reply: Reply,
        asked: Option<CacheTicket>,
        arrived: Option<Instant>,
    ) -> Result<Stage, ClientError> {
        let result = super::complete(&T::METHOD, reply)?;
        let page = T::page(&result)?;
        self.from_memory = false;
        if let Some(asked) = asked {
            self.private |= !is_public(&result);
            self.client.inner.cache.keep(asked, &result, arrived, !self.private);
        }
        self.read(page)
    }

    /// A page that is refused for its cursor shows that nothing is known of the list: it is begun again, once.
    fn refused(&mut self, error: CallError, first: bool) -> Result<Stage, ClientError> {
        let CallError::Remote(remote) = &error else { return Err(error.into()) };
        if first {
            return Err(error.into());
        }
        self.client.inner.cache.forget(&T::METHOD);
        // Behind a remembered page the cursor is old, whatever the server says of it.
        let by_its_cursor = std::mem::take(&mut self.from_memory) || remote.code == code::INVALID_PARAMS;
        if !by_its_cursor || std::mem::replace(&mut self.has_restarted, true) {
            return Err(error.into());
        }
        // The bound of the pages goes on.
        self.seen.clear();
        (self.private, self.begun_again) = (false, true);
        Ok(Stage::Next(None))
    }

    fn read(&mut self, (mut items, next): (Vec<T>, Option<String>)) -> Result<Stage, ClientError> {
        T::retain(&self.client, &mut items);
        if self.has_restarted && !self.handed_out.is_empty() {
            items.retain(|item| !self.handed_out.contains(&self.numbers.hash_one(item.listed_as())));
        }
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
        self.get_mut().poll_handed(cx)
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
