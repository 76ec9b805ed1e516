//! Requests that may take several rounds: `tools/call`, `prompts/get`, `resources/read`.
//!
//! The call to the legacy server is made once and stays open. When the server asks something, the client's request is
//! answered with the question and the call is suspended. The client's next request brings the answers: they go to the
//! server, and the call continues until there is a result or another question.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
//!
//! A server of 2025-11-25 may also refuse a call until the user has visited a page (`url_elicitation`). Then there is
//! no open call: the call is repeated when the client returns.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::{CallError, ClientInfo, Reply};
use mcpjoin_proto::types::{InputRequests, InputRequired, InputResponses};
use mcpjoin_proto::{ErrorObject, Method, Payload};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::suspended::Owner;
use super::tasks::{self, RunningTask};
use super::url_elicitation::Pages;
use super::{Claim, ModernToLegacy, Run, call, call_error, is_answered, requester, translate};
use crate::errors::ErrorTexts;
use crate::relay;
use mcpjoin::connection::{Calling, Context};
use mcpjoin::internal::request_digest;
use mcpjoin::transport::Replicas;

/// How long a question waits for others that the server asks at the same time, so that the client receives them in one
/// round.
const GATHER_TIME: Duration = Duration::from_millis(10);

/// An open call to the server.
pub(super) struct OpenCall {
    calling: Calling,
    claim: Claim,
    /// Since when it makes no progress: its begin, or the return of its client.
    since: Instant,
    /// The call asks the server to create a task.
    as_task: bool,
    /// The task, once the server has created it.
    task: Option<RunningTask>,
}

/// A call whose client has left.
pub(super) enum SuspendedCall {
    /// It waits for answers.
    Open(OpenCall),
    /// It is repeated when the user has visited these pages, at the same server: only that server may know of the
    /// visits.
    Refused(Pages, Claim),
}

impl SuspendedCall {
    /// Whether another call can use its server once it is given up. `kept` is the run of a server that several clients
    /// share and that does not end then. Until the server has responded to an open call, no other call that may ask a
    /// client can use that run.
    pub(super) fn frees_server(&self, kept: Option<&Arc<Run>>) -> bool {
        let (Self::Open(OpenCall { claim, .. }) | Self::Refused(_, claim)) = self;
        let is_left_unanswered =
            matches!(self, Self::Open(_)) && kept.is_some_and(|kept| Arc::ptr_eq(kept, &claim.run));
        claim.run.connection.close_cause().is_none() && !is_left_unanswered
    }

    /// Cancels a call that its client does not resume, and answers the questions of the server with an error.
    pub(super) fn abandon(self, why: &str) {
        if let Self::Open(OpenCall { calling, claim, .. }) = self {
            calling.cancel(Some(why));
            claim.request.fail(&ErrorObject::internal(why));
        }
    }
}

/// A call whose client is present. When the client's request is dropped, the call is cancelled with the same reason.
struct CancelOnDrop<'a> {
    open: Option<OpenCall>,
    cx: &'a Context,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.calling.cancel(self.cx.cancel_reason().as_deref());
        }
    }
}

/// How one round of a call ends.
enum Round {
    /// The server asked something.
    Asked(OpenCall),
    Ended(Result<Payload, CallError>, Claim),
}

impl ModernToLegacy {
    /// Answers a request of one of the three methods, the first of its call or one with answers.
    pub(super) async fn in_rounds<F, Fut>(
        &self,
        wait_for_claim: F,
        method: Method,
        params: Option<Payload>,
        cx: &Context,
        errors: &ErrorTexts,
    ) -> Result<Reply, ErrorObject>
    where
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<Claim, ErrorObject>> + Send,
    {
        let owner = Owner {
            request: request_digest(method.as_str(), params.as_ref()),
            principal: cx.origin().and_then(|origin| origin.principal.clone()),
        };
        let unknown = ClientInfo::default();
        let client = &cx.client().map_or(&unknown, |client| &**client).capabilities;
        let (mut open, mut claim) = (None, None);
        // The ids of the pages that the user has agreed to visit.
        let mut agreed = Vec::new();
        if let Some(round) = translate::round(params.as_ref())? {
            let replicas = cx.extension::<Replicas>();
            let handle = replicas.map_or(&*round.state, |replicas| replicas.unmarked(&round.state));
            match self.pool.suspended.take(handle, &owner)? {
                SuspendedCall::Open(call) => open = Some(call.resume(cx, &round.responses).await),
                SuspendedCall::Refused(pages, refused) => match pages.are_accepted(&round.responses)? {
                    true => (agreed, claim) = (pages.ids, Some(refused)),
                    false => return self.suspend_for_pages(pages, refused, owner, cx),
                },
            }
        }
        let mut may_wait_for_pages = !agreed.is_empty();
        loop {
            let call = match open.take() {
                Some(open) => open,
                None => {
                    // A new run of the server does not know the call.
                    let is_current = |claim: &Claim| claim.run.connection.close_cause().is_none();
                    let claim = match claim.take().filter(is_current) {
                        Some(claim) => claim,
                        None => wait_for_claim().await?,
                    };
                    self.begin(claim, &method, params.as_ref(), cx).await
                }
            };
            let (error, at) = match self.round(call, &method, cx).await? {
                Round::Asked(open) => return self.suspend(open, owner, cx),
                Round::Ended(Ok(result), _) => {
                    return Ok(Reply::Complete(translate::result(&method, result)));
                }
                Round::Ended(Err(error), at) => (error, at),
            };
            let pages = match &error {
                CallError::Remote(error) => Pages::of(error, client),
                _ => None,
            };
            match pages {
                // The call was repeated at once, because not every server waits for the user to finish.
                Some(pages) if may_wait_for_pages && pages.ids.iter().all(|id| agreed.contains(id)) => {
                    may_wait_for_pages = false;
                    at.request.set_requester(None);
                    at.run.completed_pages.wait(&pages.ids).await;
                    claim = Some(at);
                }
                Some(pages) => return self.suspend_for_pages(pages, at, owner, cx),
                None => {
                    let connection = at.run.connection.clone();
                    // The next call need not wait until the exit status is known.
                    drop(at);
                    return Err(call_error(error, &connection, cx, errors).await);
                }
            }
        }
    }

    /// Makes the call. The list of tools that it needs may take half of its time.
    async fn begin(&self, claim: Claim, method: &Method, params: Option<&Payload>, cx: &Context) -> OpenCall {
        let since = Instant::now();
        let Claim { run, request } = &claim;
        request.set_requester(Some(requester(cx)));
        let tool = params.filter(|_| *method == Method::CallTool).and_then(Payload::name_string);
        let as_task = match &tool {
            Some(tool) => run.task_tools.contains(&run.connection, tool, self.pool.timeout / 2).await,
            None => false,
        };
        run.update_log_level(cx).await;
        // The time without progress is measured in `outcome`: it does not include the absence of the client.
        let mut call = call(method, params, cx, Duration::MAX);
        if as_task {
            call.params = Some(tasks::with_task(call.params.take()));
        }
        request.sent();
        OpenCall { calling: run.connection.call(call), claim, since, as_task, task: None }
    }

    /// Waits until the call ends or the server asks something.
    async fn round(&self, open: OpenCall, method: &Method, cx: &Context) -> Result<Round, ErrorObject> {
        let mut guarded = CancelOnDrop { open: Some(open), cx };
        let outcome = match &mut guarded.open {
            Some(open) => self.outcome(open, method, cx).await,
            None => None,
        };
        let open = guarded.open.take().ok_or_else(|| ErrorObject::internal("the call is over"))?;
        let Some(outcome) = outcome else { return Ok(Round::Asked(open)) };
        if is_answered(&outcome) {
            open.claim.request.answered();
        }
        if matches!(outcome, Err(CallError::TimedOut { .. })) {
            open.calling.cancel(Some("timeout"));
        }
        Ok(Round::Ended(outcome, open.claim))
    }

    /// Forwards progress and notifications of the call until it ends. `None`: the server asked something.
    async fn outcome(
        &self,
        open: &mut OpenCall,
        method: &Method,
        cx: &Context,
    ) -> Option<Result<Payload, CallError>> {
        let OpenCall { calling, claim: Claim { run, request }, since, as_task, task } = open;
        let gather = || async {
            request.asked().await;
            sleep(GATHER_TIME).await;
        };
        let mut questions = pin!(gather());
        let timeout = if task.is_some() { tasks::TASK_TTL } else { self.pool.timeout };
        let mut silent = pin!(sleep(timeout.saturating_sub(since.elapsed())));
        let mut forwarded: usize = 0;
        loop {
            tokio::select! {
                biased;
                event = calling.next_event() => match event {
                    Some(event) => {
                        silent.set(sleep(timeout));
                        relay::forward_event(event, cx, |notification| relay::notify(cx, notification));
                        forwarded += 1;
                        if forwarded.is_multiple_of(relay::FORWARDED_PER_POLL) {
                            yield_now().await;
                        }
                    }
                    None => {
                        let outcome = (&mut *calling).await.and_then(|reply| payload(method, reply));
                        let created = match &outcome {
                            Ok(result) if *as_task && task.is_none() => tasks::created(&run.connection, result),
                            _ => None,
                        };
                        if let Some((running, result)) = created {
                            (*task, *calling) = (Some(running), result);
                            silent.set(sleep(tasks::TASK_TTL));
                            continue;
                        }
                        return Some(match task {
                            Some(task) => {
                                task.finished();
                                outcome.map(|result| tasks::result(&result))
                            }
                            None => outcome,
                        });
                    }
                },
                () = &mut questions => {
                    if request.is_asked() {
                        return None;
                    }
                    // The server has withdrawn its questions.
                    questions.set(gather());
                }
                () = &mut silent => {
                    let after = if task.is_some() { tasks::TASK_TTL } else { self.pool.timeout };
                    let method = method.clone();
                    return Some(Err(CallError::TimedOut { method, after, total: false }));
                }
            }
        }
    }

    /// Answers the client with the questions, and suspends the call.
    fn suspend(&self, open: OpenCall, owner: Owner, cx: &Context) -> Result<Reply, ErrorObject> {
        let (questions, bytes) = open.claim.request.suspend();
        let state = self.pool.suspended.add(SuspendedCall::Open(open), owner, bytes)?;
        Ok(need_input(questions, &state, cx))
    }

    /// Answers the client with the pages as questions, and keeps the claim for the repeated call.
    fn suspend_for_pages(
        &self,
        pages: Pages,
        at: Claim,
        owner: Owner,
        cx: &Context,
    ) -> Result<Reply, ErrorObject> {
        let (questions, bytes) = pages.questions();
        at.request.set_requester(None);
        let state = self.pool.suspended.add(SuspendedCall::Refused(pages, at), owner, bytes)?;
        Ok(need_input(questions, &state, cx))
    }
}

impl OpenCall {
    /// The client has returned: the server receives the answers, and the client the log messages that were stored for
    /// it.
    async fn resume(mut self, cx: &Context, responses: &InputResponses) -> Self {
        self.since = Instant::now();
        for log in self.claim.request.resume(requester(cx), responses) {
            relay::notify(cx, log);
        }
        self.claim.run.update_log_level(cx).await;
        self
    }
}

fn need_input(questions: InputRequests, state: &str, cx: &Context) -> Reply {
    // The client returns to any of several processes.
    let state = cx.extension::<Replicas>().map_or_else(|| state.to_owned(), |replicas| replicas.mark(state));
    Reply::NeedInput(Box::new(
        InputRequired::default().with_input_requests(questions).with_request_state(state),
    ))
}

fn payload(method: &Method, reply: Reply) -> Result<Payload, CallError> {
    match reply {
        Reply::Verbatim(result) => Ok(result),
        Reply::Complete(result) | Reply::Task(result) => Ok(Payload::from_raw(result)),
        Reply::NeedInput(_) => Err(CallError::InvalidResponse {
            method: method.clone(),
            problem: "a legacy server asks with requests of its own".to_owned().into(),
        }),
    }
}
