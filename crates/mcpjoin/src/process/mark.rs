//! The name that everything below a child carries in its environment.
//!
//! A process group is left by `setsid`, and parentage is lost when the parent ends first; what stays is the
//! environment that a process was started with. So each child gets a variable of its own, which everything that it
//! starts inherits, and the names of all children of one process begin alike.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::command::Spec;

/// The longest value of the variable, in bytes: some 20 of our processes below one another.
const LONGEST: usize = 1024;
const SEPARATOR: u8 = b':';

/// The variable. Its value is a list: a child may use this library itself.
pub(super) const VARIABLE: &str = "MCPJOIN_CHILD";

/// A name, or how names begin, that nobody else on this machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Of one child and of everything below it.
    Child(String),
    /// Of all children of one process: what their names begin with.
    Children(String),
}

impl Mark {
    /// What the names of all our children begin with.
    pub(super) fn of_ours() -> Self {
        static OURS: OnceLock<String> = OnceLock::new();
        let ours = OURS.get_or_init(|| {
            let random = RandomState::new().build_hasher().finish();
            format!("{}-{random:016x}-", std::process::id())
        });
        Self::Children(ours.clone())
    }

    /// A name for one child more.
    pub(super) fn of_a_child() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let ours = Self::of_ours();
        Self::Child(format!("{}{}", ours.as_str(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// What the names of another process's children begin with, as [`Mark::as_str`] of [`Mark::of_ours`] said there.
    pub(super) fn of_children(name: &str) -> Option<Self> {
        let (pid, random) = name.strip_suffix('-')?.split_once('-')?;
        let hexadecimal = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        (pid.parse::<u32>().is_ok() && hexadecimal).then(|| Self::Children(name.into()))
    }

    pub(super) fn as_str(&self) -> &str {
        let (Self::Child(name) | Self::Children(name)) = self;
        name
    }

    /// What the child's variable holds: the names of those above us, then its own.
    pub(super) fn value(&self, spec: &Spec) -> OsString {
        let mut value = spec.variable(VARIABLE).map(OsString::into_vec).unwrap_or_default();
        if value.len() + self.as_str().len() >= LONGEST {
            value.clear();
        }
        if !value.is_empty() {
            value.push(SEPARATOR);
        }
        value.extend_from_slice(self.as_str().as_bytes());
        OsString::from_vec(value)
    }

    /// What the variable holds in an environment, as `/proc` shows it.
    pub(super) fn held_in(environment: &[u8]) -> Option<&[u8]> {
        environment
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))
    }

    /// Whether it is in the list that a variable holds.
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

    fn found(mark: &Mark, environment: &[u8]) -> bool {
        Mark::held_in(environment).is_some_and(|names| mark.is_in(names))
    }

    #[test]
    fn a_name_is_found_in_a_list_and_only_whole() {
        let mark = Mark::Child("12-ab-0".into());
        assert!(found(&mark, b"A=1\0MCPJOIN_CHILD=9-9-9:12-ab-0\0B=2"));
        assert!(found(&mark, b"MCPJOIN_CHILD=12-ab-0:1-1-1"));
        assert!(!found(&mark, b"MCPJOIN_CHILD=12-ab-01"));
        assert!(!found(&mark, b"XMCPJOIN_CHILD=12-ab-0"));
    }

    #[test]
    fn all_children_of_one_process_are_found_and_nobody_else() {
        let ours = Mark::of_ours();
        let (one, other) = (Mark::of_a_child(), Mark::of_a_child());
        assert_ne!(one, other);
        for child in [&one, &other] {
            assert!(found(&ours, format!("A=1\0MCPJOIN_CHILD=9-9-9:{}", child.as_str()).as_bytes()));
        }
        let theirs = "1-0123456789abcdef-";
        assert!(!found(&ours, format!("MCPJOIN_CHILD={theirs}0").as_bytes()));
        assert_eq!(Mark::of_children(ours.as_str()), Some(ours));
        assert_eq!(Mark::of_children(theirs), Some(Mark::Children(theirs.into())));
        // Nothing that would be in other names, too.
        for no in ["", "-", "1-", "1--", "1-0123456789abcde-", "1-0123456789abcdef", "x-0123456789abcdef-"] {
            assert_eq!(Mark::of_children(no), None, "{no}");
        }
    }
}
