//! Scopes: which ones imply others, and which ones an operation needs.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling>

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcpjoin_proto::{Message, Method, Payload};

/// An operation that a client requests.
#[derive(Debug)]
pub struct Operation<'a> {
    method: &'a Method,
    params: Option<&'a Payload>,
    name: Option<Cow<'a, str>>,
}

impl<'a> Operation<'a> {
    fn of(message: &'a Message) -> Option<Self> {
        let (method, params) = match message {
            Message::Request(request) => (&request.method, request.params.as_ref()),
            Message::Notification(notification) => (&notification.method, notification.params.as_ref()),
            // A response to a request of the server.
            Message::Response(_) => return None,
        };
        Some(Self { method, params, name: params.and_then(Payload::name_string) })
    }

    /// The method of the request or notification.
    #[must_use]
    pub const fn method(&self) -> &Method {
        self.method
    }

    /// The name of the tool or the prompt.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The URI of the resource.
    #[must_use]
    pub fn uri(&self) -> Option<String> {
        Some(self.params?.uri()?.to_string_value()?.into_owned())
    }
}

/// The function that returns the scopes of an operation.
pub(super) struct ScopesFor(Box<Asked>);

type Asked = dyn Fn(&Operation<'_>, &mut dyn FnMut(&str)) + Send + Sync;

impl ScopesFor {
    pub(super) fn new<I, S>(scopes: impl Fn(&Operation<'_>) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        Self(Box::new(move |operation, needs| {
            for scope in scopes(operation) {
                needs(scope.as_ref());
            }
        }))
    }

    /// Adds the scopes that a message needs.
    pub(super) fn add(&self, message: &Message, needed: &mut Vec<Box<str>>) {
        let Some(operation) = Operation::of(message) else { return };
        (self.0)(&operation, &mut |scope| {
            if !needed.iter().any(|one| **one == *scope) {
                needed.push(scope.into());
            }
        });
    }
}

/// Which scopes imply others.
#[derive(Default)]
pub(super) struct Hierarchy(BTreeMap<String, Vec<String>>);

impl Hierarchy {
    pub(super) fn add(&mut self, broad: String, narrow: impl Iterator<Item = String>) {
        self.0.entry(broad).or_default().extend(narrow);
    }

    /// Returns the scopes with all that they imply, sorted.
    pub(super) fn expand(&self, scopes: Vec<String>) -> Arc<[Box<str>]> {
        let mut all = BTreeSet::new();
        let mut open = scopes;
        while let Some(scope) = open.pop() {
            if let Some(implied) = self.0.get(&scope).filter(|_| !all.contains(scope.as_str())) {
                open.extend(implied.iter().cloned());
            }
            all.insert(scope.into_boxed_str());
        }
        all.into_iter().collect()
    }
}

/// Whether sorted scopes contain a scope.
pub(super) fn includes(scopes: &[Box<str>], scope: &str) -> bool {
    scopes.binary_search_by(|one| (**one).cmp(scope)).is_ok()
}

/// Whether it has the form of a scope (RFC 6749, 3.3): no space, no quote, no backslash.
pub(crate) fn is_scope(text: &str) -> bool {
    let plain = |byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::{Hierarchy, includes, is_scope};

    #[test]
    fn a_broad_scope_implies_narrow_ones_and_what_these_imply() {
        let mut hierarchy = Hierarchy::default();
        let add = |hierarchy: &mut Hierarchy, broad: &str, narrow: &[&str]| {
            hierarchy.add(broad.to_owned(), narrow.iter().map(|one| (*one).to_owned()));
        };
        add(&mut hierarchy, "admin", &["write"]);
        add(&mut hierarchy, "write", &["read"]);
        add(&mut hierarchy, "read", &["admin-not"]);
        // A cycle in the hierarchy causes no endless loop.
        add(&mut hierarchy, "admin-not", &["read"]);
        let scopes = hierarchy.expand(vec!["admin".into(), "z".into()]);
        assert_eq!(
            scopes.iter().map(|one| &**one).collect::<Vec<_>>(),
            ["admin", "admin-not", "read", "write", "z"]
        );
        assert!(includes(&scopes, "read") && !includes(&scopes, "reads"));
        assert!(!includes(&hierarchy.expand(vec!["read".into()]), "write"));
    }

    #[test]
    fn a_scope_has_no_space_no_quote_and_no_backslash() {
        for good in ["a", "files:read", "https://x/y.z", "!#[]~"] {
            assert!(is_scope(good), "{good}");
        }
        for bad in ["", "a b", "a\"b", "a\\b", "a\n", "\u{e9}", "\u{7f}"] {
            assert!(!is_scope(bad), "{bad:?}");
        }
    }
}
