//! Looks for inputs that break a promise of a fuzz target, with libFuzzer.
//!
//! The first argument is the name of the target. `NAME --seconds N` runs the corpus and continues with mutations for N
//! seconds. `NAME --minimize` adds the inputs of earlier runs to the corpus and drops every input that adds no coverage. With
//! any other arguments behind the name this is libFuzzer itself (<https://llvm.org/docs/LibFuzzer.html#options>).
#![no_main]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::{env, fs, io};

use libfuzzer_sys::fuzz_target;
use mcpjoin_fuzz::{TARGETS, Target, corpus};

/// The longest input, in bytes: room for some messages, and short enough for thousands of runs a second. Targets that need
/// longer inputs expand them.
const MAX_INPUT_BYTES: usize = 4096;

/// The time limit of one input, in seconds.
const INPUT_TIMEOUT: u32 = 10;

/// Names the target to the process of libFuzzer, whose arguments are its own.
const VARIABLE: &str = "MCPJOIN_FUZZ_TARGET";

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(init: start(), |data: &[u8]| {
    TARGET.get().expect("`start` ran before")(data);
});

/// Selects the target, or starts libFuzzer for one.
fn start() {
    let named = |name: &str| TARGETS.iter().find(|target| target.0 == name).map(|target| target.1);
    if let Some(target) = env::var(VARIABLE).ok().as_deref().and_then(named) {
        TARGET.get_or_init(|| target);
        return;
    }
    let mut arguments = env::args_os().skip(1);
    let name = arguments.next().and_then(|name| name.into_string().ok()).unwrap_or_default();
    if named(&name).is_none() {
        panic!("the first argument is one of {:?}", TARGETS.map(|target| target.0));
    }
    let mut command = Command::new(env::current_exe().expect("a program knows where it is"));
    command.env(VARIABLE, &name);
    match arguments.next() {
        Some(word) if word == "--seconds" => {
            let seconds = arguments.next().and_then(|argument| argument.to_str()?.parse::<u32>().ok());
            search(&mut command, &name, seconds.expect("--seconds needs a number"));
        }
        Some(word) if word == "--minimize" => minimize(&mut command, &name),
        word => {
            command.args(word).args(arguments);
        }
    }
    panic!("cannot start libFuzzer: {}", command.exec());
}

fn search(command: &mut Command, name: &str, seconds: u32) {
    let artifacts = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts");
    fs::create_dir_all(&artifacts).expect("the folder of artifacts can be made");
    command
        .arg(format!("-artifact_prefix={}/{name}-", artifacts.display()))
        .arg(format!("-timeout={INPUT_TIMEOUT}"))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={MAX_INPUT_BYTES}"))
        .args(["-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"])
        // libFuzzer writes new inputs to the first folder.
        .args([found(name), unpacked(name).expect("the corpus can be unpacked")]);
}

/// Replaces the corpus with the fewest inputs, of the corpus and of earlier runs, that reach the same code, and ends the
/// process.
fn minimize(command: &mut Command, name: &str) -> ! {
    let merged = empty_folder(&format!("merged/{name}")).expect("the folder of merged inputs can be made");
    command.args(["-set_cover_merge=1", "-verbosity=0"]).arg(&merged);
    command.args([unpacked(name).expect("the corpus can be unpacked"), found(name)]);
    let status = command.status().expect("libFuzzer starts");
    assert!(status.success(), "libFuzzer ended with {status}");
    let inputs = fs::read_dir(merged).and_then(|files| files.map(|file| fs::read(file?.path())).collect());
    let count = corpus::replace(name, inputs.expect("the merged inputs can be read"));
    println!("{name}: {} inputs", count.expect("the corpus can be written"));
    process::exit(0);
}

/// Writes each input of the corpus into a file, as libFuzzer reads them, and returns their folder.
fn unpacked(name: &str) -> io::Result<PathBuf> {
    let folder = empty_folder(&format!("corpus/{name}"))?;
    for (number, input) in corpus::inputs(name)?.into_iter().enumerate() {
        fs::write(folder.join(format!("{number:05}")), input)?;
    }
    Ok(folder)
}

/// The folder of inputs that earlier runs found.
fn found(name: &str) -> PathBuf {
    let folder = below_target(&format!("found/{name}"));
    fs::create_dir_all(&folder).expect("the folder of found inputs can be made");
    folder
}

fn empty_folder(name: &str) -> io::Result<PathBuf> {
    let folder = below_target(name);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn below_target(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(name)
}
