//! `allowed_tools` and `disabled_tools`: which tools of a server may be listed and called, in every verb.

use glob::Pattern;

use super::source::Problem;
use super::tree::Text;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::shown;

/// The longest pattern. Names of tools are shorter.
const MAX_PATTERN_BYTES: usize = 256;

/// Which tools may be used. A tool that is both allowed and disabled is disabled. Without allowed tools all are allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolFilter {
    allowed: Vec<Pattern>,
    disabled: Vec<Pattern>,
}

impl ToolFilter {
    /// Reads the patterns.
    ///
    /// # Errors
    /// When a pattern is invalid.
    pub(super) fn new<'a>(
        allowed: impl IntoIterator<Item = &'a Text>,
        disabled: impl IntoIterator<Item = &'a Text>,
    ) -> Result<Self, Problem> {
        Ok(Self {
            allowed: allowed.into_iter().map(pattern).collect::<Result<_, _>>()?,
            disabled: disabled.into_iter().map(pattern).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the tool of that name may be listed and called.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        let among = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(tool));
        !among(&self.disabled) && (self.allowed.is_empty() || among(&self.allowed))
    }

    /// Whether every tool may be.
    pub(crate) const fn allows_all(&self) -> bool {
        self.allowed.is_empty() && self.disabled.is_empty()
    }

    /// A tool that may not be called is a failure before anything is started.
    pub(crate) fn permit(&self, tool: &str) -> Result<(), Failure> {
        if self.allows(tool) {
            return Ok(());
        }
        let message = format!("the configuration does not allow the tool {}", shown(tool.as_ref()));
        Err(Failure::new("E_NOT_ALLOWED", Exit::Usage, Phase::Usage, message)
            .hint("see allowed_tools and disabled_tools of this entry"))
    }
}

/// Parses a pattern. An invalid one is refused, since a pattern that never matches would disable nothing.
fn pattern(text: &Text) -> Result<Pattern, Problem> {
    let bad = |why: &str| Problem::new(text.at, format!("this tool pattern is invalid: {why}"));
    if text.text.len() > MAX_PATTERN_BYTES {
        return Err(bad("it is longer than the limit of 256 bytes"));
    }
    if text.text.is_empty() {
        return Err(bad("it is empty"));
    }
    if text.text.contains(['{', '}']) {
        return Err(bad("braces have no meaning in it: write a separate pattern for each alternative"));
    }
    Pattern::new(&text.text).map_err(|error| bad(error.msg))
}

#[cfg(test)]
mod tests {
    use super::{Text, ToolFilter};

    fn filter(allowed: &[&str], disabled: &[&str]) -> Result<ToolFilter, String> {
        let texts = |patterns: &[&str]| -> Vec<Text> {
            patterns.iter().map(|text| Text { at: 0, text: (*text).to_owned() }).collect()
        };
        ToolFilter::new(&texts(allowed), &texts(disabled)).map_err(|problem| problem.text)
    }

    #[test]
    fn f24_what_is_disabled_beats_what_is_allowed_and_nothing_allowed_is_all() {
        for (allowed, disabled, tool, expected) in [
            (&[][..], &[][..], "anything", true),
            (&["read_*"], &[], "read_file", true),
            (&["read_*"], &[], "write_file", false),
            (&["read_*"], &[], "Read_file", false),
            (&["*"], &["*_file"], "read_file", false),
            (&[], &["write_*", "delete"], "delete", false),
            (&[], &["write_*", "delete"], "deleted", true),
            (&["get-[a-c]?"], &[], "get-b1", true),
            (&["get-[!a-c]"], &[], "get-b", false),
            (&["*"], &[], "a/b.c é", true),
            (&["a*"], &[], "", false),
        ] {
            assert_eq!(
                filter(allowed, disabled).unwrap().allows(tool),
                expected,
                "{allowed:?} {disabled:?} {tool}"
            );
        }
    }

    #[test]
    fn f24_a_bad_pattern_is_an_error_and_disables_nothing_in_silence() {
        for bad in ["[", "a***", "{read,write}_*", "", &"*a".repeat(200)] {
            assert!(filter(&[bad], &[]).is_err(), "{bad}");
            assert!(filter(&[], &[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hostile_name_takes_no_time() {
        let filter = filter(&["*a*a*a*a*a*a*a*a*b"], &[]).unwrap();
        assert!(!filter.allows(&"a".repeat(10_000)));
    }
}
