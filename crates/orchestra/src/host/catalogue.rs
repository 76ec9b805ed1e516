//! What the servers have, by name: lists of all of them, and which server a name leads to.
//!
//! Names are kept from the last list that a server has given, also while it is away: a call then says that the server is
//! not there, and not that there is no such tool.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcpjoin_proto::types::{Prompt, Resource, ServerCapabilities, Tool};

use super::offer::Offer;
use super::refusal::Refusal;
use mcpjoin::client::{Client, Listed, Pages};

/// A kind of thing that servers have.
pub(super) trait Item: Listed {
    /// By which it is asked for.
    fn key(&self) -> &str;
    fn pages(client: &Client) -> Pages<Self>;
    fn declared(server: &ServerCapabilities) -> bool;
    fn permitted(&self, _: &Offer) -> bool {
        true
    }
}

impl Item for Tool {
    fn key(&self) -> &str {
        &self.name
    }

    fn pages(client: &Client) -> Pages<Self> {
        client.list_tools()
    }

    fn declared(server: &ServerCapabilities) -> bool {
        server.tools.is_some()
    }

    fn permitted(&self, offer: &Offer) -> bool {
        offer.permits(&self.name)
    }
}

impl Item for Prompt {
    fn key(&self) -> &str {
        &self.name
    }

    fn pages(client: &Client) -> Pages<Self> {
        client.list_prompts()
    }

    fn declared(server: &ServerCapabilities) -> bool {
        server.prompts.is_some()
    }
}

impl Item for Resource {
    fn key(&self) -> &str {
        &self.uri
    }

    fn pages(client: &Client) -> Pages<Self> {
        client.list_resources()
    }

    fn declared(server: &ServerCapabilities) -> bool {
        server.resources.is_some()
    }
}

/// The names of one kind.
pub(super) struct Catalogue<T> {
    /// One for each server; `None` for one that has never been asked with success.
    known: Mutex<Vec<Option<BTreeSet<String>>>>,
    /// When the last look for a name began that came to its end. Held during one, so that many who look for names at
    /// once ask the servers once.
    looked: tokio::sync::Mutex<Option<Instant>>,
    kind: PhantomData<fn() -> T>,
}

/// All items of one kind.
pub(super) struct All<T> {
    /// By name, the last server's where there are several.
    pub(super) items: BTreeMap<String, T>,
    /// How many servers have answered.
    answered: usize,
    /// Why the others have not.
    refusals: Vec<Refusal>,
}

impl<T> All<T> {
    /// The items, unless every server has refused.
    pub(super) fn some(mut self) -> Result<BTreeMap<String, T>, Refusal> {
        match self.refusals.pop() {
            Some(refusal) if self.answered == 0 => Err(refusal),
            _ => Ok(self.items),
        }
    }
}

impl<T: Item> Catalogue<T> {
    pub(super) fn new(servers: usize) -> Self {
        Self {
            known: Mutex::new(vec![None; servers]),
            looked: tokio::sync::Mutex::new(None),
            kind: PhantomData,
        }
    }

    /// Asks all servers at once.
    pub(super) async fn list(&self, offers: &[Offer], patience: Duration) -> All<T> {
        let answers = join_all(offers.iter().map(|offer| items::<T>(offer, patience))).await;
        let mut all = All { items: BTreeMap::new(), answered: 0, refusals: Vec::new() };
        for (place, (offer, answer)) in offers.iter().zip(answers).enumerate() {
            match answer {
                Ok(items) => {
                    all.answered += 1;
                    let names = items.iter().map(|item| item.key().to_owned()).collect();
                    self.learn(place, names);
                    all.items.extend(items.into_iter().map(|item| (item.key().to_owned(), item)));
                }
                Err(refusal) => {
                    let (server, list) = (offer.name(), T::METHOD);
                    tracing::warn!(target: "mcpjoin", %server, %list, "left out: {}", refusal.message);
                    all.refusals.push(refusal);
                }
            }
        }
        all
    }

    /// The server that a name leads to: from what is known, or else after asking all of them.
    pub(super) async fn find<'a>(
        &self,
        offers: &'a [Offer],
        name: &str,
        patience: Duration,
    ) -> Result<Option<&'a Offer>, Refusal> {
        match self.known(offers, name) {
            Some(offer) => Ok(Some(offer)),
            None => self.look(offers, name, patience).await,
        }
    }

    /// The same, after asking all of them.
    ///
    /// # Errors
    /// When it was not found, and a server of which nothing is known could not be asked.
    pub(super) async fn look<'a>(
        &self,
        offers: &'a [Offer],
        name: &str,
        patience: Duration,
    ) -> Result<Option<&'a Offer>, Refusal> {
        let came = Instant::now();
        let mut looked = self.looked.lock().await;
        let mut refusals = Vec::new();
        if looked.is_none_or(|looked| looked < came) {
            let began = Instant::now();
            refusals = self.list(offers, patience).await.refusals;
            *looked = Some(began);
        }
        drop(looked);
        match self.known(offers, name) {
            Some(offer) => Ok(Some(offer)),
            None => refusals.pop().map_or(Ok(None), Err),
        }
    }

    /// The last server that is known to have it.
    fn known<'a>(&self, offers: &'a [Offer], name: &str) -> Option<&'a Offer> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |names: &Option<BTreeSet<String>>| names.as_ref().is_some_and(|names| names.contains(name));
        offers.iter().zip(known.iter()).rev().find(|(_, names)| has(names)).map(|(offer, _)| offer)
    }

    fn learn(&self, place: usize, names: BTreeSet<String>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(place) {
            *known = Some(names);
        }
    }
}

/// What one server has. One that does not declare the kind has none of it.
async fn items<T: Item>(offer: &Offer, patience: Duration) -> Result<Vec<T>, Refusal> {
    let client = offer.reached(patience).await?;
    if !client.peer().server_capabilities().is_some_and(T::declared) {
        return Ok(Vec::new());
    }
    let read = T::pages(&client).all().await;
    let mut items = read.map_err(|error| Refusal::of(offer.name(), &error))?;
    items.retain(|item| item.permitted(offer));
    Ok(items)
}
