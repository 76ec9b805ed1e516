//! `cargo xtask bench`: measures mcpjoin and its peers in one run, in turns, and prints tables of ratios.
//!
//! `bench/README.md` describes the measurements. Needs the same as `cargo xtask interop install`, because two of
//! the peers are a Node program and a Python program.

mod before;
mod bridges;
mod cells;
mod far;
mod gateway_table;
mod gateways;
mod peers;
mod replicas;
mod sample;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use before::Before;
use cells::Part;
use gateway_table::Summary;
use peers::{Candidate, Peers};
use sample::Samples;

/// The options of the command.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    parts: Vec<Part>,
    /// The number of samples of each peer in each cell.
    repetitions: usize,
    /// The duration of one sample.
    seconds: f64,
    /// Only the peers whose names contain one of these texts; all peers when the list is empty.
    peers: Vec<String>,
    /// Another checkout of this repository: its programs are measured in the same turns as ours.
    before: Option<PathBuf>,
    /// A binary to measure as ours instead of one that is built.
    mcpjoin: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `bench`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            parts: Vec::new(),
            repetitions: 5,
            seconds: 1.0,
            peers: Vec::new(),
            before: None,
            mcpjoin: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match *word {
                "--repetitions" => options.repetitions = value()?.parse().context("--repetitions")?,
                "--seconds" => options.seconds = value()?.parse().context("--seconds")?,
                "--mcpjoin" => options.mcpjoin = Some(value()?.into()),
                "--before" => options.before = Some(value()?.into()),
                "--peers" => options.peers = value()?.split(',').map(str::to_owned).collect(),
                name => match Part::ALL.into_iter().find(|part| part.name() == name) {
                    Some(part) => options.parts.push(part),
                    None => bail!(
                        "`bench` knows no `{name}`: only {}, --repetitions N, --seconds S, --peers A,B, --before CHECKOUT, \
                         --mcpjoin BINARY",
                        Part::ALL.map(Part::name).join(", ")
                    ),
                },
            }
        }
        if options.repetitions == 0 || !(0.01..=60.0).contains(&options.seconds) {
            bail!("at least one repetition of 0.01 to 60 seconds");
        }
        if options.parts.is_empty() {
            options.parts = Part::ALL.to_vec();
        }
        Ok(options)
    }
}

/// Installs the peers, measures, and prints.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let sdks = options.parts.iter().any(|part| !matches!(part, Part::Gateway | Part::Replicas));
    let peers = Peers::install(root, options.mcpjoin.as_deref(), sdks)?;
    let before = options.before.as_deref().map(|checkout| Before::build(checkout, &peers)).transpose()?;
    let results = root.join("bench/results");
    fs::create_dir_all(&results)?;
    println!("{}\n", peers.described()?);
    println!(
        "{} repetitions of {} s in turns, of what lasts milliseconds {}; median (least to most). Ratios are of the \
         medians.",
        options.repetitions,
        options.seconds,
        Part::Startup.turns(options.repetitions),
    );
    let mut behind = Vec::new();
    for part in &options.parts {
        let mut samples = Samples::create(&results, part.name())?;
        let far = if *part == Part::Quic { Some(peers.far_side(&results)?) } else { None };
        let bridges = if *part == Part::Bridge { Some(peers.bridges()?) } else { None };
        let gateways = if *part == Part::Gateway { Some(peers.gateways(root, &results)?) } else { None };
        let replicas = if *part == Part::Replicas { Some(peers.replicas(&results)?) } else { None };
        let mut summary = Summary::default();
        for cell in part.cells() {
            let candidates = match (&bridges, &gateways, &replicas) {
                (Some(bridges), ..) => bridges.of(&cell),
                (_, Some(gateways), _) => gateways.of(&cell),
                (.., Some(replicas)) => replicas.of(&cell),
                _ => peers.of(*part, &cell, far.as_ref()),
            };
            let mut candidates = asked_for(candidates, &options.peers);
            if let Some(before) = &before {
                before.add_to(&mut candidates);
            }
            if candidates.is_empty() {
                continue;
            }
            let rows = samples.take(&peers, &cell, &candidates, options)?;
            table::print(*part, &cell, &rows);
            summary.add(&cell, &rows);
        }
        behind.extend(summary.print());
        println!("\nSamples: {}", samples.path().display());
    }
    if !behind.is_empty() {
        bail!("ours is behind, and no reason is known: {}", behind.join("; "));
    }
    Ok(())
}

/// Keeps the requested candidates, and always the floor to compare them with, or what stands for it.
fn asked_for(mut candidates: Vec<Candidate>, wanted: &[String]) -> Vec<Candidate> {
    let asked = |name: &str| {
        ["floor", gateways::NONE, gateways::OURS, replicas::ONE].contains(&name)
            || wanted.iter().any(|part| name.contains(part.as_str()))
    };
    candidates.retain(|candidate| wanted.is_empty() || asked(&candidate.name));
    candidates
}

#[cfg(test)]
mod tests {
    use super::{Options, Part};

    #[test]
    fn options_are_read_and_others_refused() {
        let options = Options::parse(&["servers", "--repetitions", "2", "--peers", "floor,ours"]).unwrap();
        assert_eq!(options.parts, [Part::Servers]);
        assert_eq!((options.repetitions, options.peers.len()), (2, 2));
        assert_eq!(Options::parse(&[]).unwrap().parts.len(), Part::ALL.len());
        for words in [&["--repetitions"][..], &["--repetitions", "0"], &["--seconds", "1e9"], &["--fast"]] {
            assert!(Options::parse(words).is_err(), "{words:?}");
        }
    }
}
