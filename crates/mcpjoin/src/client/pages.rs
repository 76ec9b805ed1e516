//! Lists that come in pages, read as one. The only paginator of the library.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>. A cursor has no meaning to a
//! client: every string is one, even the empty string, and only its absence ends a list.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use mcpjoin_proto::http::params::header_marks;
use mcpjoin_proto::session::{CallError, Reply, Violation};
use mcpjoin_proto::types::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListTasksResult, ListToolsResult,
    PageParams, Prompt, Resource, ResourceTemplate, Task, Tool,
};
use mcpjoin_proto::{Method, Raw, code};
use tokio::time::Instant;

use super::cache::is_public;
use super::connection_cache::{CacheTicket, Lookup};
use super::{Client, ClientError, decode, encode};
use crate::connection::{Calling, OnViolation};

/// The items of a list. Pages are requested as they are needed.
///
/// It is also a [`Stream`]. It ends after the first error: a failed page, a repeated cursor, or too many pages.
/// Dropping it cancels the request for the current page.
///
/// Each page may come from the [`Cache`](super::Cache). If the list has changed between two pages, items may be
/// repeated or missing, as with any list that changes while it is read. [`Client::uncached`] reads the current list.
///
/// If the server refuses a cursor (-32602, or any error after a cached page), all cached pages of the list are removed
/// and the list is read from its start
/// [once](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#interaction-with-pagination).
/// Items that were returned already, by name or URI, are then skipped. A second refusal is an error.
///
/// ```no_run
/// # async fn example(client: mcpjoin::Client) -> Result<(), mcpjoin::client::ClientError> {
/// let mut tools = client.list_tools();
/// while let Some(tool) = tools.next().await {
///     println!("{}", tool?.name);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is asked before it is polled"]
pub struct Pages<T: Listed> {
    client: Client,
    items: std::vec::IntoIter<T>,
    requested: usize,
    seen: BTreeSet<String>,
    stage: Stage,
    /// The previous page was cached.
    previous_was_cached: bool,
    /// An earlier page was private, so the whole list is.
    private: bool,
    /// Hashes of the names of the items that were returned.
    returned: HashSet<u64>,
    hasher: RandomState,
    /// The list was restarted because a cursor was refused.
    has_restarted: bool,
    /// The list was restarted: items read before are discarded.
    discards_earlier: bool,
}

enum Stage {
    /// The cursor of the next page; `None` for the first page.
    Next(Option<String>),
    Reading {
        calling: Calling,
        ticket: Option<CacheTicket>,
        first: bool,
    },
    /// Returned when the items before it were taken.
    Failed(Box<ClientError>),
    Over,
}

mod sealed {
    pub trait Sealed {}
}

/// An item of a list: a tool, resource, resource template, prompt or task. Sealed.
pub trait Listed: sealed::Sealed + Unpin + Send + Sized {
    /// The method of the list.
    #[doc(hidden)]
    const METHOD: Method;

    /// Decodes a page: its items and the next cursor.
    #[doc(hidden)]
    fn page(result: &Raw) -> Result<(Vec<Self>, Option<String>), ClientError>;

    /// The name or URI that identifies the item in its list.
    #[doc(hidden)]
    fn listed_as(&self) -> &str;

    /// Removes items that this connection cannot use.
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
    Tool.name, ListTools => ListToolsResult.tools, |client: &Client, tools| client.inner.tool_filter.retain(tools);
    Resource.uri, ListResources => ListResourcesResult.resources, all;
    ResourceTemplate.uri_template, ListResourceTemplates => ListResourceTemplatesResult.resource_templates, all;
    Prompt.name, ListPrompts => ListPromptsResult.prompts, all;
    Task.task_id, ListTasks => ListTasksResult.tasks, all;
}

/// Removes nothing.
const fn all<T>(_: &Client, _: &mut Vec<T>) {}

/// Removes the tools that a client cannot call.
///
/// Over HTTP a modern client repeats arguments in headers, where the schema of the tool marks them. A tool with invalid marks
/// cannot be called so: it is removed from every list, and reported as a violation.
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>
pub(super) struct ToolFilter {
    /// This connection repeats arguments in headers.
    pub(super) checks_headers: bool,
    pub(super) on_violation: Option<OnViolation>,
}

impl ToolFilter {
    /// Keeps the tools that can be called.
    pub(super) fn retain(&self, tools: &mut Vec<Tool>) {
        if !self.checks_headers {
            return;
        }
        tools.retain(|tool| {
            let Err(problem) = header_marks(&tool.input_schema) else { return true };
            let violation =
                Violation::HeaderMark { tool: tool.name.as_str().into(), problem: problem.into() };
            tracing::warn!(target: "mcpjoin", %violation, "the peer broke a rule");
            if let Some(on_violation) = &self.on_violation {
                on_violation(&violation);
            }
            false
        });
    }
}

impl<T: Listed> Pages<T> {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            items: Vec::new().into_iter(),
            requested: 0,
            seen: BTreeSet::new(),
            stage: Stage::Next(None),
            previous_was_cached: false,
            private: false,
            returned: HashSet::new(),
            hasher: RandomState::new(),
            has_restarted: false,
            discards_earlier: false,
        }
    }

    /// Returns the next item, or `None` at the end and after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        poll_fn(|cx| self.poll_returned(cx)).await
    }

    /// Returns all remaining items.
    ///
    /// # Errors
    /// Returns the first error, and discards the items before it.
    pub async fn all(mut self) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        loop {
            let item = poll_fn(|cx| self.poll_item(cx)).await.transpose()?;
            if std::mem::take(&mut self.discards_earlier) {
                items.clear();
            }
            let Some(item) = item else { return Ok(items) };
            items.push(item);
            items.extend(self.items.by_ref());
        }
    }

    fn poll_returned(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, ClientError>>> {
        let item = self.poll_item(cx);
        if let Poll::Ready(Some(Ok(item))) = &item {
            self.returned.insert(self.hasher.hash_one(item.listed_as()));
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
                Stage::Reading { mut calling, ticket, first } => match Pin::new(&mut calling).poll(cx) {
                    Poll::Pending => {
                        self.stage = Stage::Reading { calling, ticket, first };
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(reply)) => self.receive_page(reply, ticket, calling.arrived()),
                    Poll::Ready(Err(error)) => self.handle_error(error, first),
                },
            };
            self.stage = next.unwrap_or_else(|error| Stage::Failed(Box::new(error)));
        }
    }

    fn request_page(&mut self, cursor: Option<String>) -> Result<Stage, ClientError> {
        let limit = self.client.inner.max_pages;
        if self.requested >= limit {
            return Err(ClientError::TooManyPages { method: T::METHOD, limit });
        }
        self.requested += 1;
        let mut params = PageParams::new();
        params.cursor = cursor;
        let first = params.cursor.is_none();
        let params = encode(&T::METHOD, &params)?;
        let ticket = match self.client.look_up(&T::METHOD, Some(&params)) {
            Lookup::Hit(result) => {
                self.previous_was_cached = true;
                self.private |= !is_public(&result);
                return self.read(T::page(&result)?);
            }
            Lookup::Miss(ticket) => ticket,
        };
        let call = self.client.call(T::METHOD).with_params(params);
        Ok(Stage::Reading { calling: self.client.inner.connection.call(call), ticket, first })
    }

    /// Takes a page that was requested.
    fn receive_page(
        &mut self,
        reply: Reply,
        ticket: Option<CacheTicket>,
        arrived: Option<Instant>,
    ) -> Result<Stage, ClientError> {
        let result = super::complete(&T::METHOD, reply)?;
        let page = T::page(&result)?;
        self.previous_was_cached = false;
        if let Some(ticket) = ticket {
            self.private |= !is_public(&result);
            self.client.inner.cache.keep(ticket, &result, arrived, !self.private);
        }
        self.read(page)
    }

    /// Restarts the list once if its page was refused because of the cursor.
    fn handle_error(&mut self, error: CallError, first: bool) -> Result<Stage, ClientError> {
        let CallError::Remote(remote) = &error else { return Err(error.into()) };
        if first {
            return Err(error.into());
        }
        self.client.inner.cache.forget(&T::METHOD);
        // After a cached page the cursor may be outdated, whatever the error says.
        let by_its_cursor =
            std::mem::take(&mut self.previous_was_cached) || remote.code == code::INVALID_PARAMS;
        if !by_its_cursor || std::mem::replace(&mut self.has_restarted, true) {
            return Err(error.into());
        }
        // The limit of the pages covers both passes.
        self.seen.clear();
        (self.private, self.discards_earlier) = (false, true);
        Ok(Stage::Next(None))
    }

    fn read(&mut self, (mut items, next): (Vec<T>, Option<String>)) -> Result<Stage, ClientError> {
        T::retain(&self.client, &mut items);
        if self.has_restarted && !self.returned.is_empty() {
            items.retain(|item| !self.returned.contains(&self.hasher.hash_one(item.listed_as())));
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
        self.get_mut().poll_returned(cx)
    }
}

impl<T: Listed> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("method", &T::METHOD)
            .field("pages", &self.requested)
            .finish_non_exhaustive()
    }
}
