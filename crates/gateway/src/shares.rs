//! How much of what all clients share one principal or one address may take.
//!
//! Called by `places` and `pools`. One account holds at most half of the servers and of the pools while another account wants
//! some, and starts servers at a bounded rate. What has neither a principal nor an address (standard input and output, a Unix
//! socket, a link of the program's own) is one account, of a user who can start programs here anyway: its rate is not bounded.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::end::Refusal;
use super::pools::Whose;
use mcpjoin::internal::subscriber;

/// Starts of servers a second for one account: a start of a program with a package manager takes 1 to 2 s of processor time.
const STARTS_PER_SECOND: u32 = 4;
/// Starts at once after a pause: clients that open several connections when they begin.
const STARTS_AT_ONCE: u32 = 8;
/// How long a start waits for its time: well below the minute after which usual clients stop waiting. So at most 48 starts of
/// one account are under way or waiting.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Who has to give something up for one more of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Giver {
    /// The account itself: it holds its share.
    Itself(Whose),
    /// An account that holds more than its share.
    Other(Whose),
    /// Whichever.
    Anyone,
}

impl Giver {
    pub(super) fn includes(&self, account: &Whose) -> bool {
        match self {
            Self::Itself(giver) | Self::Other(giver) => giver == account,
            Self::Anyone => true,
        }
    }
}

/// What one account may hold of `most` while another wants some.
pub(super) const fn share(most: usize) -> usize {
    if most < 2 { 1 } else { most / 2 }
}

/// Who has to give something up for one more of `wanting`. `held`: whose each of what is held is.
pub(super) fn giver<'a>(held: impl Iterator<Item = &'a Whose>, most: usize, wanting: &Whose) -> Giver {
    let mut counts: HashMap<&Whose, usize> = HashMap::new();
    for account in held {
        *counts.entry(account).or_default() += 1;
    }
    if counts.get(wanting).is_some_and(|count| *count >= share(most)) {
        return Giver::Itself(wanting.clone());
    }
    // Of more than half there is but one.
    let above = counts.into_iter().find(|(_, count)| *count > share(most));
    above.map_or(Giver::Anyone, |(account, _)| Giver::Other(account.clone()))
}

impl Whose {
    /// The account to which it is charged.
    pub(super) fn into_account(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(subscriber(address)),
            whose => whose,
        }
    }
}

/// The starts of each account: a token bucket, of which the time is kept when it is full again.
#[derive(Debug, Default)]
pub(super) struct Starts(HashMap<Whose, Instant>);

impl Starts {
    /// Reserves a start, and says how long it has to wait.
    ///
    /// # Errors
    /// When it would have to wait too long.
    pub(super) fn reserve(&mut self, account: &Whose, now: Instant) -> Result<Duration, Refusal> {
        if *account == Whose::Anybody {
            return Ok(Duration::ZERO);
        }
        self.0.retain(|_, full| *full > now);
        let period = Duration::from_secs(1) / STARTS_PER_SECOND;
        let full = *self.0.get(account).unwrap_or(&now) + period;
        let wait = full.duration_since(now).saturating_sub(period * STARTS_AT_ONCE);
        if wait > START_PATIENCE {
            let retry_after = wait - START_PATIENCE;
            return Err(Refusal::TooManyStarts {
                limit: STARTS_PER_SECOND,
                burst: STARTS_AT_ONCE,
                retry_after,
            });
        }
        self.0.insert(account.clone(), full);
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Whose {
        Whose::Address(text.parse().expect("an address")).into_account()
    }

    #[test]
    fn who_holds_its_share_gives_its_own_and_who_holds_more_gives_to_others() {
        let (a, b, c) = (address("192.0.2.1"), address("192.0.2.2"), address("192.0.2.3"));
        let of = |held: &[&Whose], wanting: &Whose| giver(held.iter().copied(), 4, wanting);
        assert_eq!(of(&[&a, &b, &c], &a), Giver::Anyone);
        assert_eq!(of(&[&a, &a, &b], &a), Giver::Itself(a.clone()));
        assert_eq!(of(&[&a, &a, &b, &b], &c), Giver::Anyone);
        assert_eq!(of(&[&a, &a, &a, &b], &b), Giver::Other(a.clone()));
        assert_eq!(of(&[&a, &a, &a, &b], &a), Giver::Itself(a.clone()));
        assert_eq!((share(0), share(1), share(2), share(5), share(100)), (1, 1, 1, 2, 50));
        assert!(Giver::Anyone.includes(&a) && Giver::Other(a.clone()).includes(&a));
        assert!(!Giver::Itself(a).includes(&b));
    }

    #[test]
    fn the_addresses_of_a_network_are_one_account() {
        assert_eq!(address("2001:db8:0:1::1"), address("2001:db8:0:1:ffff::2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert_ne!(address("192.0.2.1"), address("192.0.2.2"));
    }

    #[tokio::test(start_paused = true)]
    async fn starts_are_bounded_in_rate_and_wait_a_bounded_time() {
        let (mut starts, now) = (Starts::default(), Instant::now());
        let (a, b) = (address("192.0.2.1"), address("192.0.2.2"));
        let millis = |outcome: Result<Duration, Refusal>| outcome.map(|wait| wait.as_millis()).ok();
        for _ in 0..8 {
            assert_eq!(millis(starts.reserve(&a, now)), Some(0));
        }
        for number in 1..=40 {
            assert_eq!(millis(starts.reserve(&a, now)), Some(number * 250));
        }
        let refused = starts.reserve(&a, now).expect_err("the 49th");
        assert!(matches!(
            refused,
            Refusal::TooManyStarts { limit: 4, burst: 8, retry_after } if retry_after.as_millis() == 250
        ));
        // Another account does not wait, and a second later there is room for four more.
        assert_eq!(millis(starts.reserve(&b, now)), Some(0));
        let later = now + Duration::from_secs(1);
        assert_eq!((0..5).filter(|_| starts.reserve(&a, later).is_ok()).count(), 4);
        // What is full again is forgotten.
        assert_eq!(starts.0.len(), 1);
        assert_eq!(millis(starts.reserve(&b, now + Duration::from_secs(60))), Some(0));
        assert_eq!(starts.0.len(), 1);
        for _ in 0..1000 {
            assert_eq!(millis(starts.reserve(&Whose::Anybody, now)), Some(0));
        }
    }
}
