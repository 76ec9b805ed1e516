//! Adds members to a payload and removes members, and keeps every other byte.
//!
//! Used by gateways to adapt forwarded messages to another era. `session/envelope` adds the session's own envelope.

use alloc::string::String;
use core::ops::Range;

use crate::{Payload, Raw, scan};

impl Payload {
    /// Sets a member: replaces its value, or adds the member at the start. A repeated member is there once afterwards.
    #[must_use]
    pub fn with_member(&self, name: &str, value: &Raw) -> Self {
        written(with(self.raw().as_str(), name, value.as_str()))
    }

    /// Sets a member of `_meta`. Creates `_meta` when it is missing or not an object.
    #[must_use]
    pub fn with_meta_member(&self, key: &str, value: &Raw) -> Self {
        let text = self.raw().as_str();
        match self.meta_range().filter(|range| text[range.clone()].starts_with('{')) {
            Some(range) => {
                let meta = with(&text[range.clone()], key, value.as_str());
                written(replaced(text, range, &meta))
            }
            None => written(with(text, "_meta", &with("{}", key, value.as_str()))),
        }
    }

    /// Removes the members that `gone` selects.
    #[must_use]
    pub fn without_members(&self, gone: impl Fn(&str) -> bool) -> Self {
        without(self.raw().as_str(), gone).map_or_else(|| self.clone(), written)
    }

    /// Removes the members of `_meta` that `gone` selects, and `_meta` itself when it becomes empty.
    #[must_use]
    pub fn without_meta_members(&self, gone: impl Fn(&str) -> bool) -> Self {
        let text = self.raw().as_str();
        let Some(range) = self.meta_range() else { return self.clone() };
        let Some(meta) = without(&text[range.clone()], gone) else { return self.clone() };
        if scan::members_of(&meta).next().is_none() {
            return self.without_members(|name| name == "_meta");
        }
        written(replaced(text, range, &meta))
    }
}

fn written(text: String) -> Payload {
    Payload::from_raw(Raw::trusted(text.into()))
}

fn replaced(text: &str, range: Range<usize>, by: &str) -> String {
    let mut out = String::with_capacity(text.len() - range.len() + by.len());
    out.push_str(&text[..range.start]);
    out.push_str(by);
    out.push_str(&text[range.end..]);
    out
}

/// Sets a member of an object.
fn with(object: &str, name: &str, value: &str) -> String {
    let mut found = scan::members_of(object).filter(|(known, _)| known == name);
    match (found.next(), found.next()) {
        (None, _) => {}
        (Some((_, range)), None) => return replaced(object, range, value),
        // Readers would choose different ones.
        (Some(_), Some(_)) => {
            let bare = without(object, |known| known == name);
            return with(bare.as_deref().unwrap_or("{}"), name, value);
        }
    }
    let mut out = String::with_capacity(object.len() + name.len() + value.len() + "\"\":,".len());
    out.push('{');
    crate::json::push_string(name, &mut out);
    out.push(':');
    out.push_str(value);
    let rest = object.get(1..).unwrap_or("}");
    if !rest.trim_start().starts_with('}') {
        out.push(',');
    }
    out.push_str(rest);
    out
}

/// Removes members of an object; `None` when `gone` selects none.
fn without(object: &str, gone: impl Fn(&str) -> bool) -> Option<String> {
    let mut out = String::with_capacity(object.len());
    out.push('{');
    let (mut end, mut taken, mut first) = (1, false, true);
    for (name, range) in scan::members_of(object) {
        let member = &object[end..range.end];
        end = range.end;
        if gone(&name) {
            taken = true;
        } else if core::mem::take(&mut first) {
            // The comma belongs to the member before.
            out.push_str(member.trim_start_matches([' ', '\t', '\n', '\r', ',']));
        } else {
            out.push_str(member);
        }
    }
    out.push_str(&object[end..]);
    taken.then_some(out)
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    fn payload(text: &str) -> Payload {
        Payload::from_raw(raw(text))
    }

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).expect("valid")
    }

    #[test]
    fn a_member_takes_the_place_of_its_value_and_nothing_else_is_touched() {
        let text = r#"{ "a" : 1e400 , "progressToken":7,"b":[ ] }"#;
        let out = payload(text).with_member("progressToken", &raw("\"x\""));
        assert_eq!(out.raw().as_str(), r#"{ "a" : 1e400 , "progressToken":"x","b":[ ] }"#);
        assert_eq!(payload("{ }").with_member("a", &raw("1")).raw().as_str(), r#"{"a":1 }"#);
        assert_eq!(payload(r#"{"b":2}"#).with_member("a", &raw("1")).raw().as_str(), r#"{"a":1,"b":2}"#);
    }

    #[test]
    fn meta_is_made_where_it_is_missing() {
        assert_eq!(
            payload(r#"{"b":2}"#).with_meta_member("k", &raw("1")).raw().as_str(),
            r#"{"_meta":{"k":1},"b":2}"#
        );
        assert_eq!(
            payload(r#"{"b":2, "_meta" : {"l" :-0}}"#).with_meta_member("k", &raw("1")).raw().as_str(),
            r#"{"b":2, "_meta" : {"k":1,"l" :-0}}"#
        );
    }

    #[test]
    fn a_repeated_member_leaves_no_other_value() {
        let list = raw(r#"[{"text":"first","type":"text","t\u0065xt":"last"}]"#);
        let item: Raw = list.decode::<[Raw; 1]>().expect("an item")[0].clone();
        let out = Payload::from_raw(item).with_member("text", &raw("\"new\""));
        assert_eq!(out.raw().as_str(), r#"{"text":"new","type":"text"}"#);
        let out = payload(r#"{"_meta":{"k":1,"k":2}}"#).with_meta_member("k", &raw("3"));
        assert_eq!(out.raw().as_str(), r#"{"_meta":{"k":3}}"#);
    }

    #[test]
    fn members_are_taken_out_with_their_commas() {
        for (text, left) in [
            (r#"{"x":1,"b":2}"#, r#"{"b":2}"#),
            (r#"{"b":2 , "x":{"x":1}}"#, r#"{"b":2}"#),
            (r#"{ "b":2,"x":1 , "c" : 3 }"#, r#"{"b":2 , "c" : 3 }"#),
            (r#"{"x":[1,2]}"#, "{}"),
            (r#"{"b":2}"#, r#"{"b":2}"#),
        ] {
            let out = payload(text).without_members(|name| name == "x");
            assert_eq!(out.raw().as_str(), left);
            Raw::parse(out.raw().as_str().to_owned()).expect("valid");
        }
        let out = payload(r#"{"a":1,"_meta":{"x":1,"y":2}}"#).without_meta_members(|key| key == "x");
        assert_eq!(out.raw().as_str(), r#"{"a":1,"_meta":{"y":2}}"#);
        let out = payload(r#"{"a":1,"_meta":{"x":1}}"#).without_meta_members(|key| key == "x");
        assert_eq!(out.raw().as_str(), r#"{"a":1}"#);
    }
}
