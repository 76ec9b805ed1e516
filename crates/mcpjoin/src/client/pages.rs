//! Lists that come in pages, read as one.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>. A cursor means nothing to
//! a client: every text is one, the empty one too, and only its absence ends a list.

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use mcpjoin_proto::session::{CallError, Reply};
use mcpjoin_proto::types::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListTasksResult, ListToolsResult,
    Members, PageParams, Prompt, Resource, ResourceTemplate, Task, Tool,
};
use mcpjoin_proto::{Method, Raw, code};
use tokio::time::Instant;

use super::cache::is_public;
use super::remembered::{Asked, Known};
use super::{Client, ClientError, decode, encode};
use crate::connection::Calling;

/// The items of a list, page after page as they are needed.
///
/// Also a [`Stream`]. Ends after the first error: a page that failed, a cursor that came twice, or more pages than the
/// bound. Dropping it cancels the request for the page under way.
///
/// Pages that are remembered as fresh are not asked for, each for itself ([`Cache`](super::Cache)); when the list has
/// changed meanwhile, items may come twice or be missing, as with a list that changes while it is read.
/// [`Client::anew`] reads a list as it is.
///
/// When the server refuses a cursor (-32602, or any error behind a remembered page), all pages of the list are forgotten,
/// and it is read from the beginning, [once](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#interaction-with-pagination):
/// items with the name or the address of one that was handed out do not come again. The second refusal is an error.
#[must_use = "nothing is asked before it is polled"]
pub struct Pages<T: Listed> {
    client: Client,
    items: std::vec::IntoIter<T>,
    /// A page that was read and not yet handed out.
    page: Option<Vec<T>>,
    asked: usize,
    /// The maximum number of pages.
    limit: usize,
    /// For [`RawPages`]: the cache is neither read nor written.
    raw: bool,
    /// The hashes of the cursors that were followed.
    seen: HashSet<u64>,
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
        asked: Option<Asked>,
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

    /// The member of a result that holds the items.
    #[doc(hidden)]
    const MEMBER: &'static str;

    /// The member of an item that identifies it: its name or its address.
    #[doc(hidden)]
    const KEY: &'static str;

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
        |client: &Client, tools| client.inner.catalogue.retain(tools);
    Resource.uri "uri", ListResources => ListResourcesResult.resources "resources", all;
    ResourceTemplate.uri_template "uriTemplate",
        ListResourceTemplates => ListResourceTemplatesResult.resource_templates "resourceTemplates", all;
    Prompt.name "name", ListPrompts => ListPromptsResult.prompts "prompts", all;
    Task.task_id "taskId", ListTasks => ListTasksResult.tasks "tasks", all;
}

/// Nothing is left out.
const fn all<T>(_: &Client, _: &mut Vec<T>) {}

impl<T: Listed> Pages<T> {
    pub(super) fn new(client: Client) -> Self {
        Self {
            limit: client.inner.max_pages,
            client,
            items: Vec::new().into_iter(),
            page: None,
            asked: 0,
            raw: false,
            seen: HashSet::new(),
            stage: Stage::Next(None),
            from_memory: false,
            private: false,
            handed_out: HashSet::new(),
            numbers: RandomState::new(),
            has_restarted: false,
            begun_again: false,
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
                pages.handed_out.extend(items.iter().map(|item| pages.numbers.hash_one(item.listed_as())));
            }
            Some((page.map(|items| items.into_iter().map(|item| item.raw).collect()), pages))
        })))
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
                Stage::Next(cursor) => self.ask(cursor),
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

    fn ask(&mut self, cursor: Option<String>) -> Result<Stage, ClientError> {
        let limit = self.limit;
        if self.asked >= limit {
            return Err(ClientError::TooManyPages { method: T::METHOD, limit });
        }
        self.asked += 1;
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
                asked: None,
                first,
            });
        }
        let params = encode(&T::METHOD, &params)?;
        let asked = match self.client.known(&T::METHOD, Some(&params)) {
            Known::Fresh(result) => {
                self.from_memory = true;
                self.private |= !is_public(&result);
                return self.read(T::page(&result)?);
            }
            Known::Nothing(asked) => asked,
        };
        call = call.with_params(params);
        Ok(Stage::Reading { calling: self.client.inner.connection.call(call), asked, first })
    }

    /// Takes a page that was asked for.
    fn take(
        &mut self,
        reply: Reply,
        asked: Option<Asked>,
        arrived: Option<Instant>,
    ) -> Result<Stage, ClientError> {
        let result = super::complete(&T::METHOD, reply)?;
        let page = T::page(&result)?;
        self.from_memory = false;
        if let Some(asked) = asked {
            self.private |= !is_public(&result);
            self.client.inner.remembered.keep(asked, &result, arrived, !self.private);
        }
        self.read(page)
    }

    /// A page that is refused for its cursor shows that nothing is known of the list: it is begun again, once.
    fn refused(&mut self, error: CallError, first: bool) -> Result<Stage, ClientError> {
        let CallError::Remote(remote) = &error else { return Err(error.into()) };
        if first {
            return Err(error.into());
        }
        self.client.inner.remembered.forget(&T::METHOD);
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
        self.page = Some(items);
        let Some(cursor) = next else { return Ok(Stage::Over) };
        if !self.seen.insert(self.numbers.hash_one(&cursor)) {
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
        let page: Members<Raw> = result.decode().map_err(|_| bad("it is no object".into()))?;
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
