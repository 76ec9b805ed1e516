//! Parses versions in the output of programs.

use semver::Version;

/// The first version in a text: numbers separated by dots, outside parentheses. A distribution's suffix
/// (`1.22.1-9+deb12u7`, `2.39.5 (Apple Git-154)`) is not part of it, and missing numbers are 0.
pub(super) fn first(text: &str) -> Option<Version> {
    let mut depth = 0_usize;
    let outside: String = text
        .chars()
        .map(|c| {
            depth = if c == '(' { depth + 1 } else { depth };
            let shown = if depth == 0 { c } else { ' ' };
            depth = if c == ')' { depth.saturating_sub(1) } else { depth };
            shown
        })
        .collect();
    outside.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(dotted)
}

/// Parses `1.22`, `1.22.1` and `1.22.1.4`; a single number is not a version.
fn dotted(text: &str) -> Option<Version> {
    let mut numbers = text.trim_matches('.').split('.').map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let patch = numbers.next().transpose().ok()?.unwrap_or(0);
    Some(Version::new(major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::{Version, first};

    #[test]
    fn versions_are_read_as_programs_print_them() {
        let known = [
            ("nginx version: nginx/1.22.1\n", (1, 22, 1)),
            ("nginx version: nginx/1.18.0 (Ubuntu)", (1, 18, 0)),
            ("cc (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022", (12, 2, 0)),
            ("cc (Ubuntu 13.2.0-23ubuntu4) 13.2.0", (13, 2, 0)),
            ("Debian clang version 14.0.6\nTarget: x86_64", (14, 0, 6)),
            ("script from util-linux 2.38.1\n", (2, 38, 1)),
            ("script from util-linux 2.39", (2, 39, 0)),
            ("git version 2.39.5 (Apple Git-154)", (2, 39, 5)),
            ("git version 2.39.5.windows.1.", (2, 39, 5)),
            ("cargo-mutants 27.1.0", (27, 1, 0)),
            ("v20.20.2", (20, 20, 2)),
        ];
        for (text, (major, minor, patch)) in known {
            assert_eq!(first(text), Some(Version::new(major, minor, patch)), "{text}");
        }
    }

    #[test]
    fn what_has_no_version_has_none() {
        for text in ["", "nginx", "a 7 b", "(1.2.3)", "...", "1.", "99999999999999999999.1"] {
            assert_eq!(first(text), None, "{text}");
        }
    }
}
