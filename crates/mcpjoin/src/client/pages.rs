//! Lists that come in pages, read as one. The only paginator of the library.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>. A cursor has no meaning to a
//! client: every string is one, even the empty string, and only its absence ends a list.

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use mcpjoin_proto::http::params::header_marks;
use mcpjoin_proto::session::{CallError, Reply, Violation};
use mcpjoin_proto::types::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListTasksResult, ListToolsResult,
    Members, PageParams, Prompt, ProtocolType, Resource, ResourceTemplate, Task, Tool,
};
use mcpjoin_proto::{Method, Raw, code};
use tokio::time::Instant;

use super::cache::is_public;
use super::connection_cache::{CacheTicket, Lookup};
use super::{Client, ClientError, decode, encode};
use crate::connection::{Calling, OnViolation};

/// The bytes of a list from which [`Pages::all`] requests no further page: of its pages as JSON, and of the items as values. Ten
/// thousand tools with schemas of usual sizes have less.
const MAX_LIST_BYTES: usize = 64 << 20;
/// The items that are remembered, so that none is returned twice after a refused cursor. A list of which so many were returned is
/// not read again.
const MAX_RETURNED: usize = 100_000;

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
/// Items that were returned already, by name or URI, are then skipped. A second refusal is an error, and so is one after
/// 100,000 items.
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
    reader: PageReader,
    items: std::vec::IntoIter<T>,
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

    /// The result of a request for one page.
    type Page: ProtocolType + Send;

    /// The items of a page, and the next cursor.
    #[doc(hidden)]
    fn parts(page: &mut Self::Page) -> (&mut Vec<Self>, &mut Option<String>);

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

            type Page = $result;

            fn parts(page: &mut $result) -> (&mut Vec<Self>, &mut Option<String>) {
                (&mut page.$items, &mut page.next_cursor)
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
        Self { reader: PageReader::new(client, T::METHOD), items: Vec::new().into_iter() }
    }

    /// Reads at most this number of pages, in place of
    /// [`ClientBuilder::max_pages`](super::ClientBuilder::max_pages).
    #[doc(hidden)]
    pub const fn max_pages(mut self, pages: usize) -> Self {
        self.reader.limit = pages;
        self
    }

    /// The list from its beginning, page by page, with each item as the server sent it: members that no revision defines
    /// are kept, and an item that is not valid does not end the list. The client's cache is neither read nor written.
    pub fn raw(self) -> RawPages {
        let reader = PageReader {
            limit: self.reader.limit,
            raw: true,
            ..PageReader::new(self.reader.client, self.reader.method)
        };
        RawPages { reader, member: T::MEMBER, key: T::KEY }
    }

    /// Requests one page: the first, or the one that a cursor of an earlier page names. For a program that shows a list page
    /// by page.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn page(self, params: PageParams) -> Result<T::Page, ClientError> {
        let client = self.reader.client;
        let mut page: T::Page = client.request_page(T::METHOD, &params).await?;
        T::retain(&client, T::parts(&mut page).0);
        Ok(page)
    }

    /// Returns the next item, or `None` at the end and after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        poll_fn(|cx| self.poll_returned(cx)).await
    }

    /// Returns all remaining items. A list that has more pages after 64 MiB is an error; [`Pages::next`] reads a list of any size.
    ///
    /// # Errors
    /// Returns the first error, and discards the items before it.
    pub async fn all(mut self) -> Result<Vec<T>, ClientError> {
        self.reader.collected = Some(0);
        let mut items = Vec::new();
        loop {
            let item = poll_fn(|cx| self.poll_item(cx)).await.transpose()?;
            if std::mem::take(&mut self.reader.discards_earlier) {
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
            self.reader.mark_returned(item.listed_as());
        }
        item
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, ClientError>>> {
        loop {
            if let Some(item) = self.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            let (items, mut bytes) = (&mut self.items, 0);
            let read = self.reader.poll_read(cx, &mut |reader, result| {
                let mut page: T::Page = decode(&T::METHOD, result)?;
                let (read, next) = T::parts(&mut page);
                T::retain(&reader.client, read);
                read.retain(|item| reader.is_new(item.listed_as()));
                bytes = result.len() + size_of_val(&read[..]);
                *items = std::mem::take(read).into_iter();
                Ok(next.take())
            });
            match ready!(read) {
                Some(Ok(())) => self.reader.collected = self.reader.collected.map(|before| before + bytes),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Reads the pages of a list one after another, whatever their items are, so that it is compiled once.
struct PageReader {
    client: Client,
    method: Method,
    requested: usize,
    /// The maximum number of pages.
    limit: usize,
    /// The bytes that [`Pages::all`] has collected.
    collected: Option<usize>,
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
    /// Returned after the page before it.
    Failed(Box<ClientError>),
    Over,
}

/// Takes the items of a page, and returns its next cursor.
type TakePage<'a> = dyn FnMut(&PageReader, &Raw) -> Result<Option<String>, ClientError> + 'a;

impl PageReader {
    fn new(client: Client, method: Method) -> Self {
        Self {
            limit: client.inner.max_pages,
            client,
            method,
            requested: 0,
            collected: None,
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

    /// Reads one page; `None` at the end and after an error.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut TakePage<'_>,
    ) -> Poll<Option<Result<(), ClientError>>> {
        loop {
            let taken = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Over => return Poll::Ready(None),
                Stage::Failed(error) => Err(*error),
                Stage::Next(cursor) => match self.request(cursor) {
                    Ok(Some(result)) => take(self, &result),
                    Ok(None) => continue,
                    Err(error) => Err(error),
                },
                Stage::Reading { mut calling, ticket, first } => match Pin::new(&mut calling).poll(cx) {
                    Poll::Pending => {
                        self.stage = Stage::Reading { calling, ticket, first };
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(reply)) => self.receive(reply, ticket, calling.arrived(), take),
                    Poll::Ready(Err(error)) => match self.restart(error, first) {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                },
            };
            return Poll::Ready(Some(taken.map(|next| self.stage = self.after(next))));
        }
    }

    /// Requests a page. Returns the cached one, if there is one.
    fn request(&mut self, cursor: Option<String>) -> Result<Option<Raw>, ClientError> {
        let limit = self.limit;
        if self.requested >= limit {
            return Err(ClientError::TooManyPages { method: self.method.clone(), limit });
        }
        if self.collected.is_some_and(|bytes| bytes >= MAX_LIST_BYTES) {
            return Err(ClientError::ListTooLarge { method: self.method.clone(), limit: MAX_LIST_BYTES });
        }
        self.requested += 1;
        let mut params = PageParams::new();
        params.cursor = cursor;
        let first = params.cursor.is_none();
        let mut call = self.client.call(self.method.clone());
        let mut ticket = None;
        if !self.raw || !first {
            let params = encode(&self.method, &params)?;
            if !self.raw {
                match self.client.look_up(&self.method, Some(&params)) {
                    Lookup::Hit(result) => {
                        self.previous_was_cached = true;
                        self.private |= !is_public(&result);
                        return Ok(Some(result));
                    }
                    Lookup::Miss(missed) => ticket = missed,
                }
            }
            call = call.with_params(params);
        }
        self.stage = Stage::Reading { calling: self.client.inner.connection.call(call), ticket, first };
        Ok(None)
    }

    /// Takes a page that was requested.
    fn receive(
        &mut self,
        reply: Reply,
        ticket: Option<CacheTicket>,
        arrived: Option<Instant>,
        take: &mut TakePage<'_>,
    ) -> Result<Option<String>, ClientError> {
        let result = super::complete(&self.method, reply)?;
        let next = take(self, &result)?;
        self.previous_was_cached = false;
        if let Some(ticket) = ticket {
            self.private |= !is_public(&result);
            self.client.inner.cache.keep(ticket, &result, arrived, !self.private);
        }
        Ok(next)
    }

    /// Restarts the list once if its page was refused because of the cursor.
    fn restart(&mut self, error: CallError, first: bool) -> Result<(), ClientError> {
        let CallError::Remote(remote) = &error else { return Err(error.into()) };
        if first {
            return Err(error.into());
        }
        self.client.inner.cache.forget(&self.method);
        // After a cached page the cursor may be outdated, whatever the error says.
        let by_its_cursor =
            std::mem::take(&mut self.previous_was_cached) || remote.code == code::INVALID_PARAMS;
        let is_too_long = self.returned.len() >= MAX_RETURNED;
        if !by_its_cursor || is_too_long || std::mem::replace(&mut self.has_restarted, true) {
            return Err(error.into());
        }
        // The limit of the pages covers both passes.
        self.seen.clear();
        (self.private, self.discards_earlier) = (false, true);
        self.collected = self.collected.map(|_| 0);
        self.stage = Stage::Next(None);
        Ok(())
    }

    /// The stage after a page with this next cursor.
    fn after(&mut self, next: Option<String>) -> Stage {
        match next {
            None => Stage::Over,
            Some(cursor) if self.seen.insert(self.hasher.hash_one(&cursor)) => Stage::Next(Some(cursor)),
            Some(cursor) => {
                let method = self.method.clone();
                Stage::Failed(Box::new(ClientError::RepeatedCursor { method, cursor }))
            }
        }
    }

    fn mark_returned(&mut self, key: &str) {
        if self.returned.len() < MAX_RETURNED {
            self.returned.insert(self.hasher.hash_one(key));
        }
    }

    /// Whether no item with this name or URI was returned before the list was restarted.
    fn is_new(&self, key: &str) -> bool {
        !self.has_restarted || !self.returned.contains(&self.hasher.hash_one(key))
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
            .field("pages", &self.reader.requested)
            .finish_non_exhaustive()
    }
}

/// The pages of a list with each item as the server sent it. From [`Pages::raw`], with the same limit and the same way to
/// continue after a refused cursor.
///
/// Only one page is in memory at a time. Dropping it cancels the request for the page under way.
#[must_use = "nothing is asked before it is polled"]
pub struct RawPages {
    reader: PageReader,
    /// The member of a result that holds the items.
    member: &'static str,
    /// The member of an item that identifies it.
    key: &'static str,
}

impl RawPages {
    /// The items of the next page, which may be none; `None` at the end and after an error. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Vec<Raw>, ClientError>> {
        let Self { reader, member, key } = self;
        let mut page = Vec::new();
        let read = poll_fn(|cx| {
            reader.poll_read(cx, &mut |reader, result| {
                let bad = |what| ClientError::BadResult { method: reader.method.clone(), what };
                let result: Members<Raw> =
                    Members::read(result).map_err(|_| bad("it is not an object".to_owned()))?;
                let items: Option<Vec<Raw>> = result.get(member).and_then(|items| Vec::read(items).ok());
                let items = items.ok_or_else(|| bad(format!("it has no array `{member}`")))?;
                let items = items.into_iter().map(|raw| (key_of(&raw, key), raw));
                page = items.filter(|(key, _)| reader.is_new(key)).collect();
                Ok(text(result.get("nextCursor")))
            })
        });
        if let Err(error) = read.await? {
            return Some(Err(error));
        }
        page.iter().for_each(|(key, _)| self.reader.mark_returned(key));
        Some(Ok(page.into_iter().map(|(_, raw)| raw).collect()))
    }
}

/// The name or the address of an item. Where it has none, its whole text.
fn key_of(item: &Raw, key: &str) -> String {
    let key = Members::read(item).ok().and_then(|members: Members<Raw>| text(members.get(key)));
    key.unwrap_or_else(|| item.as_str().to_owned())
}

fn text(raw: Option<&Raw>) -> Option<String> {
    Some(raw?.to_string_value()?.into_owned())
}

impl fmt::Debug for RawPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawPages").finish_non_exhaustive()
    }
}
