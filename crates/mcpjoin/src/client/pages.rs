//! Lists that come in pages, read as one. The only paginator of the library.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>. A cursor has no meaning to a
//! client: every string is one, even the empty string, and only its absence ends a list.

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use mcpjoin_proto::http::params::header_marks;
use mcpjoin_proto::session::{CallError, Reply, Violation};
use mcpjoin_proto::types::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListTasksResult, ListToolsResult,
    Members, PageParams, Prompt, Resource, ResourceTemplate, Task, Tool,
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
    /// A page that was read and not yet returned.
    page: Option<Vec<T>>,
    requested: usize,
    /// The maximum number of pages.
    limit: usize,
    /// For [`RawPages`]: the cache is neither read nor written.
    raw: bool,
    /// The hashes of the cursors that were followed.
    seen: HashSet<u64>,
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

    /// The member of a result that holds the items.
    #[doc(hidden)]
    const MEMBER: &'static str;

    /// The member of an item that identifies it: its name or its address.
    #[doc(hidden)]
    const KEY: &'static str;

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
    ($($item:ident.$key:ident $name:literal, $method:ident => $result:ident.$items:ident $member:literal, $retain:expr;)*) => {$(
        impl sealed::Sealed for $item {}

        impl Listed for $item {
            const METHOD: Method = Method::$method;
            const MEMBER: &'static str = $member;
            const KEY: &'static str = $name;

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
    Tool.name "name", ListTools => ListToolsResult.tools "tools",
        |client: &Client, tools| client.inner.tool_filter.retain(tools);
    Resource.uri "uri", ListResources => ListResourcesResult.resources "resources", all;
    ResourceTemplate.uri_template "uriTemplate",
        ListResourceTemplates => ListResourceTemplatesResult.resource_templates "resourceTemplates", all;
    Prompt.name "name", ListPrompts => ListPromptsResult.prompts "prompts", all;
    Task.task_id "taskId", ListTasks => ListTasksResult.tasks "tasks", all;
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
            limit: client.inner.max_pages,
            client,
            items: Vec::new().into_iter(),
            page: None,
            requested: 0,
            raw: false,
            seen: HashSet::new(),
            stage: Stage::Next(None),
            previous_was_cached: false,
            private: false,
            returned: HashSet::new(),
            hasher: RandomState::new(),
            has_restarted: false,
            discards_earlier: false,
        }
    }

    /// Reads at most this number of pages, in place of
    /// [`ClientBuilder::max_pages`](super::ClientBuilder::max_pages).
    pub const fn max_pages(mut self, pages: usize) -> Self {
        self.limit = pages;
        self
    }

    /// The list from its beginning, page by page, with each item as the server sent it: members that no revision defines
    /// are kept, and an item that is not valid does not end the list. The client's cache is neither read nor written.
    pub fn raw(self) -> RawPages
    where
        T: 'static,
    {
        let mut pages = Pages::<RawItem<T>>::new(self.client);
        (pages.limit, pages.raw) = (self.limit, true);
        RawPages(Box::pin(unfold(pages, |mut pages| async move {
            let page = poll_fn(|cx| pages.poll_page(cx)).await?;
            if let Ok(items) = &page {
                pages.returned.extend(items.iter().map(|item| pages.hasher.hash_one(item.listed_as())));
            }
            Some((page.map(|items| items.into_iter().map(|item| item.raw).collect()), pages))
        })))
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
            match ready!(self.poll_page(cx)) {
                Some(Ok(items)) => self.items = items.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<T>, ClientError>>> {
        loop {
            if let Some(page) = self.page.take() {
                return Poll::Ready(Some(Ok(page)));
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
        let limit = self.limit;
        if self.requested >= limit {
            return Err(ClientError::TooManyPages { method: T::METHOD, limit });
        }
        self.requested += 1;
        let mut params = PageParams::new();
        params.cursor = cursor;
        let first = params.cursor.is_none();
        let mut call = self.client.call(T::METHOD);
        if self.raw {
            if !first {
                call = call.with_params(encode(&T::METHOD, &params)?);
            }
            return Ok(Stage::Reading {
                calling: self.client.inner.connection.call(call),
                ticket: None,
                first,
            });
        }
        let params = encode(&T::METHOD, &params)?;
        let ticket = match self.client.look_up(&T::METHOD, Some(&params)) {
            Lookup::Hit(result) => {
                self.previous_was_cached = true;
                self.private |= !is_public(&result);
                return self.read(T::page(&result)?);
            }
            Lookup::Miss(ticket) => ticket,
        };
        call = call.with_params(params);
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
        self.page = Some(items);
        let Some(cursor) = next else { return Ok(Stage::Over) };
        if !self.seen.insert(self.hasher.hash_one(&cursor)) {
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

/// The pages of a list with each item as the server sent it. From [`Pages::raw`], with the same limit and the same way to
/// continue after a refused cursor.
///
/// Only one page is in memory at a time. Dropping it cancels the request for the page under way.
#[must_use = "nothing is asked before it is polled"]
pub struct RawPages(Pin<Box<dyn Stream<Item = Result<Vec<Raw>, ClientError>> + Send>>);

impl RawPages {
    /// The items of the next page, which may be none; `None` at the end and after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Vec<Raw>, ClientError>> {
        self.0.next().await
    }
}

impl fmt::Debug for RawPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawPages").finish_non_exhaustive()
    }
}

/// An item of a list of `T`, as the server sent it.
struct RawItem<T> {
    raw: Raw,
    /// Its name or its address. Where it has none, its whole text.
    key: String,
    of: PhantomData<fn() -> T>,
}

impl<T: Listed> sealed::Sealed for RawItem<T> {}

impl<T: Listed> Listed for RawItem<T> {
    const METHOD: Method = T::METHOD;
    const MEMBER: &'static str = T::MEMBER;
    const KEY: &'static str = T::KEY;

    fn page(result: &Raw) -> Result<(Vec<Self>, Option<String>), ClientError> {
        let bad = |what: String| ClientError::BadResult { method: T::METHOD, what };
        let page: Members<Raw> = result.decode().map_err(|_| bad("it is not an object".into()))?;
        let items: Option<Vec<Raw>> = page.get(T::MEMBER).and_then(|items| items.decode().ok());
        let items = items.ok_or_else(|| bad(format!("it has no array {}", T::MEMBER)))?;
        let text = |raw: Option<&Raw>| Some(raw?.to_string_value()?.into_owned());
        let item = |raw: Raw| {
            let key = raw.decode().ok().and_then(|members: Members<Raw>| text(members.get(T::KEY)));
            let key = key.unwrap_or_else(|| raw.as_str().to_owned());
            Self { raw, key, of: PhantomData }
        };
        Ok((items.into_iter().map(item).collect(), text(page.get("nextCursor"))))
    }

    fn listed_as(&self) -> &str {
        &self.key
    }

    fn retain(_: &Client, _: &mut Vec<Self>) {}
}
