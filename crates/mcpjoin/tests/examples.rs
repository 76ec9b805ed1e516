//! Runs the programs in `examples/` as their first lines say, and compares what they print with what is said there.
//!
//! The first lines of an example contain a block of `console`: commands, and the standard output of the last one. A
//! new file without such a block fails, and so does one without its row in `examples/README.md`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::process::Command;

/// The time limit of one example, which takes at most a few seconds.
const DEADLINE: Duration = Duration::from_secs(60);

/// The beginning of the command that runs an example.
const RUN: &str = "cargo run -p mcpjoin --example ";

/// The beginning of the command that builds an example without running it. `cargo test` builds all of them.
const BUILD: &str = "cargo build -p mcpjoin --example ";

/// Where the commands name the program of another example.
const PROGRAMS: &str = "target/debug/examples/";

struct Example {
    name: String,
    /// The first sentence: what the example shows.
    shows: String,
    /// The example that the command runs, which is another one for a server that a client starts.
    program: String,
    arguments: Vec<String>,
    prints: String,
}

impl Example {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let head: Vec<&str> = text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        let console: Vec<&str> = head
            .iter()
            .skip_while(|line| **line != "```console")
            .skip(1)
            .take_while(|line| **line != "```")
            .copied()
            .collect();
        let commands: Vec<&str> = console.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
        let (last, before) =
            commands.split_last().unwrap_or_else(|| panic!("{name} does not say how it is run"));
        assert!(before.iter().all(|command| command.starts_with(BUILD)), "{name}: {before:?}");
        let run =
            last.strip_prefix(RUN).unwrap_or_else(|| panic!("{name} is run with `{RUN}`, not with `{last}`"));
        let (program, arguments) = run.split_once(" -- ").unwrap_or((run, ""));
        // The features that the program needs.
        let program = program.split_once(" --features ").map_or(program, |(program, _)| program);
        assert!(
            run.split([' ', '/']).any(|word| word == name),
            "{name} shows the command of another example"
        );
        let folder = programs();
        let arguments = arguments.split_whitespace().map(|argument| match argument.strip_prefix(PROGRAMS) {
            Some(program) => folder.join(program).to_str().unwrap().to_owned(),
            None => argument.to_owned(),
        });
        Self {
            shows: head.first().copied().unwrap_or_default().to_owned(),
            program: program.to_owned(),
            arguments: arguments.collect(),
            prints: console[commands.len()..].iter().map(|line| format!("{line}\n")).collect(),
            name,
        }
    }

    /// Runs the example, and returns what is wrong with it.
    async fn fault(&self) -> Option<String> {
        let program = programs().join(&self.program);
        let ran = Command::new(&program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            // Children that an example leaves behind see the end of their input.
            .kill_on_drop(true)
            .output();
        let output = match tokio::time::timeout(DEADLINE, ran).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                let build = format!("{BUILD}{}", self.program);
                return Some(format!(
                    "{} cannot be started: {error} (`{build}` builds it)",
                    program.display()
                ));
            }
            Err(_) => return Some(format!("{} did not end within {DEADLINE:?}", self.name)),
        };
        let printed = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        (!output.status.success() || printed != self.prints).then(|| {
            format!(
                "{}: {}\n--- it says that it prints\n{}--- it prints\n{printed}--- on standard error\n{told}",
                self.name, output.status, self.prints
            )
        })
    }
}

/// The folder with the sources.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The folder with the programs, beside that of this test.
fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples")
}

fn examples() -> Vec<Example> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let mut sources: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    sources.sort();
    assert!(sources.len() >= 15, "{} examples", sources.len());
    sources.iter().map(|path| Example::read(path)).collect()
}

#[tokio::test]
async fn every_example_prints_what_its_first_lines_say() {
    let examples = examples();
    let faults = join_all(examples.iter().map(Example::fault)).await;
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    // `cargo test --test examples` alone builds no example: these may be older than their sources.
    let faults = faults.join("\n");
    assert!(faults.is_empty(), "{faults}\n`cargo build -p mcpjoin --examples` builds the examples again");
}

#[test]
fn the_table_has_each_example_with_its_first_sentence() {
    let table = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let rows: BTreeSet<String> =
        table.lines().filter(|line| line.starts_with("| [")).map(Into::into).collect();
    let row = |Example { name, shows, .. }| format!("| [`{name}`]({name}.rs) | {shows} |");
    let expected: BTreeSet<String> = examples().into_iter().map(row).collect();
    let missing: Vec<&String> = expected.difference(&rows).collect();
    let wrong: Vec<&String> = rows.difference(&expected).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "examples/README.md lacks {missing:#?}, and has {wrong:#?}"
    );
}
