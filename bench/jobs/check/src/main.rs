//! `cargo run -p check` in `bench/jobs`: builds the programs of the six jobs, runs each with both libraries, fails where one of
//! them does something else than expected, and prints the lines of each. `README.md` has the printed table, which is compared.

mod gate;
mod lines;
mod replicas;

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use tokio::process::Command;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

pub(crate) const LIBRARIES: [&str; 2] = ["mcpjoin", "rmcp"];

/// What each client prints with each server.
const NOTES: &str = "\
tools: add_note directories import quit remove_note summarize unlock wait
added 1: Buy milk
log: \"added note 1\"
resource: Buy milk
prompt: Review in Dutch: Buy milk
completion: Danish Dutch
progress: 1
progress: 2
progress: 3
3 notes imported
timed out: true
the server asks the model: Summarize: Buy milk
milk
file:///home/ada
the server asks: Why is the note removed?
note 1 is removed: it is old
error: there is no note 1
unlocked
now 9 tools
lost: true
again 8 tools
";

/// What the program with tools and clients prints, started with two servers and one path that does not exist.
const EMBEDDING: &str = "\
pong pong
delayed: false
blocked
failed: true
cancelled
8 tools
a server does not start
8 tools
";

#[tokio::main]
async fn main() -> ExitCode {
    match check().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn check() -> Result {
    std::env::set_current_dir(root())?;
    cargo(&["build", "--quiet", "--workspace", "--bins"]).await?;
    for client in LIBRARIES {
        for server in LIBRARIES {
            let printed = output(client, "client", &[&program(server, "server")]).await?;
            let what = format!("the {client} client with the {server} server");
            expect(&what, &reports_first(&printed), &reports_first(NOTES))?;
        }
    }
    for library in LIBRARIES {
        replicas::check(library).await?;
        println!("ok: two replicas of {library}");
        gate::check(library).await?;
        println!("ok: tokens and logins with {library}");
        cargo(&["test", "--quiet", "--package", &format!("jobs-{library}"), "--test", "testing"]).await?;
        println!("ok: tests with {library}");
        let server = program(library, "server");
        let printed = output(library, "embedding", &[&server, "/does/not/exist", &server]).await?;
        expect(&format!("a program with tools and clients of {library}"), &printed, EMBEDDING)?;
    }
    let table = lines::table()?;
    println!("\n{table}");
    if std::fs::read_to_string("README.md")?.contains(&table) {
        Ok(())
    } else {
        Err("README.md has another table".into())
    }
}

/// The folder of this workspace.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn program(library: &str, job: &str) -> String {
    // All programs of the workspace are in one folder, this one too.
    let here = std::env::current_exe().expect("this program has a path");
    here.with_file_name(format!("{library}-{job}")).to_string_lossy().into_owned()
}

async fn cargo(words: &[&str]) -> Result {
    // The folder of this program, so that it finds what is built.
    let here = std::env::current_exe()?;
    let target = here.ancestors().nth(2).ok_or("this program is in no folder")?;
    let mut command = Command::new("cargo");
    command.args(words).env("CARGO_TARGET_DIR", target).stdout(Stdio::null());
    let status = command.status().await?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", words.join(" ")).into()) }
}

async fn output(library: &str, job: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program(library, job)).args(words).stderr(Stdio::null()).output().await?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The lines with reports of progress first: rmcp's client may handle a report after the result of its call.
fn reports_first(text: &str) -> String {
    let (mut reports, others): (Vec<_>, Vec<_>) =
        text.split_inclusive('\n').partition(|line| line.starts_with("progress: "));
    reports.sort();
    reports.concat() + &others.concat()
}

pub(crate) fn expect(what: &str, received: &str, expected: &str) -> Result {
    if received != expected {
        return Err(format!("{what}: received\n{received}\nexpected\n{expected}").into());
    }
    println!("ok: {what}");
    Ok(())
}
