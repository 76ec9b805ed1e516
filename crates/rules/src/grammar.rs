//! Grammars of strings: URIs, URI templates, media types, Base64, timestamps, names in `_meta`.

/// Whether a text is a URI with a scheme ([RFC 3986](https://www.rfc-editor.org/rfc/rfc3986)): checks the scheme and the
/// characters.
pub(crate) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let good_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    good_scheme && is_percent_encoded(rest) && rest.bytes().all(is_uri_byte) && rest.matches('#').count() <= 1
}

/// Whether a byte is unreserved, reserved, or the percent sign.
fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)
}

/// Whether two hexadecimal digits follow each percent sign.
fn is_percent_encoded(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

/// The problem of a URI template ([RFC 6570](https://www.rfc-editor.org/rfc/rfc6570#section-2)).
pub(crate) fn template_fault(text: &str) -> Option<&'static str> {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find('{').unwrap_or(rest.len());
        let (literal, after) = rest.split_at(end);
        if literal.chars().any(|character| character.is_ascii_control() || " \"'<>\\^`|}".contains(character))
            || !is_percent_encoded(literal)
        {
            return Some("a character outside braces that is not allowed");
        }
        if after.is_empty() {
            return None;
        }
        let Some(close) = after.find('}') else { return Some("a `{` without its `}`") };
        if !is_expression(&after[1..close]) {
            return Some("an invalid expression");
        }
        rest = &after[close + 1..];
    }
    None
}

fn is_expression(text: &str) -> bool {
    let names = text.strip_prefix(|first| "+#./;?&=,!@|".contains(first)).unwrap_or(text);
    names.split(',').all(|name| {
        let name = match name.split_once(':') {
            Some((name, length)) => {
                let good = (1..=4).contains(&length.len())
                    && length.bytes().all(|byte| byte.is_ascii_digit())
                    && !length.starts_with('0');
                if !good {
                    return false;
                }
                name
            }
            None => name.strip_suffix('*').unwrap_or(name),
        };
        is_percent_encoded(name)
            && name.split('.').all(|part| {
                !part.is_empty()
                    && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_%".contains(&byte))
            })
    })
}

/// The names of the variables of a URI template.
#[must_use]
pub fn template_variables(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in text.split('{').skip(1) {
        let Some((expression, _)) = part.split_once('}') else { continue };
        let expression = expression.strip_prefix(|first| "+#./;?&".contains(first)).unwrap_or(expression);
        names.extend(expression.split(',').map(|name| {
            let name = name.split(':').next().unwrap_or_default();
            name.strip_suffix('*').unwrap_or(name).to_owned()
        }));
    }
    names
}

/// Whether a text is a type and a subtype, with parameters or without
/// ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-8.3.1)).
pub(crate) fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// Whether a text is Base64 ([RFC 4648](https://www.rfc-editor.org/rfc/rfc4648#section-4)): its alphabet and its padding.
pub(crate) fn is_base64(text: &str) -> bool {
    let data = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    text.len().is_multiple_of(4)
        && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

/// Whether a text is a `traceparent`: version, trace, parent and flags in lower-case hexadecimal digits
/// ([W3C](https://www.w3.org/TR/trace-context/#traceparent-header)).
pub(crate) fn is_trace_parent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &str, length: usize| {
        part.len() == length
            && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let [version, trace, parent, flags, more @ ..] = parts.as_slice() else { return false };
    // Later versions may append more.
    let as_long = *version != "00" || more.is_empty();
    is_hex(version, 2)
        && *version != "ff"
        && is_hex(trace, 32)
        && is_hex(parent, 16)
        && is_hex(flags, 2)
        && as_long
        && [trace, parent].iter().all(|part| part.bytes().any(|byte| byte != b'0'))
}

/// Whether a text may be a time of ISO 8601: a year, followed by characters that such a time may have. The many forms of
/// ISO 8601 are not checked further.
pub(crate) fn may_be_time(text: &str) -> bool {
    text.len() >= 4
        && text.as_bytes()[..4].iter().all(u8::is_ascii_digit)
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"-:TtZzW+., ".contains(&byte))
}

/// The problem of the name of a member of `_meta`.
pub(crate) fn meta_key_fault(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    if let Some(prefix) = prefix {
        let is_label = |label: &str| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(u8::is_ascii_alphabetic)
                && is_edge(bytes.last())
                && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        };
        if !prefix.split('.').all(is_label) {
            return Some("its prefix is not a series of labels separated by dots");
        }
    }
    let bytes = name.as_bytes();
    let good = name.is_empty()
        || is_edge(bytes.first())
            && is_edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    (!good).then_some(
        "its name contains characters that are not allowed, or does not begin and end with a \
        letter or digit",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_templates_are_distinguished_from_other_text() {
        for good in ["file:///a%20b", "demo:x", "https://[::1]/a?b=c#d", "urn:a:b", "memo://insights"] {
            assert!(is_uri(good), "{good}");
        }
        for bad in ["", "a/b", "1a:b", "file:///a b", "file:///ä", "a:%2", "a:{b}"] {
            assert!(!is_uri(bad), "{bad}");
        }
        for good in ["file:///{path}", "a:{+b,c*}{?d:3}", "a", "x://ä/{a.b_c}", "a://%20{%41}"] {
            assert_eq!(template_fault(good), None, "{good}");
        }
        for bad in ["a:{b", "a:b}", "a:{}", "a:{b c}", "a: b", "a:{b:0}", "a:{b:}"] {
            assert!(template_fault(bad).is_some(), "{bad}");
        }
        assert_eq!(template_variables("a:{+b,c*}/{?d:3}"), ["b", "c", "d"]);
    }

    #[test]
    fn words_of_fixed_shape_are_distinguished_from_others() {
        assert!(is_media_type("text/plain; charset=utf-8") && is_media_type("image/svg+xml"));
        assert!(!is_media_type("png") && !is_media_type("/png") && !is_media_type("text/"));
        assert!(is_base64("") && is_base64("YQ==") && is_base64("YWI=") && is_base64("YWJj"));
        assert!(!is_base64("YQ") && !is_base64("Y-_=") && !is_base64("Y===") && !is_base64("YQ=\n"));
        assert!(
            may_be_time("2025-01-12T15:00:58Z") && may_be_time("2025-01-12") && !may_be_time("yesterday")
        );
        for good in
            ["a", "a_b.c-d", "com.example/", "com.example/a", "io.modelcontextprotocol/serverInfo", "a-1.b/2"]
        {
            assert_eq!(meta_key_fault(good), None, "{good}");
        }
        for bad in ["_a", "a b", "1com/a", "com./a", "-a/b", "a/b/c", "com.example/-a"] {
            assert!(meta_key_fault(bad).is_some(), "{bad:?}");
        }
    }
}
