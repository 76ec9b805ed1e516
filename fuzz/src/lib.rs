//! The shared code of the fuzz targets: their command line, and a reader for inputs that control how they are split.
//!
//! Each target is a program of libFuzzer. Called as `NAME --seconds N` it runs `corpus/NAME.txt` and continues with
//! mutations for N seconds. Called as `NAME --minimize` it adds the inputs of earlier runs to the corpus and drops every
//! input that adds no coverage. With any other arguments it is libFuzzer itself
//! (<https://llvm.org/docs/LibFuzzer.html#options>).

mod corpus;

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// The longest input, in bytes: room for some messages, and short enough for thousands of runs a second. Targets that need
/// longer inputs use [`expand`].
const MOST_BYTES: usize = 4096;

/// The time limit of one input, in seconds.
const MOST_SECONDS: u32 = 10;

/// Must be called before the first input. With `--seconds N` it runs libFuzzer with the corresponding arguments; with
/// `--minimize` it minimizes the corpus and ends the process.
///
/// # Panics
/// When the arguments are wrong or the folders cannot be created.
pub fn start(name: &str) {
    let mut arguments = env::args_os().skip(1);
    let seconds = match arguments.next() {
        Some(word) if word == "--seconds" => {
            let seconds = arguments.next().and_then(|argument| argument.to_str()?.parse::<u32>().ok());
            seconds.expect("--seconds needs a number")
        }
        Some(word) if word == "--minimize" => minimize(name),
        _ => return,
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let artifacts = here.join("artifacts");
    fs::create_dir_all(&artifacts).expect("the folder of artifacts can be made");
    let mut command = Command::new(env::current_exe().expect("a program knows where it is"));
    command
        .arg(format!("-artifact_prefix={}/{name}-", artifacts.display()))
        .arg(format!("-timeout={MOST_SECONDS}"))
        .arg("-rss_limit_mb=2048")
        .arg("-print_final_stats=1")
        .arg("-verbosity=0");
    if seconds == 0 {
        command.arg("-runs=0");
    } else {
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={MOST_BYTES}"));
        // libFuzzer writes new inputs to the first folder.
        command.arg(found(name));
    }
    let error = command.arg(corpus::unpack(name).expect("the corpus can be unpacked")).exec();
    panic!("cannot start libFuzzer: {error}");
}

/// Replaces the corpus with the fewest inputs, of the corpus and of earlier runs, that reach the same code, and ends the
/// process.
fn minimize(name: &str) -> ! {
    let merged =
        corpus::empty_folder(&format!("merged/{name}")).expect("the folder of merged inputs can be made");
    let mut command = Command::new(env::current_exe().expect("a program knows where it is"));
    command.arg("-set_cover_merge=1").arg("-verbosity=0").arg(&merged);
    command.arg(corpus::unpack(name).expect("the corpus can be unpacked")).arg(found(name));
    let status = command.status().expect("libFuzzer starts");
    assert!(status.success(), "libFuzzer ended with {status}");
    let inputs = corpus::pack(name, &merged).expect("the corpus can be written");
    println!("{name}: {inputs} inputs");
    process::exit(0);
}

/// The folder of inputs that earlier runs found.
fn found(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/found").join(name);
    fs::create_dir_all(&folder).expect("the folder of found inputs can be made");
    folder
}

/// Reads an input from the front, to take decisions and data from it.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// A reader at the beginning of the input.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte; 0 when there is none.
    pub fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// Selects one of the values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    /// The bytes up to the next line feed, or the rest.
    pub fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        line
    }

    /// Reads how to split the rest: one byte for the number of sizes, and the sizes.
    pub fn plan(&mut self) -> Plan {
        let sizes = usize::from(self.byte()) % 16;
        Plan((0..sizes).map(|_| self.byte()).collect())
    }

    /// The rest of the input.
    #[must_use]
    pub const fn rest(self) -> &'a [u8] {
        self.0
    }
}

impl Iterator for Input<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

/// The sizes of the pieces in which a stream arrives, repeated.
#[derive(Clone, Debug)]
pub struct Plan(Vec<u8>);

impl Plan {
    /// Splits a stream. Sizes below 128 are bytes; larger values are steps of 256 bytes. The pieces of a long stream grow,
    /// because small pieces show nothing new after the beginning.
    pub fn pieces<'a>(&self, stream: &'a [u8]) -> Vec<&'a [u8]> {
        let mut sizes = self.0.iter().cycle();
        let mut rest = stream;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let size = match sizes.next() {
                None => 1,
                Some(&size @ 0..128) => usize::from(size),
                Some(&size) => usize::from(size - 127) * 256,
            };
            let size = (size << (pieces.len() / 128).min(8)).min(Self::LARGEST);
            // Two empty pieces in a row show no more than one, and the loop would never end.
            let size = if size == 0 && pieces.last().is_none_or(|piece: &&[u8]| piece.is_empty()) {
                1
            } else {
                size
            };
            let (piece, left) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = left;
        }
        pieces
    }

    /// The largest piece of [`Plan::pieces`], in bytes: half of a link's read.
    pub const LARGEST: usize = 32 * 1024;
}

/// The largest result of [`expand`], in bytes: more than every size limit of the codecs.
const MOST_EXPANDED: usize = 300_000;

/// Replaces 0x1A and the byte N behind it with N times 257 bytes of `x`, so that a short input can be a long stream.
#[must_use]
pub fn expand(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut bytes = input.iter();
    while let Some(&byte) = bytes.next() {
        if byte == 0x1A {
            let times = bytes.next().copied().unwrap_or(0);
            let wanted = out.len() + usize::from(times) * 257;
            if wanted <= MOST_EXPANDED {
                out.resize(wanted, b'x');
            }
        } else {
            out.push(byte);
        }
    }
    out
}
