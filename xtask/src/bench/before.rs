//! Our programs of another checkout, measured beside this one's in the same turns. Called by `cargo xtask bench --before CHECKOUT`.
//!
//! It answers whether a change has made something slower. The load generator, the floor and the peers are this checkout's.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::peers::{self, Candidate, Peers};

/// The programs of `bench/` that are built on the library.
const OURS: [&str; 2] = ["ours-client", "ours-server"];

/// Our programs of another checkout.
pub(super) struct Before {
    /// Each program of ours, and the other checkout's program that stands in its place.
    programs: Vec<(PathBuf, PathBuf)>,
}

impl Before {
    /// Builds the programs of another checkout.
    pub(super) fn build(checkout: &Path, peers: &Peers) -> Result<Self> {
        let checkout =
            checkout.canonicalize().with_context(|| format!("no checkout at {}", checkout.display()))?;
        let (mcpjoin, folder) = peers::build(&checkout)?;
        let own = OURS.map(|name| (peers.path(name), folder.join(name)));
        let programs = own.into_iter().chain([(peers.mcpjoin().to_owned(), mcpjoin)]).collect();
        Ok(Self { programs })
    }

    /// Adds to each candidate that runs a program of ours the same candidate with the other checkout's program.
    pub(super) fn add_to(&self, candidates: &mut Vec<Candidate>) {
        *candidates = std::mem::take(candidates)
            .into_iter()
            .flat_map(|candidate| {
                let other = self.twin(&candidate);
                std::iter::once(candidate).chain(other)
            })
            .collect();
    }

    fn twin(&self, candidate: &Candidate) -> Option<Candidate> {
        let mut twin = candidate.clone();
        let mut changed = false;
        for word in &mut twin.command {
            for (ours, other) in &self.programs {
                let (ours, other) = (ours.to_string_lossy(), other.to_string_lossy());
                if *word == ours {
                    *word = other.into_owned();
                    changed = true;
                    break;
                }
            }
        }
        twin.name = format!("{}, before", candidate.name).into();
        changed.then_some(twin)
    }
}

#[cfg(test)]
mod tests {
    use super::super::peers::candidate;
    use super::Before;

    #[test]
    fn what_runs_our_programs_is_measured_twice() {
        let programs = vec![("/a/mcpjoin".into(), "/b/mcpjoin".into())];
        let before = Before { programs };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut candidates = vec![
            candidate("floor", words(&["/a/floor"])),
            candidate("ours", words(&["/a/mcpjoin", "list", "/a/floor"])),
        ];
        before.add_to(&mut candidates);
        let rows: Vec<_> = candidates.iter().map(|row| (&*row.name, row.command.join(" "))).collect();
        assert_eq!(
            rows,
            [
                ("floor", "/a/floor".to_owned()),
                ("ours", "/a/mcpjoin list /a/floor".to_owned()),
                ("ours, before", "/b/mcpjoin list /a/floor".to_owned()),
            ]
        );
    }
}
