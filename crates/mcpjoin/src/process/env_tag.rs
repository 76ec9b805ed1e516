//! The tag that every descendant of a child carries in its environment.
//!
//! Used by `spawn`, which sets it, and by `tree`, which searches for it. A process can leave its process group by `setsid`, and
//! it loses its parent when the parent exits first. The environment that it was started with stays. So each child gets a
//! variable whose value all its descendants inherit, and the tags of all children of one process have a common prefix.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::command::Spec;

/// The longest value of the variable, in bytes: enough for about 20 nested processes that use this library.
const MAX_VALUE_BYTES: usize = 1024;
const SEPARATOR: u8 = b':';

/// The variable. Its value is a list, because a child may use this library itself.
pub(super) const VARIABLE: &str = "MCPJOIN_CHILD";

/// A tag, or a prefix of tags, that is unique on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnvTag {
    /// The tag of one child and its descendants.
    Child(String),
    /// The common prefix of the tags of all children of one process.
    Children(String),
}

impl EnvTag {
    /// The prefix of the tags of our own children.
    pub(super) fn of_ours() -> Self {
        static OURS: OnceLock<String> = OnceLock::new();
        let ours = OURS.get_or_init(|| {
            let random = RandomState::new().build_hasher().finish();
            format!("{}-{random:016x}-", std::process::id())
        });
        Self::Children(ours.clone())
    }

    /// A new tag for one child.
    pub(super) fn of_a_child() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let ours = Self::of_ours();
        Self::Child(format!("{}{}", ours.as_str(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The prefix of another process's children, as [`EnvTag::as_str`] of [`EnvTag::of_ours`] returned it there.
    pub(super) fn of_children(name: &str) -> Option<Self> {
        let (pid, random) = name.strip_suffix('-')?.split_once('-')?;
        let hexadecimal = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        (pid.parse::<u32>().is_ok() && hexadecimal).then(|| Self::Children(name.into()))
    }

    pub(super) fn as_str(&self) -> &str {
        let (Self::Child(name) | Self::Children(name)) = self;
        name
    }

    /// The value of the child's variable: the tags of our ancestors, then its own.
    pub(super) fn value(&self, spec: &Spec) -> OsString {
        let mut value = spec.variable(VARIABLE).map(OsString::into_vec).unwrap_or_default();
        if value.len() + self.as_str().len() >= MAX_VALUE_BYTES {
            value.clear();
        }
        if !value.is_empty() {
            value.push(SEPARATOR);
        }
        value.extend_from_slice(self.as_str().as_bytes());
        OsString::from_vec(value)
    }

    /// The value of the variable in an environment, as `/proc` shows it.
    pub(super) fn value_in(environment: &[u8]) -> Option<&[u8]> {
        environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))
    }

    /// Whether the list in a variable contains it.
    pub(super) fn is_in(&self, names: &[u8]) -> bool {
        names.split(|byte| *byte == SEPARATOR).any(|name| match self {
            Self::Child(own) => name == own.as_bytes(),
            Self::Children(beginning) => name.starts_with(beginning.as_bytes()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tag: &EnvTag, environment: &[u8]) -> bool {
        EnvTag::value_in(environment).is_some_and(|names| tag.is_in(names))
    }

    #[test]
    fn a_name_is_found_in_a_list_and_only_whole() {
        let tag = EnvTag::Child("12-ab-0".into());
        assert!(found(&tag, b"A=1\0MCPJOIN_CHILD=9-9-9:12-ab-0\0B=2"));
        assert!(found(&tag, b"MCPJOIN_CHILD=12-ab-0:1-1-1"));
        assert!(!found(&tag, b"MCPJOIN_CHILD=12-ab-01"));
        assert!(!found(&tag, b"XMCPJOIN_CHILD=12-ab-0"));
    }

    #[test]
    fn all_children_of_one_process_are_found_and_no_other() {
        let ours = EnvTag::of_ours();
        let (one, other) = (EnvTag::of_a_child(), EnvTag::of_a_child());
        assert_ne!(one, other);
        for child in [&one, &other] {
            assert!(found(&ours, format!("A=1\0MCPJOIN_CHILD=9-9-9:{}", child.as_str()).as_bytes()));
        }
        let theirs = "1-0123456789abcdef-";
        assert!(!found(&ours, format!("MCPJOIN_CHILD={theirs}0").as_bytes()));
        assert_eq!(EnvTag::of_children(ours.as_str()), Some(ours));
        assert_eq!(EnvTag::of_children(theirs), Some(EnvTag::Children(theirs.into())));
        // These include prefixes that other tags could have.
        for no in ["", "-", "1-", "1--", "1-0123456789abcde-", "1-0123456789abcdef", "x-0123456789abcdef-"] {
            assert_eq!(EnvTag::of_children(no), None, "{no}");
        }
    }
}
