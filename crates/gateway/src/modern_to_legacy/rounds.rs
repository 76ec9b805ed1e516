//! Requests that may take several rounds: `tools/call`, `prompts/get`, `resources/read`.
//!
//! The call to the legacy server is made once and stays open. When the server asks something meanwhile, the client's
//! request is answered with the question, and the call is parked; the client's next request brings the answers, which the
//! server gets, and waits for what comes then: the result, or more questions.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
//!
//! A server of 2025-11-25 may also refuse a call until the user has visited a page (the error -32042). Then there is no
//! call to be parked: it is made again when the client comes back.

use std::pin::pin;
use std::time::Duration;

use mcpjoin_proto::session::{Asker, CallError, Reply};
use mcpjoin_proto::types::{ElicitAction, InputRequest, InputRequests, InputRequired, InputResponses};
use mcpjoin_proto::{ErrorObject, Method, Payload, Raw};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::parked::{Owner, Waits};
use super::tasks::{self, Running};
use super::translate::Pages;
use super::{Claim, Lanes, ModernToLegacy, call, failed, here, is_settled, tell, translate};
use crate::relaying;
use crate::telling::Telling;
use mcpjoin::connection::{Calling, Context};
use mcpjoin::internal::request_digest;

/// How long a question waits for others that the server asks at once with it, so that they are one round for the client.
const GATHERING: Duration = Duration::from_millis(10);

/// A call to the server that is open.
pub(super) struct Open {
    calling: Calling,
    claim: Claim,
    /// The server was asked for a task; and has begun it.
    as_task: bool,
    task: Option<Running>,
}

/// What waits for a client to come back.
pub(super) enum Parked {
    /// A call that waits for answers.
    Call(Open),
    /// Pages that the user has to visit before a call is made again, and where it is made again: what the user does there
    /// may be known at that server alone.
    Pages(Pages, Claim),
}

impl Waits for Parked {
    fn given_up(self, why: &str) {
        if let Self::Call(Open { calling, claim, .. }) = self {
            calling.cancel(Some(why));
            claim.flight.fail(&ErrorObject::internal(why));
        }
    }
}

/// A call whose client is here. Dropped with its request, which is then cancelled, it says why.
struct Attended<'a> {
    open: Option<Open>,
    cx: &'a Context,
}

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.calling.cancel(self.cx.cancel_reason().as_deref());
        }
    }
}

/// How attending to a call ends.
enum Turn {
    /// The server asks something.
    Asked(Open),
    Over(Result<Payload, CallError>, Claim),
}

impl ModernToLegacy {
    /// A request of one of the three methods: a first one or one that brings answers.
    pub(super) async fn in_rounds(
        &self,
        lanes: &impl Lanes,
        method: Method,
        params: Option<Payload>,
        cx: &Context,
        telling: &Telling,
    ) -> Result<Reply, ErrorObject> {
        let owner = Owner {
            request: request_digest(method.as_str(), params.as_ref()),
            principal: cx.origin().and_then(|origin| origin.principal.clone()),
        };
        let nobody = Asker::default();
        let client = &cx.asker().map_or(&nobody, |asker| &**asker).capabilities;
        let (mut open, mut claim) = (None, None);
        // Pages that the user has agreed to visit.
        let mut agreed = Vec::new();
        if let Some(round) = translate::round(params.as_ref())? {
            match self.common.parking.take(&round.state, &owner)? {
                Parked::Call(parked) => open = Some(parked.resume(cx, &round.responses).await),
                Parked::Pages(pages, parked) => match judged(&pages, &round.responses)? {
                    true => (agreed, claim) = (pages.ids, Some(parked)),
                    false => return self.send_to(pages, parked, owner),
                },
            }
        }
        let mut is_patient = !agreed.is_empty();
        loop {
            let now = match open.take() {
                Some(open) => open,
                None => {
                    // A server that was started again since knows nothing of the call.
                    let lasts = |claim: &Claim| claim.run.connection.close_cause().is_none();
                    let claim = match claim.take().filter(lasts) {
                        Some(claim) => claim,
                        None => lanes.claim(cx).await?,
                    };
                    Self::begin(claim, &method, params.as_ref(), cx).await
                }
            };
            let (error, at) = match self.attend(now, &method, cx).await? {
                Turn::Asked(open) => return self.park(open, owner),
                Turn::Over(Ok(result), _) => {
                    return Ok(Reply::Complete(translate::result(&method, result)));
                }
                Turn::Over(Err(error), at) => (error, at),
            };
            let pages = match &error {
                CallError::Remote(error) => translate::pages(error, client),
                _ => None,
            };
            match pages {
                // It was tried at once, for the server may not care whether the user is done.
                Some(pages) if is_patient && pages.ids.iter().all(|id| agreed.contains(id)) => {
                    is_patient = false;
                    at.flight.rest();
                    at.run.visited.wait(&pages.ids).await;
                    claim = Some(at);
                }
                Some(pages) => return self.send_to(pages, at, owner),
                None => {
                    let connection = at.run.connection.clone();
                    // Whoever waits for its turn need not wait for how it has ended.
                    drop(at);
                    return Err(failed(error, &connection, cx, telling).await);
                }
            }
        }
    }

    /// Makes the call.
    async fn begin(claim: Claim, method: &Method, params: Option<&Payload>, cx: &Context) -> Open {
        let Claim { run, flight } = &claim;
        flight.wake(here(cx));
        let tool = params.filter(|_| *method == Method::CallTool).and_then(Payload::name_string);
        let as_task = match &tool {
            Some(tool) => run.tasks.has(&run.connection, tool).await,
            None => false,
        };
        run.settle_level(cx).await;
        // Its time is kept here: none passes while its client is away.
        let mut call = call(method, params, cx, Duration::MAX);
        if as_task {
            call.params = Some(tasks::asking(call.params.take()));
        }
        flight.sent();
        Open { calling: run.connection.call(call), claim, as_task, task: None }
    }

    /// Attends to a call until it ends or the server asks something.
    async fn attend(&self, open: Open, method: &Method, cx: &Context) -> Result<Turn, ErrorObject> {
        let mut attended = Attended { open: Some(open), cx };
        let outcome = match &mut attended.open {
            Some(open) => self.outcome(open, method, cx).await,
            None => None,
        };
        let open = attended.open.take().ok_or_else(|| ErrorObject::internal("the call is over"))?;
        let Some(outcome) = outcome else { return Ok(Turn::Asked(open)) };
        if is_settled(&outcome) {
            open.claim.flight.answered();
        }
        if matches!(outcome, Err(CallError::TimedOut { .. })) {
            open.calling.cancel(Some("timeout"));
        }
        Ok(Turn::Over(outcome, open.claim))
    }

    /// Hands on what the call brings, until it ends; `None`: until the server asks something.
    async fn outcome(
        &self,
        open: &mut Open,
        method: &Method,
        cx: &Context,
    ) -> Option<Result<Payload, CallError>> {
        let Open { calling, claim: Claim { run, flight }, as_task, task } = open;
        let gather = || async {
            flight.asked().await;
            sleep(GATHERING).await;
        };
        let mut gathered = pin!(gather());
        let patience = if task.is_some() { tasks::KEPT } else { self.common.timeout };
        let mut silent = pin!(sleep(patience));
        let mut handed_on: usize = 0;
        loop {
            tokio::select! {
                biased;
                event = calling.next_event() => match event {
                    Some(event) => {
                        silent.as_mut().reset(Instant::now() + patience);
                        relaying::tell(event, cx, |notification| notification);
                        handed_on += 1;
                        if handed_on.is_multiple_of(relaying::AT_ONCE) {
                            yield_now().await;
                        }
                    }
                    None => {
                        let outcome = (&mut *calling).await.and_then(|reply| payload(method, reply));
                        let began = match &outcome {
                            Ok(result) if *as_task && task.is_none() => tasks::begun(&run.connection, result),
                            _ => None,
                        };
                        if let Some((running, result)) = began {
                            (*task, *calling) = (Some(running), result);
                            silent.as_mut().reset(Instant::now() + tasks::KEPT);
                            continue;
                        }
                        return Some(match task {
                            Some(task) => {
                                task.end();
                                outcome.map(|result| tasks::result(&result))
                            }
                            None => outcome,
                        });
                    }
                },
                () = &mut gathered => {
                    if flight.is_asked() {
                        return None;
                    }
                    // The server does not want to know any more.
                    gathered.set(gather());
                }
                () = &mut silent => {
                    let after = if task.is_some() { tasks::KEPT } else { self.common.timeout };
                    let method = method.clone();
                    return Some(Err(CallError::TimedOut { method, after, total: false }));
                }
            }
        }
    }

    /// The client leaves with the questions.
    fn park(&self, open: Open, owner: Owner) -> Result<Reply, ErrorObject> {
        let (questions, bytes) = open.claim.flight.leave();
        let state = self.common.parking.park(Parked::Call(open), owner, bytes)?;
        Ok(need(questions, state))
    }

    /// The client leaves to send its user to the pages.
    fn send_to(&self, pages: Pages, at: Claim, owner: Owner) -> Result<Reply, ErrorObject> {
        let questions: InputRequests =
            pages.questions.iter().enumerate().map(|(place, page)| (key(place), page.clone())).collect();
        let bytes = pages.questions.iter().map(length).sum();
        at.flight.rest();
        let state = self.common.parking.park(Parked::Pages(pages, at), owner, bytes)?;
        Ok(need(questions, state))
    }
}

impl Open {
    /// The client is back: the server gets its answers, and the client what was kept for it.
    async fn resume(self, cx: &Context, responses: &InputResponses) -> Self {
        for told in self.claim.flight.come_back(here(cx), responses) {
            tell(cx, told);
        }
        self.claim.run.settle_level(cx).await;
        self
    }
}

/// Whether the user has agreed to visit all pages; `false`: it was not said of all of them.
fn judged(pages: &Pages, responses: &InputResponses) -> Result<bool, ErrorObject> {
    let mut is_whole = true;
    for place in 0..pages.questions.len() {
        let Some(response) = responses.get(&key(place)) else {
            is_whole = false;
            continue;
        };
        let answer = response.to_elicit().map_err(|error| {
            ErrorObject::invalid_params(format!("`inputResponses`: {}: {error}", key(place)))
        })?;
        if answer.action != ElicitAction::Accept {
            let text =
                format!("the user did not agree to visit a page that the server requires: {}", pages.message);
            return Err(relaying::failure("pageDeclined", &text, &[]));
        }
    }
    Ok(is_whole)
}

/// The name of a page towards the client.
fn key(place: usize) -> String {
    format!("page-{}", place + 1)
}

fn length(question: &InputRequest) -> usize {
    question.params().ok().flatten().as_ref().map_or(0, Raw::len)
}

fn need(questions: InputRequests, state: String) -> Reply {
    Reply::NeedInput(Box::new(
        InputRequired::default().with_input_requests(questions).with_request_state(state),
    ))
}

fn payload(method: &Method, reply: Reply) -> Result<Payload, CallError> {
    match reply {
        Reply::Verbatim(result) => Ok(result),
        Reply::Complete(result) | Reply::Task(result) => Ok(Payload::from_raw(result)),
        Reply::NeedInput(_) => Err(CallError::BadReply {
            method: method.clone(),
            problem: "a legacy server asks with requests of its own".into(),
        }),
    }
}
