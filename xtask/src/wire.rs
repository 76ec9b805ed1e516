//! `cargo xtask wire`: makes the Rust of Orchestra's messages of their schema, and says when what is kept is another.
//!
//! Needs no protoc: the schema is read by a compiler that is a Rust crate. Nothing of this is part of what users build;
//! the result is checked in.

use std::path::Path;

use anyhow::{Context, Result, bail};
use prost_build::Module;

/// Where the schema lies, what is made of it, and what it is called.
const FOLDER: &str = "crates/orchestra/src/wire";
const SCHEMA: &str = "plugin.proto";
const GENERATED: &str = "generated.rs";
const PACKAGE: &str = "orchestra.plugin.v1";

/// What stands above the messages: the lints are the project's, the names are the schema's.
const HEAD: &str = "\
// Made by `cargo xtask wire --write` of plugin.proto. Change that.
";

/// Makes it and compares it with what is kept, or keeps it.
pub(crate) fn run(root: &Path, write: bool) -> Result<()> {
    let folder = root.join(FOLDER);
    let kept = folder.join(GENERATED);
    let made = made(&folder)?;
    if write {
        return std::fs::write(&kept, made).with_context(|| format!("cannot write {}", kept.display()));
    }
    let found = std::fs::read_to_string(&kept).with_context(|| format!("cannot read {}", kept.display()))?;
    if found == made {
        println!("    {} bytes of Rust, as {SCHEMA} gives them", made.len());
        return Ok(());
    }
    let line = found.lines().zip(made.lines()).take_while(|(found, made)| found == made).count() + 1;
    bail!("{FOLDER}/{GENERATED}:{line} is not what {SCHEMA} gives: `cargo xtask wire --write` makes it anew")
}

fn made(folder: &Path) -> Result<String> {
    let descriptors =
        protox::compile([SCHEMA], [folder]).map_err(|error| anyhow::anyhow!("{FOLDER}/{SCHEMA}: {error}"))?;
    let mut config = prost_build::Config::new();
    // The two types of google.protobuf are ours: `Struct` never builds a tree.
    config.extern_path(".google.protobuf.Struct", "crate::value::Struct");
    config.extern_path(".google.protobuf.Timestamp", "crate::wire::Timestamp");
    config.bytes(["."]).btree_map(["."]);
    let ours = Module::from_protobuf_package_name(PACKAGE);
    // The files that the schema imports are there to be known; what is made of them is ours already.
    let modules =
        descriptors.file.into_iter().map(|file| (Module::from_protobuf_package_name(file.package()), file));
    let mut made = config.generate(modules.collect()).context("the messages cannot be generated")?;
    let text = made.remove(&ours).context("the schema has no message")?;
    Ok(format!("{HEAD}{text}"))
}
