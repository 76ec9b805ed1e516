//! URI templates: literal text, `{name}` and `{+name}` ([RFC 6570, section
//! 1.2](https://www.rfc-editor.org/rfc/rfc6570#section-1.2)).
//!
//! Matching takes time linear in the length of the URI: each literal is searched once, leftmost first. This finds a
//! match if there is one, because the value of `{name}` contains no `/`, `?` or `#`: a literal further to the right only
//! makes the value before it longer, by characters of a later value or of the literal itself.
//!
//! The value of `{+name}` may contain every character. A template has at most one: what stands behind it is searched from
//! the end of the URI, rightmost first, for the same reason, and the value is what remains between.

use std::collections::BTreeMap;

use memchr::memmem;

/// The values of a template's variables, by name, percent-decoded. The peer has chosen them: they may contain `../`.
pub type Variables = BTreeMap<String, String>;

/// A parsed template.
#[derive(Debug)]
pub(super) struct Template {
    first: Box<str>,
    /// Each variable with the literal after it. Only the last literal may be empty.
    places: Vec<(Box<str>, Box<str>)>,
    /// The place of the variable that may contain every character.
    reserved: Option<usize>,
}

impl Template {
    /// Parses a template. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut parts = text.split('{');
        let first = parts.next().unwrap_or_default();
        if first.contains('}') {
            return Err("a `}` without its `{`");
        }
        let mut places: Vec<(Box<str>, Box<str>)> = Vec::new();
        let mut reserved = None;
        for part in parts {
            let (expression, literal) = part.split_once('}').ok_or("a `{` without its `}`")?;
            if literal.contains('}') {
                return Err("a `}` without its `{`");
            }
            let name = expression.strip_prefix('+').unwrap_or(expression);
            if name.len() < expression.len() && reserved.replace(places.len()).is_some() {
                return Err("more than one `{+name}`");
            }
            if name.is_empty()
                || !name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'%'))
            {
                return Err("an expression that is neither `{name}` nor `{+name}`");
            }
            if places.iter().any(|(known, _)| **known == *name) {
                return Err("a name that appears twice");
            }
            if places.last().is_some_and(|(_, literal)| literal.is_empty()) {
                return Err("two expressions with nothing between them");
            }
            places.push((name.into(), literal.into()));
        }
        Ok(Self { first: first.into(), places, reserved })
    }

    /// Whether the template has this variable.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.iter().any(|(known, _)| **known == *name)
    }

    /// Orders matching templates: the one with more bytes of literals is more precise, then the one without `{+name}`.
    pub(super) fn precision(&self) -> (usize, bool) {
        let literal = self.first.len() + self.places.iter().map(|(_, literal)| literal.len()).sum::<usize>();
        (literal, self.reserved.is_none())
    }

    /// Returns the values for which the template gives this URI.
    pub(super) fn matches(&self, uri: &str) -> Option<Variables> {
        let mut rest = uri.strip_prefix(&*self.first)?;
        let mut variables = Variables::new();
        let (before, after) = self.places.split_at(self.reserved.unwrap_or(self.places.len()));
        for (place, (name, literal)) in before.iter().enumerate() {
            let end = if place + 1 == self.places.len() {
                rest.len().checked_sub(literal.len()).filter(|_| rest.ends_with(&**literal))?
            } else {
                // A value has at least one character.
                1 + memmem::find(rest.as_bytes().get(1..)?, literal.as_bytes())?
            };
            variables.insert(name.to_string(), simple(rest.get(..end)?)?);
            rest = rest.get(end + literal.len()..)?;
        }
        let Some((name, literal)) = after.first() else {
            return rest.is_empty().then_some(variables);
        };
        for ((_, left), (name, right)) in after.iter().zip(after.iter().skip(1)).rev() {
            rest = rest.strip_suffix(&**right)?;
            // A value has at least one character.
            let searched = rest.as_bytes().get(..rest.len().checked_sub(1)?)?;
            let start = memmem::rfind(searched, left.as_bytes())? + left.len();
            variables.insert(name.to_string(), simple(rest.get(start..)?)?);
            rest = rest.get(..start)?;
        }
        let value = rest.strip_suffix(&**literal).filter(|value| !value.is_empty())?;
        variables.insert(name.to_string(), decoded(value)?);
        Some(variables)
    }
}

/// Returns the decoded value of `{name}`.
fn simple(value: &str) -> Option<String> {
    if value.is_empty() || value.contains(['/', '?', '#']) { None } else { decoded(value) }
}

/// Decodes percent-encoding. `None` if the result is not UTF-8.
pub(super) fn decoded(value: &str) -> Option<String> {
    if !value.contains('%') {
        return Some(value.to_owned());
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = rest.get(2..)?;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        let template = Template::parse(template).expect("a template");
        template.matches(uri).map(|variables| variables.into_iter().collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn values_stand_between_literals() {
        assert_eq!(matched("note:///{id}", "note:///7"), pairs(&[("id", "7")]));
        assert_eq!(matched("note:///{id}.txt", "note:///a.txt.txt"), pairs(&[("id", "a.txt")]));
        assert_eq!(matched("x://{a}/{b}-{c}", "x://1/2-3-4"), pairs(&[("a", "1"), ("b", "2"), ("c", "3-4")]));
        assert_eq!(matched("x://{a}", "x://caf%C3%A9%2F"), pairs(&[("a", "café/")]));
        assert_eq!(matched("x://fixed", "x://fixed"), pairs(&[]));
    }

    #[test]
    fn what_does_not_fit_does_not_match() {
        for (template, uri) in [
            ("note:///{id}", "note:///"),
            ("note:///{id}", "note:///a/b"),
            ("note:///{id}", "note:///a?b"),
            ("note:///{id}", "other:///a"),
            ("x://{a}/{b}", "x://1"),
            ("x://{a}", "x://%ZZ"),
            ("x://{a}", "x://%+1"),
            ("x://{a}", "x://%FF"),
            ("x://{a}", "x://%4"),
            ("x://fixed", "x://fixed/more"),
            ("{a}", "é/"),
        ] {
            assert_eq!(matched(template, uri), None, "{template} {uri}");
        }
        assert_eq!(matched("{a}-b", "é-b"), pairs(&[("a", "é")]));
    }

    #[test]
    fn a_value_with_a_plus_contains_every_character() {
        assert_eq!(matched("file:///{+path}", "file:///a/b?c#d"), pairs(&[("path", "a/b?c#d")]));
        assert_eq!(matched("file:///{+path}", "file:///a%20b"), pairs(&[("path", "a b")]));
        assert_eq!(matched("file:///{+path}", "file:///"), None);
        assert_eq!(matched("x://{+path}/{name}", "x://a/b/c"), pairs(&[("name", "c"), ("path", "a/b")]));
        assert_eq!(
            matched("x://{host}/{+path}@{tag}.zip", "x://h/a/b@c@d.zip"),
            pairs(&[("host", "h"), ("path", "a/b@c"), ("tag", "d")])
        );
        assert_eq!(
            matched("{+path}/{a}-{b}.x", "p/1-2-3.x"),
            pairs(&[("a", "1-2"), ("b", "3"), ("path", "p")]),
            "what stands behind it is searched from the end"
        );
        for (template, uri) in [
            ("x://{host}/{+path}@{tag}", "x://h/@d"),
            ("x://{host}/{+path}@{tag}", "x://h/a@d/e"),
            ("x://{+path}/{name}", "x://a/"),
            ("x://{+path}/{name}", "x://a"),
            ("x://{+path}!", "x://a"),
            ("x://{a}--{+path}", "x://é-"),
            ("{+path}/{a}", "/é"),
        ] {
            assert_eq!(matched(template, uri), None, "{template} {uri}");
        }
    }

    /// Tries every way to divide the text.
    fn divides(places: &[(bool, Box<str>)], rest: &str) -> bool {
        let Some(((is_reserved, literal), others)) = places.split_first() else { return rest.is_empty() };
        (1..=rest.len()).any(|end| {
            let (value, after) = rest.split_at(end);
            let fits = *is_reserved || !value.contains('/');
            fits && after.strip_prefix(&**literal).is_some_and(|after| divides(others, after))
        })
    }

    #[test]
    fn a_match_is_found_if_there_is_one() {
        let mut uris = vec![String::new()];
        let mut first = 0;
        for _ in 0..8 {
            let end = uris.len();
            for shorter in first..end {
                for next in ["a", "/", "-"] {
                    uris.push(format!("{}{next}", uris[shorter]));
                }
            }
            first = end;
        }
        for text in [
            "{a}/-/{b}",
            "{a}--{b}/-{c}",
            "{a}/{+b}",
            "{+b}/{a}",
            "{a}-/{+b}-/{c}",
            "{a}/-/{+b}-",
            "{+b}-/-{c}",
            "{+b}--{c}-{d}/",
            "{a}-{+b}-a-{c}",
        ] {
            let template = Template::parse(text).expect("a template");
            let reserved = |place| template.reserved == Some(place);
            let places: Vec<(bool, Box<str>)> = template
                .places
                .iter()
                .enumerate()
                .map(|(place, (_, literal))| (reserved(place), literal.clone()))
                .collect();
            for uri in &uris {
                assert_eq!(template.matches(uri).is_some(), divides(&places, uri), "{text} {uri}");
            }
        }
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for text in [
            "x://{",
            "x://}",
            "x://{}",
            "x://{+}",
            "x://{+a}/{+b}",
            "x://{+a}/{a}",
            "x://{+a}{b}",
            "x://{a}{b}",
            "x://{#a}",
            "x://{?q}",
            "x://{a}/{a}",
            "{a}}",
        ] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn matching_takes_time_linear_in_the_uri() {
        let template = Template::parse("x://{a}--{b}--{c}--{d}!").expect("a template");
        let uri = format!("x://{}", "-".repeat(4 * 1024 * 1024));
        assert_eq!(template.matches(&uri), None);
        let template = Template::parse("x://{a}--{+b}--{c}--{d}").expect("a template");
        assert!(template.matches(&uri).is_some());
        let uri = format!("x://{}", "/-".repeat(2 * 1024 * 1024));
        assert_eq!(template.matches(&uri), None);
    }
}
