//! The items of all MCP servers: lists them, and finds the server of a name.
//!
//! The names of a server's last list are kept while the server is unavailable. A call then fails because the server is
//! unavailable, and not because the tool is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcpjoin_proto::types::{Prompt, Resource, ServerCapabilities, Tool};
use parking_lot::Mutex;

use super::error::RequestError;
use super::offer::Offer;
use mcpjoin::client::{Client, Listed, Pages};

/// A kind of item: tool, prompt or resource.
pub(super) trait Item: Listed {
    /// The name or URI that identifies the item.
    fn key(&self) -> &str;
    fn pages(client: &Client) -> Pages<Self>;
    fn declared(server: &ServerCapabilities) -> bool;
    fn permitted(&self, _: &Offer) -> bool {
        true
    }
}

macro_rules! items {
    ($($item:ty: $key:ident, $pages:ident, $capability:ident $(, permitted by $permits:ident)?;)*) => {$(
        impl Item for $item {
            fn key(&self) -> &str {
                &self.$key
            }

            fn pages(client: &Client) -> Pages<Self> {
                client.$pages()
            }

            fn declared(server: &ServerCapabilities) -> bool {
                server.$capability.is_some()
            }

            $(fn permitted(&self, offer: &Offer) -> bool {
                offer.$permits(&self.$key)
            })?
        }
    )*};
}

items! {
    Tool: name, list_tools, tools, permitted by permits;
    Prompt: name, list_prompts, prompts;
    Resource: uri, list_resources, resources;
}

/// The names of the items of one kind.
pub(super) struct Catalogue<T> {
    offers: Arc<[Offer]>,
    /// How long to wait for a server that is restarting.
    wait: Duration,
    /// The names of each server; `None` if it was never listed successfully.
    known: Mutex<Vec<Option<BTreeSet<String>>>>,
    /// When the last refresh that completed was started. Locked during a refresh, so that concurrent requests for
    /// unknown names list the servers once.
    last_refresh: tokio::sync::Mutex<Option<Instant>>,
    kind: PhantomData<fn() -> T>,
}

/// All items of one kind.
pub(super) struct Listing<T> {
    /// By name. If several servers have the same name, the last one is used.
    pub(super) items: BTreeMap<String, T>,
    /// The number of servers that responded.
    answered: usize,
    /// The errors of the others.
    errors: Vec<RequestError>,
}

impl<T> Listing<T> {
    /// The items, or an error if every server failed.
    pub(super) fn any_items(mut self) -> Result<BTreeMap<String, T>, RequestError> {
        match self.errors.pop() {
            Some(error) if self.answered == 0 => Err(error),
            _ => Ok(self.items),
        }
    }
}

impl<T: Item> Catalogue<T> {
    pub(super) fn new(offers: Arc<[Offer]>, wait: Duration) -> Self {
        Self {
            known: Mutex::new(vec![None; offers.len()]),
            offers,
            wait,
            last_refresh: tokio::sync::Mutex::new(None),
            kind: PhantomData,
        }
    }

    /// Lists the items of all servers in parallel.
    pub(super) async fn list(&self) -> Listing<T> {
        let answers = join_all(self.offers.iter().map(|offer| self.items(offer))).await;
        let mut listing = Listing { items: BTreeMap::new(), answered: 0, errors: Vec::new() };
        for (index, (offer, answer)) in self.offers.iter().zip(answers).enumerate() {
            match answer {
                Ok(items) => {
                    listing.answered += 1;
                    let names = items.iter().map(|item| item.key().to_owned()).collect();
                    self.remember(index, names);
                    listing.items.extend(items.into_iter().map(|item| (item.key().to_owned(), item)));
                }
                Err(error) => {
                    let (server, list) = (offer.name(), T::METHOD);
                    tracing::warn!(target: "mcpjoin", %server, %list, "left out: {}", error.message);
                    listing.errors.push(error);
                }
            }
        }
        listing
    }

    /// The server of this name. Lists all servers if the name is unknown.
    pub(super) async fn find(&self, name: &str) -> Result<Option<&Offer>, RequestError> {
        match self.known(name) {
            Some(offer) => Ok(Some(offer)),
            None => self.refresh_and_find(name).await,
        }
    }

    /// Lists all servers, then looks for the name.
    ///
    /// # Errors
    /// If the name is unknown and a server could not be listed.
    pub(super) async fn refresh_and_find(&self, name: &str) -> Result<Option<&Offer>, RequestError> {
        let requested = Instant::now();
        let mut last_refresh = self.last_refresh.lock().await;
        let mut errors = Vec::new();
        if last_refresh.is_none_or(|last_refresh| last_refresh < requested) {
            let started = Instant::now();
            errors = self.list().await.errors;
            *last_refresh = Some(started);
        }
        drop(last_refresh);
        match self.known(name) {
            Some(offer) => Ok(Some(offer)),
            None => errors.pop().map_or(Ok(None), Err),
        }
    }

    /// The last server that is known to have this name.
    fn known(&self, name: &str) -> Option<&Offer> {
        let known = self.known.lock();
        let has = |names: &Option<BTreeSet<String>>| names.as_ref().is_some_and(|names| names.contains(name));
        self.offers.iter().zip(known.iter()).rev().find(|(_, names)| has(names)).map(|(offer, _)| offer)
    }

    fn remember(&self, index: usize, names: BTreeSet<String>) {
        let mut known = self.known.lock();
        if let Some(known) = known.get_mut(index) {
            *known = Some(names);
        }
    }

    /// The items of one server; none if it does not declare the capability.
    async fn items(&self, offer: &Offer) -> Result<Vec<T>, RequestError> {
        let client = offer.reached(self.wait).await?;
        if !client.peer().server_capabilities().is_some_and(T::declared) {
            return Ok(Vec::new());
        }
        let read = T::pages(&client).all().await;
        let mut items = read.map_err(|error| RequestError::of(offer.name(), &error))?;
        items.retain(|item| item.permitted(offer));
        Ok(items)
    }
}
