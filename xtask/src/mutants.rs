//! `cargo xtask mutants`: changes the sources in one place at a time and checks whether the tests of that area fail.
//! cargo-mutants makes the changes and runs the tests; this module draws the sample, chooses the tests, and prints the table.
//!
//! A chore for releases: it takes minutes for each mutant of a large area. It works on a copy of the sources in
//! `target/mutants`, with one build folder for all mutants, so that an interrupted run leaves no change in the sources.

mod sample;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

use crate::{steps, tools};
use sample::Seed;
use table::Outcomes;

/// The version of cargo-mutants. A different version has different mutants, so the same seed would draw a different sample.
const VERSION: &str = "27.1.0";

/// Debug output has no tests, so mutants in it say nothing.
const LEFT_OUT: &str = "impl (fmt::)?Debug for";

/// A part of the sources, and the tests that cover it.
struct Area {
    name: &'static str,
    package: &'static str,
    files: &'static str,
    /// The tests to run besides the unit tests of the package.
    tests: &'static [&'static str],
}

const AREAS: [Area; 7] = [
    Area {
        name: "gateway",
        package: "mcpjoin-gateway",
        files: "crates/gateway/src/**/*.rs",
        tests: &["gateway"],
    },
    Area {
        name: "http-server",
        package: "mcpjoin",
        files: "crates/mcpjoin/src/transport/http_server/**/*.rs",
        tests: &["http_server", "http_both", "http_axum"],
    },
    Area {
        name: "http-client",
        package: "mcpjoin",
        files: "crates/mcpjoin/src/transport/http_client/**/*.rs",
        tests: &["http_client", "http_both"],
    },
    Area {
        name: "connection",
        package: "mcpjoin",
        files: "crates/mcpjoin/src/connection/**/*.rs",
        tests: &["stream", "debt", "client", "server", "framing"],
    },
    Area { name: "auth", package: "mcpjoin-auth", files: "crates/auth/src/**/*.rs", tests: &["oauth"] },
    Area {
        name: "process",
        package: "mcpjoin",
        files: "crates/mcpjoin/src/process/**/*.rs",
        tests: &["child", "child_calls", "child_cycles", "second_run"],
    },
    Area {
        name: "session",
        package: "mcpjoin-proto",
        files: "crates/proto/src/session/**/*.rs",
        tests: &["session", "session_debt", "transcripts"],
    },
];

/// Mutants by name. The name contains file, line, column and change.
type Places = BTreeMap<String, Place>;

/// The place where a mutant begins.
#[derive(Clone, Debug)]
struct Place {
    file: String,
    /// Counted from 1.
    line: usize,
}

/// The options of the command.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    /// The number of mutants of each area.
    sample: usize,
    seed: u64,
    /// Only this area.
    area: Option<String>,
}

impl Options {
    /// Reads the words after `mutants`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let (mut sample, mut seed, mut area) = (None, None, None);
        for pair in words.chunks(2) {
            match *pair {
                ["--sample", number] => sample = Some(number.parse().context("--sample needs a number")?),
                ["--seed", number] => seed = Some(number.parse().context("--seed needs a number")?),
                ["--area", name] if AREAS.iter().any(|area| area.name == name) => {
                    area = Some(name.to_owned());
                }
                ["--area", name] => bail!("no area `{name}`: {}", AREAS.map(|area| area.name).join(", ")),
                [word, ..] => {
                    bail!(
                        "`mutants` knows no `{word}`: only --sample N, --seed S and --area NAME, each with its value"
                    );
                }
                [] => {}
            }
        }
        let sample = sample.filter(|sample| *sample > 0).context("--sample N is missing")?;
        Ok(Self { sample, seed: seed.context("--seed S is missing")?, area })
    }
}

/// Draws and runs the mutants, area by area, and prints the table.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let program = installed(root)?;
    let folder = tools::target(root)?.join("mutants");
    let tree = folder.join("tree");
    let files = copy(root, &tree)?;
    println!("    {files} files copied to {}", tree.display());
    let wanted = |area: &&Area| options.area.as_ref().is_none_or(|only| only == area.name);
    let mut rows = Vec::new();
    for area in AREAS.iter().filter(wanted) {
        let places = area.list(&program, &tree)?;
        let drawn = sample::draw(places.keys().cloned().collect(), options.sample, Seed(options.seed));
        println!("\n==> {}: {} of {} mutants", area.name, drawn.len(), places.len());
        let drawn: Places = drawn
            .into_iter()
            .filter_map(|name| places.get(&name).cloned().map(|place| (name, place)))
            .collect();
        let outcomes = area.run(&program, &tree, &folder, &drawn)?;
        println!("{}", outcomes.survivors());
        rows.push((area.name, outcomes));
    }
    println!("\nseed {}, cargo-mutants {VERSION}\n{}", options.seed, table::print(&rows));
    Ok(())
}

impl Area {
    /// Lists all mutants of the area.
    fn list(&self, program: &Path, tree: &Path) -> Result<Places> {
        let listing = steps::stdout(self.command(program, tree).args(["--list", "--json"]))?;
        let listing: Vec<Json> = serde_json::from_str(&listing).context("the list of mutants")?;
        let places = listing.iter().map(|mutant| {
            let name = mutant["name"].as_str()?.to_owned();
            let line = usize::try_from(mutant.pointer("/span/start/line")?.as_u64()?).ok()?;
            Some((name, Place { file: mutant["file"].as_str()?.to_owned(), line }))
        });
        let places: Places = places.collect::<Option<_>>().context("cargo-mutants lists in another form")?;
        if places.is_empty() {
            bail!("{} has no mutants: {} names nothing", self.name, self.files);
        }
        Ok(places)
    }

    fn run(&self, program: &Path, tree: &Path, folder: &Path, drawn: &Places) -> Result<Outcomes> {
        let output = folder.join(self.name);
        tools::empty(&output)?;
        let lines = output.join("lines.diff");
        fs::write(&lines, as_diff(tree, drawn)?)?;
        let mut command = self.command(program, tree);
        command.args(["--in-place", "--cap-lints=true", "--annotations=none"]);
        command.arg("--output").arg(&output).env("CARGO_TARGET_DIR", folder.join("build"));
        command.args(drawn.keys().map(|name| format!("--re=^{}$", sample::literally(name))));
        // Version 27.1 does not match mutants that delete a field against the expressions, and would run all of them.
        command.arg("--in-diff").arg(&lines);
        // Also limits the build, so that no other test is linked.
        command.arg("--cargo-arg=--lib");
        command.args(self.tests.iter().map(|name| format!("--cargo-arg=--test={name}")));
        let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
        // Exit codes 2 and 3 mean that mutants survived or timed out.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            bail!("cargo-mutants: {status}; its logs are in {}", output.display());
        }
        let path = output.join("mutants.out/outcomes.json");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let outcomes = Outcomes::parse(&text, |name| drawn.contains_key(name));
        let outcomes = outcomes.with_context(|| path.display().to_string())?;
        if outcomes.all() != drawn.len() {
            bail!("{} mutants were drawn and {} were run", drawn.len(), outcomes.all());
        }
        Ok(outcomes)
    }

    fn command(&self, program: &Path, tree: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["mutants", "--no-config", "--colors=never", "--package", self.package]);
        command.args(["--file", self.files, "--exclude-re", LEFT_OUT, "--dir"]).arg(tree);
        command.stdin(Stdio::null());
        command
    }
}

/// A diff that adds the lines on which the mutants begin: cargo-mutants selects lines by a diff.
fn as_diff(tree: &Path, drawn: &Places) -> Result<String> {
    let mut files: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for place in drawn.values() {
        files.entry(&place.file).or_default().insert(place.line);
    }
    let mut diff = String::new();
    for (file, lines) in files {
        let text = fs::read_to_string(tree.join(file)).with_context(|| format!("cannot read {file}"))?;
        diff += &format!("--- a/{file}\n+++ b/{file}\n");
        for (added, line) in lines.into_iter().enumerate() {
            let content = text.lines().nth(line - 1).with_context(|| format!("{file} has no line {line}"))?;
            diff += &format!("@@ -{},0 +{line} @@\n+{content}\n", line - 1 - added);
        }
    }
    Ok(diff)
}

/// The pinned cargo-mutants; it is installed if it is missing.
fn installed(root: &Path) -> Result<PathBuf> {
    let folder = tools::folder(root)?;
    let program = folder.join("bin/cargo-mutants");
    let version = Command::new(&program).args(["mutants", "--version"]).stdin(Stdio::null()).output();
    let there = version.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).trim() == format!("cargo-mutants {VERSION}")
    });
    if !there {
        println!("    installing cargo-mutants {VERSION}");
        let build = folder.join("build");
        let mut command = steps::cargo(root, &["install", "--quiet", "--locked", "--force", "cargo-mutants"]);
        command.args(["--version", &format!("={VERSION}"), "--root"]).arg(&folder);
        steps::succeed(command.env("CARGO_TARGET_DIR", &build))?;
        fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
    }
    Ok(program)
}

/// Makes `tree` a copy of all files that git tracks, with uncommitted changes. An unchanged file keeps its modification
/// time, so that cargo does not rebuild it. Returns the number of files.
fn copy(root: &Path, tree: &Path) -> Result<usize> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listing = steps::stdout(&mut command)?;
    let mut kept = BTreeSet::new();
    for name in listing.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        // A file that is deleted but not committed, or a dangling link.
        let Ok(bytes) = fs::read(&from) else { continue };
        if !fs::read(&to).is_ok_and(|there| there == bytes) {
            fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        kept.insert(to);
    }
    remove_others(tree, &kept)?;
    Ok(kept.len())
}

/// Removes all files in a folder and its subfolders that are not in `kept`.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::{AREAS, Options, Place, as_diff, copy};
    use crate::root;

    #[test]
    fn options_are_read_and_others_refused() {
        let options = Options::parse(&["--seed", "7", "--sample", "60", "--area", "auth"]).unwrap();
        assert_eq!(options, Options { sample: 60, seed: 7, area: Some("auth".to_owned()) });
        assert_eq!(Options::parse(&["--sample", "1", "--seed", "0"]).unwrap().area, None);
        for words in [
            &["--sample", "60"][..],
            &["--seed", "1"],
            &["--seed", "1", "--sample", "0"],
            &["--seed", "1", "--sample"],
            &["--seed", "1", "--sample", "some"],
            &["--seed", "1", "--sample", "1", "--area", "attic"],
            &["--fast"],
        ] {
            assert!(Options::parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn each_area_has_a_folder_and_its_tests() {
        for area in &AREAS {
            let folder = root().join(area.files.split("/**").next().unwrap());
            assert!(folder.is_dir(), "{}", folder.display());
            let package = folder.ancestors().find(|above| above.join("Cargo.toml").is_file()).unwrap();
            for test in area.tests {
                let file = package.join("tests").join(test);
                assert!(file.with_extension("rs").is_file() || file.join("main.rs").is_file(), "{test}");
            }
        }
    }

    #[test]
    fn lines_are_shown_as_a_diff() {
        let place = |line| Place { file: "clippy.toml".to_owned(), line };
        let drawn = BTreeMap::from([
            ("b".to_owned(), place(3)),
            ("a".to_owned(), place(1)),
            ("c".to_owned(), place(3)),
        ]);
        let text = fs::read_to_string(root().join("clippy.toml")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let diff = format!(
            "--- a/clippy.toml\n+++ b/clippy.toml\n@@ -0,0 +1 @@\n+{}\n@@ -1,0 +3 @@\n+{}\n",
            lines[0], lines[2]
        );
        assert_eq!(as_diff(&root(), &drawn).unwrap(), diff);
        assert!(as_diff(&root(), &BTreeMap::from([("a".to_owned(), place(99))])).is_err());
    }

    #[test]
    fn a_copy_is_made_alike_again() {
        let tree = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        let files = copy(&root(), &tree).unwrap();
        let (changed, added) = (tree.join("xtask/src/main.rs"), tree.join("xtask/src/left.rs"));
        let kept = tree.join("xtask/src/mutants.rs");
        let time = fs::metadata(&kept).unwrap().modified().unwrap();
        fs::write(&changed, "a mutant").unwrap();
        fs::write(&added, "of a run that was stopped").unwrap();
        assert_eq!(copy(&root(), &tree).unwrap(), files);
        let alike = fs::read(&changed).unwrap() == fs::read(root().join("xtask/src/main.rs")).unwrap();
        assert!(alike && !added.exists());
        assert_eq!(fs::metadata(&kept).unwrap().modified().unwrap(), time);
        fs::remove_dir_all(&tree).unwrap();
    }
}
