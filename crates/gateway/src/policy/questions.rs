//! What a target may ask clients: whether it may sample from their models and learn their roots.
//!
//! A target that may not ask does not learn that the client could answer, and its question is refused if it asks anyway.
//! Used by `legacy` and `modern` for what clients declare, and by `pair`, `pool`, `modern` and `legacy_to_modern` for each question.
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>

use std::sync::Arc;

use mcpjoin_proto::types::Members;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Notification, Payload, Raw};

use super::SharedPolicy;
use super::rules::TargetRules;
use crate::errors::failure;
use crate::portable::Portable;
use crate::upstream::ClientHello;

/// The questions beside elicitation that a target may ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
}

/// A target that is alone may ask everything.
impl Default for Allowed {
    fn default() -> Self {
        Self { sampling: true, roots: true }
    }
}

/// What one target may ask. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    policy: Option<(SharedPolicy, Box<str>)>,
    /// What it may ask if no rule says so.
    otherwise: Allowed,
    /// The session with it, if other processes may go on with it.
    portable: Option<Arc<Portable>>,
}

impl Allowed {
    /// What a target may ask by these rules.
    pub(super) fn by(self, rules: Option<&TargetRules>) -> Self {
        let sampling = rules.and_then(|rules| rules.sampling).unwrap_or(self.sampling);
        Self { sampling, roots: rules.and_then(|rules| rules.roots).unwrap_or(self.roots) }
    }

    /// Whether it may ask everything.
    pub(super) const fn is_all(self) -> bool {
        self.sampling && self.roots
    }

    const fn refuses(self, question: &Method) -> bool {
        match question {
            Method::CreateMessage => !self.sampling,
            Method::ListRoots => !self.roots,
            _ => false,
        }
    }

    /// The capabilities of a client without those that the target may not use.
    fn declared(self, declared: Raw) -> Raw {
        if declared.kind() != Kind::Object {
            return declared;
        }
        let is_refused =
            |name: &str| (name == "sampling" && !self.sampling) || (name == "roots" && !self.roots);
        Payload::from_raw(declared).without_members(is_refused).into_raw()
    }
}

impl Questions {
    pub(super) const fn new(policy: Option<(SharedPolicy, Box<str>)>, otherwise: Allowed) -> Self {
        Self { policy, otherwise, portable: None }
    }

    /// Sets the session with the target, if other processes may go on with it.
    pub(crate) fn about(mut self, portable: Option<Arc<Portable>>) -> Self {
        self.portable = portable;
        self
    }

    /// Returns the session with the target, if other processes may go on with it.
    pub(crate) const fn portable(&self) -> Option<&Arc<Portable>> {
        self.portable.as_ref()
    }

    fn allowed(&self) -> Allowed {
        match &self.policy {
            Some((policy, target)) => self.otherwise.by(Some(policy.current().rules.target(target))),
            None => self.otherwise,
        }
    }

    /// Refuses a question that the target may not ask.
    pub(crate) fn check(&self, question: &Method) -> Result<(), ErrorObject> {
        if self.allowed().refuses(question) { Err(refused(question)) } else { Ok(()) }
    }

    /// Whether a notification of a modern server asks nothing that it may not ask: a task may ask in one.
    pub(crate) fn permits(&self, notification: &Notification) -> bool {
        let params = notification.params.as_ref().filter(|_| notification.method == Method::Tasks);
        let asked = params.and_then(|params| params.raw().member("inputRequests"));
        asked.is_none_or(|asked| check_requests(self.allowed(), &asked).is_ok())
    }

    /// Whether the answer of the client may come to another process.
    pub(crate) fn is_answered_anywhere(&self) -> bool {
        self.portable.as_ref().is_some_and(|portable| portable.is_stored())
    }

    /// What the client declares, without what the target may not ask for.
    pub(crate) fn declare(&self, mut hello: ClientHello) -> ClientHello {
        let allowed = self.allowed();
        if allowed.is_all() {
            return hello;
        }
        if !allowed.sampling {
            hello.capabilities.sampling = None;
        }
        if !allowed.roots {
            hello.capabilities.roots = None;
        }
        let presents = &mut hello.presents;
        presents.capabilities = presents.capabilities.take().map(|declared| allowed.declared(declared));
        presents.initialize = presents.initialize.take().map(|params| {
            let declared = params.member("capabilities").map(|declared| allowed.declared(declared));
            let params = Payload::from_raw(params);
            declared
                .map_or_else(|| params.clone(), |declared| params.with_member("capabilities", &declared))
                .into_raw()
        });
        hello
    }
}

fn refused(question: &Method) -> ErrorObject {
    let text = format!("the policy of this gateway does not allow the server to send {question}");
    failure("questionRefused", &text, &[])
}

/// The parameters of a modern request, whose `_meta` declares what its client can do, without what the target may not
/// ask for.
pub(super) fn declared(allowed: Allowed, params: Payload) -> Payload {
    if allowed.is_all() {
        return params;
    }
    let declared = params.meta().and_then(|meta| meta.member(key::CLIENT_CAPABILITIES));
    let declared = declared.map(|declared| allowed.declared(declared));
    declared.map_or_else(
        || params.clone(),
        |declared| params.with_meta_member(key::CLIENT_CAPABILITIES, &declared),
    )
}

/// Refuses a result that asks what its server may not ask. `result`: one that may ask.
pub(super) fn check_result(allowed: Allowed, result: Option<&Raw>) -> Result<(), ErrorObject> {
    if allowed.is_all() {
        return Ok(());
    }
    let asked = result.and_then(|result| result.member("inputRequests"));
    asked.map_or(Ok(()), |asked| check_requests(allowed, &asked))
}

fn check_requests(allowed: Allowed, asked: &Raw) -> Result<(), ErrorObject> {
    if allowed.is_all() || asked.kind() == Kind::Null {
        return Ok(());
    }
    // A client may read what this gateway cannot.
    let asked: Members<Raw> = asked.decode().map_err(|error| unreadable(&error.to_string()))?;
    for (name, question) in asked.iter() {
        let method = Some(question).filter(|question| question.kind() == Kind::Object);
        let method = method.and_then(|question| question.member("method"));
        let method = method.as_ref().and_then(Raw::to_string_value);
        let method = method.ok_or_else(|| unreadable(&format!("{name}: `method` is not a string")))?;
        let method = Method::parse(&method);
        if allowed.refuses(&method) {
            return Err(refused(&method));
        }
    }
    Ok(())
}

/// The error for questions of which the policy cannot be applied to each.
fn unreadable(problem: &str) -> ErrorObject {
    let text = format!(
        "the policy of this gateway does not allow every question, and those of the server cannot be read: \
         inputRequests: {problem}"
    );
    failure("questionRefused", &text, &[])
}
