//! The address of a server that is reached over HTTP: `http(s)://...`, and `sse+http(s)://...` for HTTP+SSE without
//! detection.

use std::fmt;

use mcpjoin::proto::http::origin::{Origin, OriginError};

/// Where a server is, and by which transport it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Http {
    /// The URL with the scheme `http` or `https`. It names no user: see [`Http::parse`].
    pub(crate) url: String,
    /// The HTTP+SSE of 2024-11-05, and nothing else is tried.
    pub(crate) sse: bool,
}

impl Http {
    /// The address that a word names; otherwise what is wrong with it, without repeating what may be a secret in it.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let (scheme, rest) = word.split_once(':').unwrap_or((word, ""));
        let scheme = scheme.to_ascii_lowercase();
        let (sse, scheme) = match scheme.strip_prefix("sse+") {
            Some(scheme) => (true, scheme),
            None => (false, scheme.as_str()),
        };
        // What stands behind a `#` is never sent.
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let url = format!("{scheme}:{rest}");
        match Origin::of(&url) {
            Ok(_) => Ok(Self { url, sse }),
            Err(error) => Err(match error {
                OriginError::UserInfo => {
                    "leave the user and the password out: they would be sent where the URL leads".into()
                }
                error => format!("write http://host:port/path ({error})"),
            }),
        }
    }
}

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sse = if self.sse { "sse+" } else { "" };
        write!(f, "{sse}{}", self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::Http;

    #[test]
    fn an_address_is_a_url_without_a_user() {
        for (word, url, sse) in [
            ("http://localhost/mcp", "http://localhost/mcp", false),
            ("HTTPS://example.com", "https://example.com", false),
            ("http://[::1]:8080/mcp?a=b#part", "http://[::1]:8080/mcp?a=b", false),
            ("sse+http://localhost:1/sse", "http://localhost:1/sse", true),
            ("SSE+https://localhost/sse", "https://localhost/sse", true),
        ] {
            assert_eq!(Http::parse(word), Ok(Http { url: url.into(), sse }), "{word}");
        }
        assert_eq!(Http::parse("sse+http://h/x").unwrap().to_string(), "sse+http://h/x");
        for word in ["http:", "http://", "http:///mcp", "http://h:x/", "http://h:0", "http://a b/", "ftp://h"]
        {
            assert!(Http::parse(word).is_err(), "{word}");
        }
        for word in ["http://me:hunter2@h/", "sse+https://hunter2@h/sse"] {
            let problem = Http::parse(word).unwrap_err();
            assert!(problem.contains("password") && !problem.contains("hunter2"), "{problem}");
        }
    }
}
