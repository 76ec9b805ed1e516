//! Checks the dependencies against `deny.toml`: licences, duplicate versions, denied versions and sources; that none needs a
//! newer Rust than the workspace promises; and counts the packages in a build of the binary. Reads `cargo metadata`, and uses the
//! network only where a build would use it too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use semver::{Version, VersionReq};
use serde_json::Value as Json;

use crate::{oldest_rust, spdx, steps};

/// The only source of packages: crates.io, under its name in Cargo.lock.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The package with the binary, and the largest number of packages in its tree, including our own.
const BINARY: &str = "mcpjoin-cli";
const MOST_IN_TREE: usize = 336;

/// Checks the workspace, and the lock files of all.
pub(crate) fn run(root: &Path) -> Result<()> {
    lock_files(root)?;
    let policy = std::fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let policy = Policy::parse(&policy).context("deny.toml")?;
    let metadata = steps::stdout(&mut steps::cargo(
        root,
        &["metadata", "--format-version", "1", "--all-features", "--locked"],
    ))?;
    let metadata = serde_json::from_str(&metadata)?;
    let packages = packages(&metadata)?;
    let mut faults = faults(&policy, &packages)?;
    faults.extend(too_new(&packages, &oldest_rust::version(root)?)?);
    let tree = tree(&metadata, BINARY)?.len();
    if tree > MOST_IN_TREE {
        faults.push(format!("{BINARY}: {tree} packages in its tree, and {MOST_IN_TREE} are the most"));
    }
    if !faults.is_empty() {
        bail!("deny.toml is not kept:\n    {}", faults.join("\n    "));
    }
    println!(
        "    {} packages from crates.io; {tree} in the tree of {BINARY} (at most {MOST_IN_TREE})",
        packages.len()
    );
    Ok(())
}

/// Fails if the lock file of a workspace beside the main one lacks a package. Few steps build these workspaces, so an outdated file
/// would stay unnoticed. The main lock file is checked where its metadata is read.
fn lock_files(root: &Path) -> Result<()> {
    let mut files = Command::new("git");
    files.args(["ls-files", "*/Cargo.lock"]).current_dir(root);
    for file in steps::stdout(&mut files)?.lines() {
        let folder = root.join(file.trim_end_matches("Cargo.lock"));
        steps::succeed(&mut steps::cargo(&folder, &["update", "--workspace", "--locked", "--quiet"]))
            .with_context(|| format!("{file} is out of date: commit it as a build there writes it"))?;
    }
    Ok(())
}

struct Package {
    id: String,
    name: String,
    version: Version,
    licence: Option<String>,
    source: String,
    /// The oldest Rust that compiles it, if it says so.
    rust: Option<String>,
    dependencies: Vec<String>,
}

/// A package as deny.toml names it: `name`, `name@1.2.3` or `name:<requirement>`, with the reason for naming it.
struct Named {
    name: String,
    versions: VersionReq,
    reason: String,
    licences: Vec<String>,
}

struct Policy {
    licences: Vec<String>,
    exceptions: Vec<Named>,
    denied: Vec<Named>,
    skipped: Vec<Named>,
    skipped_trees: Vec<Named>,
}

impl Named {
    fn parse(entry: &toml::Value) -> Result<Self> {
        let text = |key: &str| entry.get(key).and_then(toml::Value::as_str);
        let spec = entry.as_str().or_else(|| text("crate")).context("an entry without `crate`")?;
        let (name, versions) = if let Some((name, version)) = spec.split_once('@') {
            (name, VersionReq::parse(&format!("={version}"))?)
        } else if let Some((name, requirement)) = spec.split_once(':') {
            (name, VersionReq::parse(requirement)?)
        } else {
            (spec, VersionReq::STAR)
        };
        let licences = entry.get("allow").map_or(Ok(Vec::new()), strings)?;
        let reason = text("reason").unwrap_or_default().to_owned();
        Ok(Self { name: name.to_owned(), versions, reason, licences })
    }

    fn names(&self, package: &Package) -> bool {
        self.name == package.name && self.versions.matches(&package.version)
    }
}

impl Policy {
    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let at = |section: &str, key: &str| table.get(section).and_then(|section| section.get(key));
        let named = |section: &str, key: &str| -> Result<Vec<Named>> {
            let entries = at(section, key).and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
            let entries = entries.iter().map(Named::parse).collect::<Result<Vec<_>>>()?;
            match entries.iter().find(|entry| entry.reason.is_empty() && entry.licences.is_empty()) {
                Some(entry) => bail!("{section}.{key}: `{}` has no reason", entry.name),
                None => Ok(entries),
            }
        };
        for (section, key) in
            [("sources", "unknown-registry"), ("sources", "unknown-git"), ("bans", "multiple-versions")]
        {
            if at(section, key).and_then(toml::Value::as_str) != Some("deny") {
                bail!("{section}.{key} is not \"deny\"");
            }
        }
        Ok(Self {
            licences: strings(at("licenses", "allow").context("licenses.allow is missing")?)?,
            exceptions: named("licenses", "exceptions")?,
            denied: named("bans", "deny")?,
            skipped: named("bans", "skip")?,
            skipped_trees: named("bans", "skip-tree")?,
        })
    }
}

fn strings(value: &toml::Value) -> Result<Vec<String>> {
    let array = value.as_array().context("not a list")?;
    array.iter().map(|item| item.as_str().map(str::to_owned).context("not a list of strings")).collect()
}

/// The packages that are not the project's own.
fn packages(metadata: &Json) -> Result<Vec<Package>> {
    let list =
        |key: &str| metadata.pointer(key).and_then(Json::as_array).context("cargo metadata changed its form");
    let mut edges: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in list("/resolve/nodes")? {
        let dependencies = node["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
        edges.insert(
            node["id"].as_str().context("a node without id")?,
            dependencies.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        );
    }
    let mut packages = Vec::new();
    for package in list("/packages")? {
        let text = |key: &str| package[key].as_str();
        let Some(source) = text("source") else { continue };
        let id = text("id").context("a package without id")?;
        packages.push(Package {
            id: id.to_owned(),
            name: text("name").context("a package without name")?.to_owned(),
            version: Version::parse(text("version").context("a package without version")?)?,
            licence: text("license").map(str::to_owned),
            source: source.to_owned(),
            rust: text("rust_version").map(str::to_owned),
            dependencies: edges.remove(id).unwrap_or_default(),
        });
    }
    Ok(packages)
}

/// The packages that are built with a package of the workspace, including itself: with all features, for all systems,
/// without those that only its tests need.
fn tree<'a>(metadata: &'a Json, root: &str) -> Result<BTreeSet<&'a str>> {
    let list = |value: &'a Json, key: &str| -> Result<&'a [Json]> {
        let list = value.pointer(key).and_then(Json::as_array).map(Vec::as_slice);
        list.with_context(|| format!("cargo metadata changed its form: {key}"))
    };
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in list(metadata, "/resolve/nodes")? {
        let mut built = Vec::new();
        for dependency in list(node, "/deps")? {
            // The kind `null` means a normal dependency.
            if list(dependency, "/dep_kinds")?.iter().any(|kind| kind["kind"] != "dev") {
                built.push(dependency["pkg"].as_str().context("a dependency without id")?);
            }
        }
        below.insert(node["id"].as_str().context("a node without id")?, built);
    }
    let root = list(metadata, "/packages")?.iter().find(|package| package["name"] == root);
    let mut open = vec![root.and_then(|package| package["id"].as_str()).context("there is no such package")?];
    let mut found = BTreeSet::new();
    while let Some(package) = open.pop() {
        if found.insert(package) {
            open.extend(below.get(package).into_iter().flatten());
        }
    }
    Ok(found)
}

/// Returns everything that is wrong, one line for each finding.
fn faults(policy: &Policy, packages: &[Package]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for package in packages {
        let shown = format!("{} {}", package.name, package.version);
        if package.source != SOURCE {
            faults.push(format!("{shown}: comes from {}", package.source));
        }
        let exception = policy.exceptions.iter().find(|entry| entry.names(package));
        let allowed = |licence: &str| {
            let mut lists = policy.licences.iter().chain(exception.iter().flat_map(|entry| &entry.licences));
            lists.any(|allowed| allowed == licence)
        };
        match &package.licence {
            None => faults.push(format!("{shown}: names no licence")),
            Some(licence) if !spdx::satisfied(licence, &allowed)? => {
                faults.push(format!("{shown}: licence `{licence}` is not allowed"));
            }
            Some(_) => {}
        }
        for entry in policy.denied.iter().filter(|entry| entry.names(package)) {
            faults.push(format!("{shown}: denied: {}", entry.reason));
        }
    }
    faults.extend(duplicates(policy, packages));
    Ok(faults)
}

/// The packages that say that they need a newer Rust than `oldest`. Those that say nothing are compiled by `release-check`.
fn too_new(packages: &[Package], oldest: &str) -> Result<Vec<String>> {
    let ours = rust_version(oldest)?;
    let mut faults = Vec::new();
    for package in packages {
        let Some(theirs) = &package.rust else { continue };
        if rust_version(theirs)? > ours {
            faults.push(format!(
                "{} {}: needs Rust {theirs}, and the workspace promises {oldest}",
                package.name, package.version
            ));
        }
    }
    Ok(faults)
}

/// Parses a `rust-version`, whose patch version may be missing.
fn rust_version(text: &str) -> Result<Version> {
    let full = if text.matches('.').count() == 1 { format!("{text}.0") } else { text.to_owned() };
    Version::parse(&full).with_context(|| format!("`{text}` is no version of Rust"))
}

/// Packages in several versions without an entry that allows them, and entries that allow nothing.
fn duplicates(policy: &Policy, packages: &[Package]) -> Vec<String> {
    let in_skipped_tree = skipped_trees(policy, packages);
    let mut versions: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in packages.iter().filter(|package| !in_skipped_tree.contains(package.id.as_str())) {
        versions.entry(&package.name).or_default().push(package);
    }
    let mut faults = Vec::new();
    for (name, several) in versions.iter().filter(|(_, several)| several.len() > 1) {
        let left = several.iter().filter(|package| !policy.skipped.iter().any(|entry| entry.names(package)));
        let mut left: Vec<&Version> = left.map(|package| &package.version).collect();
        left.sort();
        if let [older @ .., newest] = left.as_slice() {
            for version in older {
                faults.push(format!(
                    "{name} {version} beside {newest}: to allow it, bans.skip needs \
                     {{ crate = \"{name}@{version}\", reason = \"...\" }}"
                ));
            }
        }
    }
    for entry in &policy.skipped {
        let several = versions.get(entry.name.as_str()).filter(|several| several.len() > 1);
        if !several.is_some_and(|several| several.iter().any(|package| entry.names(package))) {
            faults.push(format!("bans.skip: `{} {}` is no duplicate any more", entry.name, entry.versions));
        }
    }
    for entry in &policy.skipped_trees {
        if !packages.iter().any(|package| entry.names(package)) {
            faults.push(format!("bans.skip-tree: `{} {}` is not there any more", entry.name, entry.versions));
        }
    }
    faults
}

/// The packages of `bans.skip-tree` with everything below them.
fn skipped_trees<'a>(policy: &Policy, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let by_id: BTreeMap<&str, &Package> =
        packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let roots =
        packages.iter().filter(|package| policy.skipped_trees.iter().any(|entry| entry.names(package)));
    let mut open: Vec<&Package> = roots.collect();
    let mut found = BTreeSet::new();
    while let Some(package) = open.pop() {
        if found.insert(package.id.as_str()) {
            open.extend(package.dependencies.iter().filter_map(|id| by_id.get(id.as_str())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(bans: &str) -> Policy {
        let text = format!(
            "[licenses]\nallow = [\"MIT\"]\nexceptions = [{{ crate = \"odd\", allow = [\"OFL-1.1\"] }}]\n\
             [bans]\nmultiple-versions = \"deny\"\n{bans}\n\
             [sources]\nunknown-registry = \"deny\"\nunknown-git = \"deny\"\n"
        );
        Policy::parse(&text).unwrap()
    }

    fn package(name: &str, version: &str, licence: &str, dependencies: &[&str]) -> Package {
        Package {
            id: format!("{name} {version}"),
            name: name.to_owned(),
            version: Version::parse(version).unwrap(),
            licence: Some(licence.to_owned()),
            source: SOURCE.to_owned(),
            rust: None,
            dependencies: dependencies.iter().map(|&id| id.to_owned()).collect(),
        }
    }

    fn faults(bans: &str, packages: &[Package]) -> Vec<String> {
        super::faults(&policy(bans), packages).unwrap()
    }

    #[test]
    fn licences_are_held_with_their_exceptions() {
        assert!(faults("", &[package("a", "1.0.0", "MIT OR GPL-3.0", &[])]).is_empty());
        assert!(faults("", &[package("odd", "1.0.0", "OFL-1.1", &[])]).is_empty());
        assert_eq!(faults("", &[package("a", "1.0.0", "OFL-1.1", &[])]).len(), 1);
        let mut nameless = package("a", "1.0.0", "MIT", &[]);
        nameless.licence = None;
        assert_eq!(faults("", &[nameless]).len(), 1);
    }

    #[test]
    fn denied_versions_and_other_sources_are_found() {
        let bans = "deny = [{ crate = \"quic:<0.11.17\", reason = \"old\" }]";
        assert_eq!(faults(bans, &[package("quic", "0.11.16", "MIT", &[])]).len(), 1);
        assert!(faults(bans, &[package("quic", "0.11.17", "MIT", &[])]).is_empty());
        let mut elsewhere = package("a", "1.0.0", "MIT", &[]);
        elsewhere.source = "git+https://example.org/a".to_owned();
        assert_eq!(faults("", &[elsewhere]).len(), 1);
    }

    #[test]
    fn duplicates_need_a_reason_that_is_still_true() {
        let two = || [package("a", "1.0.0", "MIT", &[]), package("a", "2.0.0", "MIT", &[])];
        let skip = "skip = [{ crate = \"a@1.0.0\", reason = \"b wants it\" }]";
        assert_eq!(faults("", &two()).len(), 1);
        assert!(faults(skip, &two()).is_empty());
        assert_eq!(faults(skip, &two()[1..]).len(), 1, "the entry explains nothing");
        let bare = "[licenses]\nallow = []\n[bans]\nmultiple-versions = \"deny\"\nskip = [\"a@1.0.0\"]\n\
                    [sources]\nunknown-registry = \"deny\"\nunknown-git = \"deny\"\n";
        assert!(Policy::parse(bare).is_err(), "no reason given");
    }

    #[test]
    fn a_package_that_needs_a_newer_rust_is_found() {
        let needs = |rust: Option<&str>| {
            let mut package = package("a", "1.0.0", "MIT", &[]);
            package.rust = rust.map(str::to_owned);
            too_new(&[package], "1.88").unwrap()
        };
        assert!([None, Some("1.9"), Some("1.88"), Some("1.88.0")].map(needs).iter().all(Vec::is_empty));
        assert_eq!(needs(Some("1.89.0")), ["a 1.0.0: needs Rust 1.89.0, and the workspace promises 1.88"]);
        assert_eq!(needs(Some("1.88.1")).len(), 1);
        assert!(rust_version("new").is_err());
    }

    #[test]
    fn a_tree_has_what_is_built_and_not_what_is_tested_with() {
        let dependency = |id: &str, kinds: &[Option<&str>]| {
            let kinds: Vec<_> = kinds.iter().map(|kind| json!({ "kind": kind })).collect();
            json!({ "pkg": id, "dep_kinds": kinds })
        };
        let (normal, build, dev) = (None, Some("build"), Some("dev"));
        let cli = [dependency("a", &[normal]), dependency("b", &[dev, build]), dependency("c", &[dev])];
        let metadata = json!({
            "packages": [{ "name": "other", "id": "c" }, { "name": "cli", "id": "cli 1" }],
            "resolve": { "nodes": [
                { "id": "cli 1", "deps": cli },
                { "id": "a", "deps": [dependency("b", &[normal])] },
                { "id": "b", "deps": [dependency("a", &[normal])] },
                { "id": "c", "deps": [] },
            ] },
        });
        assert_eq!(tree(&metadata, "cli").unwrap(), BTreeSet::from(["a", "b", "cli 1"]));
        assert!(tree(&metadata, "none").is_err());
        assert!(tree(&json!({}), "cli").is_err());
    }

    #[test]
    fn a_skipped_tree_hides_what_is_below_it() {
        let tree = "skip-tree = [{ crate = \"sys\", reason = \"moves fast\" }]";
        let packages = [
            package("sys", "1.0.0", "MIT", &["leaf 1.0.0"]),
            package("leaf", "1.0.0", "MIT", &[]),
            package("leaf", "2.0.0", "MIT", &[]),
        ];
        assert_eq!(faults("", &packages).len(), 1);
        assert!(faults(tree, &packages).is_empty());
        assert_eq!(faults(tree, &packages[2..]).len(), 1, "the entry explains nothing");
    }
}
