//! The calls that are under way at one run of a legacy server, and what of the server's own accord belongs to which.
//!
//! A legacy server asks and logs by itself, and says of neither to which call it belongs. A modern client wants both with
//! a request of its own. So each question and each log message is given to a call.
//!
//! Where a server is one client's alone, a question is given to the most likely of that client's calls: whoever is asked
//! is the right one in any case. Where clients share it, a call that can be asked something has its turn ([`Flights::claim`]): there
//! is no other such call at this run meanwhile, so that what is asked is about this one. What may be about something else
//! all the same is held back until it is certain, or refused: a request that can be asked nothing, and is under way, too;
//! or one that was left before the server had answered it, of which nobody knows whether the server is still at it.
//!
//! A log message says even less. Where clients share a server, it is given to a call only if that call was the only one at
//! the server since its beginning; otherwise to nobody. What a server logs about a call after it has answered it cannot be
//! told from what it logs about the next one.
//!
//! Called by `rounds`, and by `mod` for what comes from the server. `C` is how a client that is here is told something.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::types::{InputRequest, InputRequests, InputResponses, LoggingLevel};
use mcpjoin_proto::{ErrorObject, Notification, Raw};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout};

use crate::relaying::failure;

/// Log messages that are kept for a call whose client is away, in number and in bytes; beyond, the oldest are dropped.
const HELD: usize = 64;
const HELD_BYTES: usize = 64 * 1024;

/// How long a question waits that may be about a request which can be asked nothing: a server that has answered that by
/// then has not asked for it. Shorter than the minute for which the usual libraries wait for an answer.
const DOUBT: Duration = Duration::from_secs(10);

type Answer = Result<Raw, ErrorObject>;

/// The calls under way.
pub(super) struct Flights<C> {
    /// The calls are of several clients.
    shared: bool,
    /// Calls that can be asked something have their turn.
    turns: bool,
    /// Told when a call ends.
    ended: Box<dyn Fn() + Send + Sync>,
    flying: Mutex<Flying<C>>,
}

struct Flying<C> {
    last: u64,
    calls: BTreeMap<u64, Call<C>>,
    /// Questions of which it is not certain yet what they are about.
    doubtful: Vec<Doubtful>,
    /// A call was left before the server had answered it: what it asks may be about that.
    abandoned: bool,
    /// When the last call has ended.
    used: Instant,
}

struct Call<C> {
    /// It has its turn: no other call that can be asked something begins meanwhile.
    turn: bool,
    /// No other call was at the server since this one began.
    alone: bool,
    /// Whether its client can be asked for something in place of a result.
    may_ask: bool,
    /// The server has it, and has not answered it.
    open: bool,
    /// From which level on its client wants log messages.
    level: Option<LoggingLevel>,
    /// Its client; `None` while it is away with questions.
    here: Option<C>,
    questions: Vec<Question>,
    /// How many questions it has had.
    asked: u64,
    held: VecDeque<Notification>,
    held_bytes: usize,
    news: Arc<Notify>,
}

struct Question {
    number: u64,
    /// Its name towards the client.
    key: String,
    question: InputRequest,
    bytes: usize,
    answer: oneshot::Sender<Answer>,
}

struct Doubtful {
    question: Question,
    /// The call that it is about if it is about none of the others.
    call: u64,
    /// The requests that it may be about: those that were under way when it came.
    others: BTreeSet<u64>,
}

/// A question that belongs to no call, and what the server is answered.
type Refused = Box<(Question, ErrorObject)>;

/// A call under way. When it is dropped, what the server still asks is answered with an error, or given to another call of
/// the same client.
pub(super) struct Flight<C> {
    flights: Arc<Flights<C>>,
    number: u64,
    news: Arc<Notify>,
}

/// A question that waits for its answer. When it is dropped, the server does not want to know any more.
pub(super) struct Asked<C> {
    flights: Arc<Flights<C>>,
    number: u64,
    doubtful: bool,
    answer: oneshot::Receiver<Answer>,
}

/// What a request wants, of a client that is here.
pub(super) struct Here<C> {
    pub(super) client: C,
    pub(super) level: Option<LoggingLevel>,
}

impl<C> Flights<C> {
    fn lock(&self) -> MutexGuard<'_, Flying<C>> {
        self.flying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when no call is under way; `None`: some are.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let flying = self.lock();
        flying.calls.is_empty().then_some(flying.used)
    }

    /// Whether a call was left before the server had answered it, so that no other that can be asked has its turn here.
    pub(super) fn is_abandoned(&self) -> bool {
        self.turns && self.lock().abandoned
    }
}

impl<C: Clone> Flights<C> {
    /// `ended` is told each time a call ends. It is called with nothing locked, and must not block.
    /// `shared`: the calls are of several clients. `can_be_asked`: these have declared something that they can be asked.
    pub(super) fn new(shared: bool, can_be_asked: bool, ended: impl Fn() + Send + Sync + 'static) -> Self {
        let flying = Flying {
            last: 0,
            calls: BTreeMap::new(),
            doubtful: Vec::new(),
            abandoned: false,
            used: Instant::now(),
        };
        let turns = can_be_asked && shared;
        Self { shared, turns, ended: Box::new(ended), flying: Mutex::new(flying) }
    }

    /// A request begins of which nobody is asked anything. `here`: `None` where it is no client's.
    pub(super) fn begin(self: &Arc<Self>, here: Option<Here<C>>) -> Flight<C> {
        self.insert(&mut self.lock(), here, false)
    }

    /// A call begins whose client can be asked for something in place of a result. `None`: it is not its turn here.
    pub(super) fn claim(self: &Arc<Self>, here: Here<C>) -> Option<Flight<C>> {
        let mut flying = self.lock();
        let is_taken = flying.abandoned || flying.calls.values().any(|call| call.turn);
        (!self.turns || !is_taken).then(|| self.insert(&mut flying, Some(here), true))
    }

    fn insert(self: &Arc<Self>, flying: &mut Flying<C>, here: Option<Here<C>>, turn: bool) -> Flight<C> {
        let news = Arc::new(Notify::new());
        let alone = flying.calls.is_empty() && !flying.abandoned;
        for other in flying.calls.values_mut() {
            other.alone = false;
        }
        flying.last += 1;
        let number = flying.last;
        let call = Call {
            turn,
            alone,
            may_ask: turn,
            open: false,
            level: here.as_ref().and_then(|here| here.level),
            here: here.map(|here| here.client),
            questions: Vec::new(),
            asked: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            news: news.clone(),
        };
        flying.calls.insert(number, call);
        Flight { flights: self.clone(), number, news }
    }

    /// The server asks something. `bytes`: how large the question is.
    ///
    /// # Errors
    /// When there is no call that it can belong to, or it may belong to several: what to answer the server.
    pub(super) fn ask(
        self: &Arc<Self>,
        question: InputRequest,
        bytes: usize,
    ) -> Result<Asked<C>, ErrorObject> {
        let (sender, receiver) = oneshot::channel();
        let mut flying = self.lock();
        flying.last += 1;
        let number = flying.last;
        let question = Question { number, key: String::new(), question, bytes, answer: sender };
        let mut doubtful = false;
        if !self.turns {
            flying.give_likely(question).map_err(|refused| refused.1)?;
        } else {
            let call = flying.calls.iter().find(|(_, call)| call.may_ask);
            let call = call.map(|(number, _)| *number).ok_or_else(nobody)?;
            if flying.abandoned {
                return Err(uncertain());
            }
            let others = flying.calls.iter().filter(|(_, other)| other.open && !other.turn);
            let others: BTreeSet<u64> = others.map(|(number, _)| *number).collect();
            doubtful = !others.is_empty();
            if doubtful {
                flying.doubtful.push(Doubtful { question, call, others });
            } else {
                flying.give(question, call).map_err(|refused| refused.1)?;
            }
        }
        Ok(Asked { flights: self.clone(), number, doubtful, answer: receiver })
    }

    /// The client to whom a log message of this level goes. `None`: nobody now. One that a client wants which is away is kept
    /// for it.
    pub(super) fn hearer(&self, level: LoggingLevel, told: &Notification) -> Option<C> {
        let wants =
            |call: &Call<C>| (call.alone || !self.shared) && call.level.is_some_and(|from| level >= from);
        let mut flying = self.lock();
        let here = flying.calls.values().filter(|call| wants(call)).find_map(|call| call.here.clone());
        if here.is_some() {
            return here;
        }
        if let Some(away) = flying.calls.values_mut().find(|call| wants(call)) {
            away.hold(told.clone());
        }
        None
    }

    /// The client of the oldest call that is here, where all calls are one client's.
    pub(super) fn only_client(&self) -> Option<C> {
        let flying = self.lock();
        flying.calls.values().filter(|_| !self.shared).find_map(|call| call.here.clone())
    }

    /// The lowest level that any call wants log messages from.
    pub(super) fn lowest_level(&self) -> Option<LoggingLevel> {
        self.lock().calls.values().filter_map(|call| call.level).min()
    }
}

impl<C> Flying<C> {
    /// Gives a question to the call of the only client: to the only one; of several to the oldest that waits for no answer
    /// yet and whose client is here, for a server asks one thing after the other in most cases.
    fn give_likely(&mut self, question: Question) -> Result<(), Refused> {
        let likely = |(_, call): &(&u64, &Call<C>)| (!call.questions.is_empty(), call.here.is_none());
        // Of several that are as likely the first, which is the oldest.
        let call = self.calls.iter().filter(|(_, call)| call.may_ask).min_by_key(likely);
        match call.map(|(number, _)| *number) {
            Some(number) => self.give(question, number),
            None => Err(Box::new((question, nobody()))),
        }
    }

    /// Gives a question to that call.
    fn give(&mut self, mut question: Question, call: u64) -> Result<(), Refused> {
        let Some(call) = self.calls.get_mut(&call).filter(|call| call.may_ask) else {
            return Err(Box::new((question, nobody())));
        };
        call.asked += 1;
        question.key = format!("ask-{}", call.asked);
        call.questions.push(question);
        call.news.notify_one();
        Ok(())
    }

    /// A request is under way no more: what was in doubt because of it is so no more, or is refused.
    fn settle(&mut self, ended: u64) {
        for mut doubtful in std::mem::take(&mut self.doubtful) {
            doubtful.others.remove(&ended);
            let given = if self.abandoned {
                Err(Box::new((doubtful.question, uncertain())))
            } else if doubtful.others.is_empty() || doubtful.call == ended {
                self.give(doubtful.question, doubtful.call)
            } else {
                self.doubtful.push(doubtful);
                continue;
            };
            refuse(given);
        }
    }
}

/// Answers the server, where a question was given to nobody.
fn refuse(given: Result<(), Refused>) {
    if let Err(refused) = given {
        let (question, error) = *refused;
        // Whoever asked may be gone.
        let _ = question.answer.send(Err(error));
    }
}

/// The refusal of a question that may be about the requests of several.
fn uncertain() -> ErrorObject {
    failure(
        "severalClients",
        "the client cannot be asked: this may be about a request of another client that is under way, or was left before \
         it was answered, and a question that may be another's reaches nobody",
        &[],
    )
}

/// The refusal of a question that belongs to no call.
fn nobody() -> ErrorObject {
    failure(
        "nobodyToAsk",
        "the client cannot be asked: it speaks a protocol version in which a server asks only while it handles \
         tools/call, prompts/get or resources/read, and none of them is under way",
        &[],
    )
}

impl<C> Call<C> {
    fn hold(&mut self, told: Notification) {
        self.held_bytes += told.payload_len();
        self.held.push_back(told);
        while self.held.len() > HELD || self.held_bytes > HELD_BYTES {
            let Some(oldest) = self.held.pop_front() else { return };
            self.held_bytes -= oldest.payload_len();
        }
    }
}

impl<C: Clone> Flight<C> {
    fn with<R>(&self, of: impl FnOnce(&mut Call<C>) -> R) -> Option<R> {
        self.flights.lock().calls.get_mut(&self.number).map(of)
    }

    /// Waits until the server asks something. Cancel-safe.
    pub(super) async fn asked(&self) {
        while !self.is_asked() {
            self.news.notified().await;
        }
    }

    /// Whether the server waits for an answer.
    pub(super) fn is_asked(&self) -> bool {
        self.with(|call| !call.questions.is_empty()).unwrap_or_default()
    }

    /// The client leaves with all questions that are open; how many bytes they have.
    pub(super) fn leave(&self) -> (InputRequests, usize) {
        self.with(|call| {
            call.here = None;
            let bytes = call.questions.iter().map(|question| question.bytes).sum();
            let questions = call.questions.iter();
            (questions.map(|question| (question.key.clone(), question.question.clone())).collect(), bytes)
        })
        .unwrap_or_default()
    }

    /// The client is back with answers. What has none stays open, and what was never asked is ignored. Gives the log
    /// messages that were kept for it.
    pub(super) fn come_back(&self, here: Here<C>, responses: &InputResponses) -> VecDeque<Notification> {
        self.with(|call| {
            call.here = Some(here.client);
            call.level = here.level;
            let (answered, open) = std::mem::take(&mut call.questions)
                .into_iter()
                .partition(|question| responses.contains_key(&question.key));
            call.questions = open;
            let answered: Vec<Question> = answered;
            for question in answered {
                if let Some(response) = responses.get(&question.key) {
                    // Whoever asked may be gone.
                    let _ = question.answer.send(Ok(response.raw().clone()));
                }
            }
            call.held_bytes = 0;
            std::mem::take(&mut call.held)
        })
        .unwrap_or_default()
    }

    /// The server has the call from now on.
    pub(super) fn sent(&self) {
        self.with(|call| call.open = true);
    }

    /// The server has answered: it is not at it any more.
    pub(super) fn answered(&self) {
        self.with(|call| call.open = false);
    }

    /// Its call is over and is to be made again when its client comes back: until then nobody can be asked, and nobody else
    /// has its turn.
    pub(super) fn rest(&self) {
        self.with(|call| (call.may_ask, call.here, call.level) = (false, None, None));
    }

    /// The client is back, and the call is made again.
    pub(super) fn wake(&self, here: Here<C>) {
        self.with(|call| (call.may_ask, call.here, call.level) = (true, Some(here.client), here.level));
    }

    /// Answers everything that is open with an error.
    pub(super) fn fail(&self, error: &ErrorObject) {
        let questions = self.with(|call| std::mem::take(&mut call.questions)).unwrap_or_default();
        for question in questions {
            let _ = question.answer.send(Err(error.clone()));
        }
    }
}

impl<C> Drop for Flight<C> {
    fn drop(&mut self) {
        let mut flying = self.flights.lock();
        let Some(call) = flying.calls.remove(&self.number) else { return };
        flying.used = Instant::now();
        let turns = self.flights.turns;
        flying.abandoned |= call.open && self.flights.shared;
        for question in call.questions {
            // What was asked of the only client is to be answered by it.
            refuse(if turns { Err(Box::new((question, nobody()))) } else { flying.give_likely(question) });
        }
        flying.settle(self.number);
        drop(flying);
        (self.flights.ended)();
    }
}

impl<C> Asked<C> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// What to answer the server when there is none.
    pub(super) async fn answer(mut self) -> Answer {
        if self.doubtful {
            let early = timeout(DOUBT, &mut self.answer).await;
            match early {
                Ok(answer) => return answer.unwrap_or_else(|_| Err(unanswered())),
                Err(_) if self.is_doubtful() => return Err(uncertain()),
                Err(_) => {}
            }
        }
        (&mut self.answer).await.unwrap_or_else(|_| Err(unanswered()))
    }

    fn is_doubtful(&self) -> bool {
        self.flights.lock().doubtful.iter().any(|doubtful| doubtful.question.number == self.number)
    }
}

fn unanswered() -> ErrorObject {
    ErrorObject::internal("the client went without an answer")
}

impl<C> Drop for Asked<C> {
    fn drop(&mut self) {
        let mut flying = self.flights.lock();
        flying.doubtful.retain(|doubtful| doubtful.question.number != self.number);
        for call in flying.calls.values_mut() {
            call.questions.retain(|question| question.number != self.number);
        }
    }
}

#[cfg(test)]
mod tests;
