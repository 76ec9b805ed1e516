//! `cargo xtask public-api`: compares what the library's crates make public with the committed lists, so that no change of
//! the public interface goes unnoticed. Called by `cargo xtask test`.
//!
//! The lists come from rustdoc's JSON, which stable toolchains write only when `RUSTC_BOOTSTRAP` is set. The crate
//! `public-api` reads one version of that format: of the Rust that CI uses.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use public_api::PublicItem;

use crate::steps::{cargo, stdout, succeed};

/// The crates that programs depend on, each with the features of its documentation.
const CRATES: [(&str, &str); 2] =
    [("mcpjoin", "http-client,http-server,json-schema,otel,testing"), ("mcpjoin-proto", "")];

/// How many differing lines an error shows.
const MAX_SHOWN: usize = 20;

/// Compares each list with the committed one, or overwrites it.
pub(crate) fn run(root: &Path, write: bool) -> Result<()> {
    let rustdoc = rustdoc(root)?;
    let mut changed = Vec::new();
    for (package, features) in CRATES {
        let Listed { items, implemented } = list(root, &rustdoc, package, features)?;
        let path = root.join("crates").join(folder(package)).join("public-api.txt");
        let text = items.iter().map(|item| format!("{item}\n")).collect::<String>();
        let (types, functions) = (count(&items, &TYPES), count(&items, &FUNCTIONS));
        println!(
            "    {package}: {} items, {types} types, {} functions of its own, {implemented} that implement traits",
            items.len(),
            functions - implemented,
        );
        if write {
            fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
            continue;
        }
        let listed = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        changed.extend(differences(&listed, &text).into_iter().map(|line| format!("{package}: {line}")));
    }
    if changed.is_empty() {
        return Ok(());
    }
    let more = changed.len().saturating_sub(MAX_SHOWN);
    changed.truncate(MAX_SHOWN);
    if more > 0 {
        changed.push(format!("and {more} more"));
    }
    bail!(
        "the public interface has changed:\n    {}\n    if this is on purpose: `cargo xtask public-api --write`",
        changed.join("\n    ")
    )
}

const TYPES: [&str; 4] = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
const FUNCTIONS: [&str; 4] = ["pub fn ", "pub const fn ", "pub async fn ", "pub unsafe fn "];

fn count(items: &[String], starts: &[&str]) -> usize {
    let plain = items.iter().map(|item| item.strip_prefix("#[non_exhaustive] ").unwrap_or(item));
    plain.filter(|item| starts.iter().any(|start| item.starts_with(start))).count()
}

fn folder(package: &str) -> &str {
    package.strip_prefix("mcpjoin-").unwrap_or(package)
}

/// The public items of a crate.
struct Listed {
    /// Sorted, each once.
    items: Vec<String>,
    /// The number of functions among them that implement a function of a trait, which a reader finds at the trait.
    implemented: usize,
}

/// Lists the public items of a crate, without the implementations that the compiler adds to each type.
fn list(root: &Path, rustdoc: &Path, package: &str, features: &str) -> Result<Listed> {
    let arguments = ["rustdoc", "--quiet", "--lib", "--package", package, "--features", features];
    let mut command = cargo(root, &arguments);
    command.args(["--", "-Z", "unstable-options", "--output-format", "json"]).env("RUSTDOC", rustdoc);
    succeed(&mut command)?;
    let json = target(root).join("doc").join(format!("{}.json", package.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("{} is of another Rust than xtask reads", json.display()))?;
    let implementations: HashSet<_> =
        api.items().filter(|item| implements_trait(&item.to_string())).map(PublicItem::id).collect();
    let implemented = api
        .items()
        .filter(|item| item.parent_id().is_some_and(|parent| implementations.contains(&parent)))
        .map(ToString::to_string)
        .collect::<HashSet<_>>();
    let mut items: Vec<String> = api.items().map(ToString::to_string).collect();
    items.sort_unstable();
    items.dedup();
    let implemented = count(&implemented.into_iter().collect::<Vec<_>>(), &FUNCTIONS);
    Ok(Listed { items, implemented })
}

/// Whether an item is the head of an implementation of a trait.
fn implements_trait(item: &str) -> bool {
    item.starts_with("impl") && item.contains(" for ")
}

/// Writes a program that runs rustdoc with its unstable options. Set for rustdoc alone: set for cargo, the variable would
/// compile the dependencies again.
fn rustdoc(root: &Path) -> Result<PathBuf> {
    let real = std::env::var("RUSTDOC").unwrap_or_else(|_| "rustdoc".to_owned());
    let folder = target(root).join("public-api");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join("rustdoc");
    fs::write(&path, format!("#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec '{real}' \"$@\"\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    // Checks that it starts, before cargo says less about it.
    stdout(std::process::Command::new(&path).arg("--version"))?;
    Ok(path)
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Returns the lines that only one of the two sorted lists has.
fn differences(listed: &str, found: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (listed.lines().collect(), found.lines().collect());
    let removed = old.iter().filter(|line| new.binary_search(line).is_err()).map(|line| format!("- {line}"));
    let added = new.iter().filter(|line| old.binary_search(line).is_err()).map(|line| format!("+ {line}"));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, TYPES, count, differences, implements_trait};

    #[test]
    fn removed_and_added_items_are_named() {
        assert_eq!(differences("a\nb\nc\n", "a\nc\nd\n"), ["- b", "+ d"]);
        assert!(differences("a\n", "a\n").is_empty());
    }

    #[test]
    fn types_and_functions_are_counted() {
        let items = [
            "pub fn a::b()",
            "#[non_exhaustive] pub struct a::C",
            "impl a::C",
            "pub async fn a::C::d(&self)",
        ];
        let items = items.map(str::to_owned);
        assert_eq!((count(&items, &TYPES), count(&items, &FUNCTIONS)), (1, 2));
        assert!(implements_trait("impl<T: a::B> core::fmt::Debug for a::C<T>"));
        assert!(
            !implements_trait("impl<T> a::C<T> where T: for<'a> a::B<'a>")
                && !implements_trait("pub fn a::b()")
        );
    }
}
