//! The project's chores: `cargo xtask CHORE`. A chore needs only Rust, unless its documentation says otherwise.
//!
//! Run by contributors and by `.ci/run`; never part of a user's build of mcpjoin.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what a chore is for")]

mod bench;
mod beside;
mod bounds;
mod catalogue;
mod conformance;
mod counts;
mod dependencies;
mod dist;
mod fuzz;
mod instructions;
mod interop;
mod messages;
mod mutants;
mod oldest_rust;
mod picture;
mod public_api;
mod release_check;
mod requirements;
mod sentences;
mod size;
mod spdx;
mod steps;
mod suite;
mod test;
mod tools;
mod tree;
mod weight;
mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask CHORE

  test --quick       what to run before a commit: the tables, and clippy and the tests of the packages that differ from
                     origin/main, without those that take long
  test [--update-counts]
                     everything that must hold: format, dependencies, clippy, docs, requirements, tests, published
                     servers, and the number of tests per group (xtask/test-counts.toml)
  release-check      what is too long for every change: the oldest Rust, `beside`, `bench/jobs`, `dist`, tests of processes 20 times,
                     an hour of load on a bridge, `instructions`, `bench`, `fuzz 600`, `conformance --through-nginx --through-gateway`, the
                     outages of a gateway for five minutes, and `test`; about four hours
  requirements       R1 to R86, the adversarial cases 1 to 180 and the faults F1 to F36, each with the tests that
                     show it
  bounds             what others can make us hold or do: each bound with its total and its test (xtask/bounds.toml)
  sentences          the normative sentences of the specification (crates/rules/sentences): how many have a rule, and
                     why the others have none
  sentences SPECIFICATION [--write]
                     the list held against a checkout of the specification; --write makes it anew, with what is new as
                     `unread`
  sentences SPECIFICATION --quotes
                     writes the sentences that have a rule to crates/rules/src/quotes.txt, for the reports of validate
  sentences --settle makes rules of what was owed, where the book has them now
  public-api [--write]
                     the public items of the library's crates, held against crates/*/public-api.txt; --write makes them
                     anew
  messages           every text that the binary can show to people, by crate, file and line
  picture            records the terminal of the README anew, docs/images/terminal.svg (needs python3)
  size               lines of source, documentation and tests of each crate, beside those of xtask/size.toml
  deny               licences, duplicates and minimum versions of the dependencies (deny.toml), without a network
  tools              the programs that tests need beyond Rust, Node and Python: prints each with its version, and downloads
                     what is missing into target/tools where apt is, without root
  interop install    the published servers and clients that the interop tests run against, into interop/ (needs npm and python3)
  beside             mcpjoin's HTTP client in one process with reqwest, and with rustls on aws-lc-rs (interop/beside);
                     needs crates.io and a C compiler
  conformance [--scenario NAME] [--through-nginx] [--through-bridge] [--through-gateway]
                     the official conformance suite, server and client, held against conformance/expected.toml (needs
                     npm); those of the server once more through a reverse proxy (needs nginx: `tools`), through our own
                     bridge, or through it joined with another server
  bench [PART...] [--repetitions N] [--seconds S] [--peers A,B] [--mcpjoin BINARY] [--before CHECKOUT]
                     mcpjoin beside its peers, as ratios: servers, clients, startup, command-lines, http, sessions,
                     quic, bridge, gateway (bench/README.md)
  instructions [--write]
                     the instructions of the hot operations, held against bench/instructions.toml: repeatable, also on a
                     busy machine (needs valgrind); --write after a change that is meant
  mutants --sample N --seed S [--area NAME]
                     changes the sources in N places of each area, one at a time, and tells which changes its tests do
                     not notice: gateway, http-server, http-client, connection, auth, process, session. Installs
                     cargo-mutants into target/tools; takes minutes for each place
  dist [--binary PATH]
                     the archive, the npm package and the wheel, into target/packages; around that binary, to try them
                     out, into target/packages-tried
  weight             what a user of the library compiles, beside rmcp: crates, processor time, size (bench/weight; needs
                     crates.io and Linux)
  wire [--write]     that Orchestra's messages in Rust are what their schema gives; --write makes them anew
  fuzz SECONDS       every fuzz target for that long (needs a C++ compiler); `test` replays the corpora
  fuzz --minimize    takes what runs found into the corpora, and drops what adds no coverage";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    let root = root();
    match words {
        ["test", options @ ..] => test::run(&root, &test::Options::parse(options)?),
        ["release-check"] => release_check::run(&root),
        ["requirements"] => {
            let required = requirements::print(&root);
            println!();
            // Both are checked, even if the first one failed.
            catalogue::print(&root).and(required)
        }
        ["instructions"] => instructions::run(&root, false),
        ["instructions", "--write"] => instructions::run(&root, true),
        ["bounds"] => bounds::print(&root),
        ["sentences"] => sentences::counts(&root),
        ["sentences", "--settle"] => sentences::settle(&root),
        ["sentences", specification] => sentences::check(&root, Path::new(specification)),
        ["sentences", specification, "--quotes"] => sentences::quotes(&root, Path::new(specification)),
        ["sentences", specification, "--write"] => sentences::write(&root, Path::new(specification)),
        ["messages"] => messages::print(&root),
        ["size"] => size::print(&root),
        ["deny"] => dependencies::run(&root),
        ["tools"] => tools::run(&root),
        ["beside"] => beside::run(&root),
        ["interop", "install"] => interop::install(&root),
        ["conformance", options @ ..] => {
            conformance::build_and_run(&root, &conformance::Options::parse(options)?)
        }
        ["bench", options @ ..] => bench::run(&root, &bench::Options::parse(options)?),
        ["mutants", options @ ..] => mutants::run(&root, &mutants::Options::parse(options)?),
        ["dist"] => dist::run(&root).map(drop),
        ["dist", "--binary", path] => dist::try_out(&root, Path::new(path)).map(drop),
        ["weight"] => weight::run(&root),
        ["picture"] => picture::run(&root),
        ["public-api"] => public_api::run(&root, false),
        ["public-api", "--write"] => public_api::run(&root, true),
        ["wire"] => wire::run(&root, false),
        ["wire", "--write"] => wire::run(&root, true),
        ["fuzz", "--minimize"] => fuzz::minimize(&root),
        ["fuzz", seconds] => fuzz::run(&root, seconds.parse()?),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("no such chore: {}\n\n{HELP}", words.join(" ")),
    }
}

/// The project's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the project's folder").to_path_buf()
}
