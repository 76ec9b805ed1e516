//! What a target may ask clients: whether it may sample from their models and learn their roots.
//!
//! A target that may not ask does not learn that the client could answer, and its question is refused if it asks anyway.
//! Used by `legacy` and `modern` for what clients declare, and by `pair`, `pool` and `legacy_to_modern` for each question.
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Raw};

use super::SharedPolicy;
use super::rules::TargetRules;
use crate::errors::failure;
use crate::upstream::ClientHello;

/// What one target may ask. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions(Option<(SharedPolicy, Box<str>)>);

impl Questions {
    pub(super) const fn new(policy: Option<(SharedPolicy, Box<str>)>) -> Self {
        Self(policy)
    }

    /// Refuses a question that the target may not ask.
    pub(crate) fn check(&self, question: &Method) -> Result<(), ErrorObject> {
        let Some((policy, target)) = &self.0 else { return Ok(()) };
        match is_refused(policy.current().rules.target(target), question) {
            true => Err(refused(question)),
            false => Ok(()),
        }
    }

    /// What the client declares, without what the target may not ask for.
    pub(crate) fn declare(&self, mut hello: ClientHello) -> ClientHello {
        let Some((policy, target)) = &self.0 else { return hello };
        let policy = policy.current();
        let refused = refused_capabilities(policy.rules.target(target));
        if refused.is_empty() {
            return hello;
        }
        for name in &refused {
            match *name {
                "sampling" => hello.capabilities.sampling = None,
                _ => hello.capabilities.roots = None,
            }
        }
        let presents = &mut hello.presents;
        presents.capabilities = presents.capabilities.take().map(|declared| without(declared, &refused));
        presents.initialize = presents.initialize.take().map(|params| {
            let declared = params.member("capabilities").map(|declared| without(declared, &refused));
            let params = Payload::from_raw(params);
            declared
                .map_or_else(|| params.clone(), |declared| params.with_member("capabilities", &declared))
                .into_raw()
        });
        hello
    }
}

fn is_refused(rules: &TargetRules, question: &Method) -> bool {
    match question {
        Method::CreateMessage => rules.sampling == Some(false),
        Method::ListRoots => rules.roots == Some(false),
        _ => false,
    }
}

fn refused_capabilities(rules: &TargetRules) -> Vec<&'static str> {
    let all = [("sampling", rules.sampling), ("roots", rules.roots)];
    all.into_iter().filter(|(_, may)| *may == Some(false)).map(|(name, _)| name).collect()
}

fn without(declared: Raw, refused: &[&str]) -> Raw {
    match declared.kind() {
        Kind::Object => {
            Payload::from_raw(declared).without_members(|name| refused.contains(&name)).into_raw()
        }
        _ => declared,
    }
}

fn refused(question: &Method) -> ErrorObject {
    let text = format!("the policy of this gateway does not allow the server to send {question}");
    failure("questionRefused", &text, &[])
}

/// The parameters of a modern request, whose `_meta` declares what its client can do, without what the target may not
/// ask for.
pub(super) fn declared(rules: &TargetRules, params: Payload) -> Payload {
    let refused = refused_capabilities(rules);
    if refused.is_empty() {
        return params;
    }
    let declared = params.meta().and_then(|meta| meta.member(key::CLIENT_CAPABILITIES));
    let declared = declared.map(|declared| without(declared, &refused));
    declared.map_or_else(
        || params.clone(),
        |declared| params.with_meta_member(key::CLIENT_CAPABILITIES, &declared),
    )
}

/// Refuses the result of a modern server that asks what it may not ask.
pub(super) fn check_result(rules: &TargetRules, reply: &Reply) -> Result<(), ErrorObject> {
    if refused_capabilities(rules).is_empty() {
        return Ok(());
    }
    let asked = match reply {
        Reply::Verbatim(result) => result.raw().member("inputRequests"),
        Reply::NeedInput(input) => {
            Payload::from_value(&**input).ok().and_then(|input| input.raw().member("inputRequests"))
        }
        _ => None,
    };
    let asked: std::collections::BTreeMap<String, Raw> =
        asked.and_then(|asked| asked.decode().ok()).unwrap_or_default();
    for question in asked.values() {
        let method = question.member("method");
        if let Some(method) = method.as_ref().and_then(Raw::to_string_value)
            && is_refused(rules, &Method::parse(&method))
        {
            return Err(refused(&Method::parse(&method)));
        }
    }
    Ok(())
}
