//! `cargo xtask wire`: generates the Rust code of Orchestra's messages from their schema, and checks that the committed code
//! is current.
//!
//! Needs no protoc: a Rust crate compiles the schema. None of this is part of a user's build; the generated code is
//! committed.

use std::path::Path;

use anyhow::{Context, Result, bail};
use prost_build::Module;

/// The folder of the schema and of the generated code.
const FOLDER: &str = "crates/orchestra/src/wire";
const SCHEMA: &str = "plugin.proto";
const GENERATED: &str = "generated.rs";
const PACKAGE: &str = "orchestra.plugin.v1";

/// The first lines of the generated file: the lints are the project's, the names are the schema's.
const HEAD: &str = "\
// Made by `cargo xtask wire --write` of plugin.proto. Change that.
";

/// Generates the code, and either compares it with the committed file or overwrites that file.
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
    // The crate has its own types for two types of google.protobuf: `Struct` never builds a tree.
    config.extern_path(".google.protobuf.Struct", "crate::value::Struct");
    config.extern_path(".google.protobuf.Timestamp", "crate::wire::Timestamp");
    config.bytes(["."]).btree_map(["."]);
    let ours = Module::from_protobuf_package_name(PACKAGE);
    // The imported files only provide names; their generated code is dropped, because the crate has its own types.
    let modules =
        descriptors.file.into_iter().map(|file| (Module::from_protobuf_package_name(file.package()), file));
    let mut made = config.generate(modules.collect()).context("the messages cannot be generated")?;
    let text = made.remove(&ours).context("the schema has no message")?;
    Ok(format!("{HEAD}{text}"))
}
