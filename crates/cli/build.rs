//! Puts the unwinder into the program, instead of looking for `libgcc_s.so.1` at each of its starts.
//!
//! Measured: loading that one library is a tenth of the time from the start to the first answer. The program then needs
//! no library but the C library. What is linked is the same code from `libgcc_eh.a`, whose licence allows it (the GCC
//! Runtime Library Exception). Where the compiler has no such file, everything stays as it is.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    // Who builds for another system may have another compiler than `cc`; a static program looks for nothing.
    let is_usual = variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ENV") == "gnu"
        && variable("HOST") == variable("TARGET")
        && !variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    if !is_usual {
        return;
    }
    let Ok(found) = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output() else { return };
    let found = String::from_utf8_lossy(&found.stdout);
    let library = Path::new(found.trim());
    // A compiler that has none prints the name alone.
    if !library.is_absolute() || !library.is_file() {
        return;
    }
    let folder = variable("OUT_DIR");
    // Rust asks for `gcc_s`, and the first folder that has one wins. This one says where it is.
    let script = format!("INPUT(\"{}\")\n", library.display());
    if fs::write(Path::new(&folder).join("libgcc_s.a"), script).is_ok() {
        println!("cargo::rustc-link-search=native={folder}");
    }
}
