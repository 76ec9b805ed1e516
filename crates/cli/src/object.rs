//! JSON objects as servers send them: members in their order, values unchanged. Unknown and invalid members stay visible, which
//! the library's types would drop or refuse.
//!
//! Used where something is listed or shown.

use std::fmt::Display;

use mcpjoin::proto::types::Members;
use mcpjoin::proto::{Kind, Raw};

/// An object without duplicate names.
pub(crate) struct Object(Members<Raw>);

impl Object {
    /// The members of an object; `None` when it is another kind of value, or has a duplicate name.
    pub(crate) fn of(raw: &Raw) -> Option<Self> {
        if raw.kind() == Kind::Object { raw.decode().ok().map(Self) } else { None }
    }

    /// What a value is that [`of`](Self::of) refuses.
    pub(crate) fn refused(raw: &Raw) -> &'static str {
        if raw.kind() == Kind::Object { "an object with a member twice" } else { "not an object" }
    }

    /// The value of a member.
    pub(crate) fn value(&self, name: &str) -> Option<&Raw> {
        self.0.get(name)
    }

    /// The value of a member that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.value(name)?.to_string_value().map(|text| text.into_owned())
    }

    /// The items of a member that is an array.
    pub(crate) fn items(&self, name: &str) -> Option<Vec<Raw>> {
        let value = self.value(name)?;
        if value.kind() == Kind::Array { value.decode().ok() } else { None }
    }
}

impl IntoIterator for Object {
    type Item = (String, Raw);
    type IntoIter = <Members<Raw> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The text of an object with these members. The values are JSON.
pub(crate) fn write<N: AsRef<str>>(members: impl IntoIterator<Item = (N, impl Display)>) -> String {
    let member = |(name, value): (N, _)| format!("{}:{value}", Raw::string(name.as_ref()));
    format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(","))
}

/// [`write`] without the members that have no value.
pub(crate) fn write_known<N: AsRef<str>, V: Display>(
    members: impl IntoIterator<Item = (N, Option<V>)>,
) -> String {
    write(members.into_iter().filter_map(|(name, value)| Some((name, value?))))
}
