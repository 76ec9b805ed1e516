//! URI templates of level 1: literal text and `{name}` ([RFC 6570, section
//! 1.2](https://www.rfc-editor.org/rfc/rfc6570#section-1.2)).
//!
//! Matching takes time linear in the length of the URI: each literal is searched once, leftmost first. This finds a
//! match if there is one, because a value contains no `/`, `?` or `#`: a literal further to the right only makes the
//! value before it longer, by characters of a later value or of the literal itself.

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
        for part in parts {
            let (name, literal) = part.split_once('}').ok_or("a `{` without its `}`")?;
            if literal.contains('}') {
                return Err("a `}` without its `{`");
            }
            if name.is_empty()
                || !name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'%'))
            {
                return Err("an expression that is not of level 1: a name alone");
            }
            if places.iter().any(|(known, _)| **known == *name) {
                return Err("a name that stands twice");
            }
            if places.last().is_some_and(|(_, literal)| literal.is_empty()) {
                return Err("two expressions with nothing between them");
            }
            places.push((name.into(), literal.into()));
        }
        Ok(Self { first: first.into(), places })
    }

    /// Returns how many bytes are literal. Of two matching templates, the one with more is more specific.
    pub(super) fn literal(&self) -> usize {
        self.first.len() + self.places.iter().map(|(_, literal)| literal.len()).sum::<usize>()
    }

    /// Returns the values for which the template gives this URI.
    pub(super) fn matches(&self, uri: &str) -> Option<Variables> {
        let mut rest = uri.strip_prefix(&*self.first)?;
        let mut variables = Variables::new();
        let last = self.places.len().saturating_sub(1);
        for (place, (name, literal)) in self.places.iter().enumerate() {
            let end = if place == last {
                rest.len().checked_sub(literal.len()).filter(|_| rest.ends_with(&**literal))?
            } else {
                // A value has at least one character.
                1 + memmem::find(rest.as_bytes().get(1..)?, literal.as_bytes())?
            };
            let value = rest.get(..end).filter(|value| !value.is_empty())?;
            if value.contains(['/', '?', '#']) {
                return None;
            }
            variables.insert(name.to_string(), decoded(value)?);
            rest = rest.get(end + literal.len()..)?;
        }
        rest.is_empty().then_some(variables)
    }
}

/// Decodes percent-encoding. `None` if the result is not UTF-8.
fn decoded(value: &str) -> Option<String> {
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
    fn what_is_no_template_of_level_one_is_refused() {
        for text in ["x://{", "x://}", "x://{}", "x://{+a}", "x://{a}{b}", "x://{?q}", "x://{a}/{a}", "{a}}"]
        {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn matching_takes_time_linear_in_the_uri() {
        let template = Template::parse("x://{a}--{b}--{c}--{d}!").expect("a template");
        let uri = format!("x://{}", "-".repeat(4 * 1024 * 1024));
        assert_eq!(template.matches(&uri), None);
    }
}
