//! The clients that a target has refused, while others may use it.
//!
//! A client of the modern era has no session: each of its requests would start a server that refuses it again. So its requests are
//! answered with that refusal for a time, which doubles each time in a row. Used by `pools`, before a server is started. It never
//! decides who is refused.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use mcpjoin_proto::Raw;
use mcpjoin_proto::session::Presents;
use tokio::time::Instant;

use super::capacity::Caller;
use super::end::{Refusal, error_bytes, is_not_authorized};
use super::settings::Settings;
use super::upstream::ClientHello;

/// How long no server is started for a client after its first refusal.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest such time.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Refused clients that are remembered, of all accounts and of one. Beyond it the one that was refused first is forgotten.
const MAX_REFUSED: usize = 256;
const MAX_REFUSED_OF_ACCOUNT: usize = 8;
/// Bytes of the error of a refusal that is remembered. The server has written it.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// The clients that the target has refused.
#[derive(Default)]
pub(super) struct RefusedClients(VecDeque<RefusedClient>);

struct RefusedClient {
    account: Caller,
    /// What it says of itself, if that is the reason. `None`: its account has no access.
    said: Option<Said>,
    why: Refusal,
    /// How often in a row.
    times: u32,
    until: Instant,
}

/// A digest of what a client says of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Said(u64);

impl Said {
    pub(super) fn of(hello: &ClientHello) -> Self {
        let mut digest = DefaultHasher::new();
        let Presents { capabilities, info, .. } = &hello.presents;
        [capabilities, info].map(|said| said.as_ref().map(Raw::as_str)).hash(&mut digest);
        Self(digest.finish())
    }
}

impl RefusedClients {
    /// # Errors
    /// The refusal, if the client was refused and no server is to be started for it yet.
    pub(super) fn check(&self, account: &Caller, said: Said) -> Result<(), Refusal> {
        let known = self.position(account, said).and_then(|place| self.0.get(place));
        known.filter(|known| known.until > Instant::now()).map_or(Ok(()), |known| Err(known.why.clone()))
    }

    /// Notes how the start of a server for this client has ended.
    pub(super) fn note(
        &mut self,
        account: &Caller,
        said: Said,
        failed: Option<&Refusal>,
        settings: &Settings,
    ) {
        let known = self.position(account, said).and_then(|place| self.0.remove(place));
        let Some(why @ Refusal::NotStarted(end)) = failed else { return };
        if settings.is_of_client(end) && error_bytes(end) <= MAX_ERROR_BYTES {
            let said = (!is_not_authorized(end)).then_some(said);
            self.add(account, said, why, known.map_or(0, |known| known.times));
        }
    }

    fn position(&self, account: &Caller, said: Said) -> Option<usize> {
        let is_it =
            |known: &RefusedClient| known.account == *account && known.said.is_none_or(|known| known == said);
        self.0.iter().position(is_it)
    }

    /// `times`: how often it was refused before.
    fn add(&mut self, account: &Caller, said: Option<Said>, why: &Refusal, times: u32) {
        let is_of_account = |known: &RefusedClient| known.account == *account;
        if self.0.iter().filter(|known| is_of_account(known)).count() >= MAX_REFUSED_OF_ACCOUNT {
            let first = self.0.iter().position(is_of_account);
            drop(first.and_then(|place| self.0.remove(place)));
        } else if self.0.len() >= MAX_REFUSED {
            self.0.pop_front();
        }
        let until = Instant::now() + FIRST_PAUSE.saturating_mul(1 << times.min(16)).min(MAX_PAUSE);
        let (account, why) = (account.clone(), why.clone());
        self.0.push_back(RefusedClient { account, said, why, times: times + 1, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_clients_that_are_remembered_are_limited_in_all_and_for_each_account() {
        let mut refused = RefusedClients::default();
        let account = |number: usize| Caller::Principal(number.to_string().into());
        let is_known =
            |refused: &RefusedClients, number, said| refused.check(&account(number), Said(said)).is_err();
        for number in 0..=MAX_REFUSED {
            refused.add(&account(number), None, &Refusal::Closed, 0);
        }
        assert!(!is_known(&refused, 0, 0) && (1..=MAX_REFUSED).all(|number| is_known(&refused, number, 7)));
        // Those of one account take no place of another one.
        for said in 0..=MAX_REFUSED_OF_ACCOUNT as u64 {
            refused.add(&account(0), Some(Said(said)), &Refusal::Closed, 0);
        }
        let said = 1..=MAX_REFUSED_OF_ACCOUNT as u64;
        assert!(!is_known(&refused, 0, 0) && said.into_iter().all(|said| is_known(&refused, 0, said)));
        let others = (1..=MAX_REFUSED).filter(|number| is_known(&refused, *number, 0)).count();
        assert_eq!(others, MAX_REFUSED - MAX_REFUSED_OF_ACCOUNT);
    }
}
