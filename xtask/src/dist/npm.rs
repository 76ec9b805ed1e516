//! The npm packages: `mcpjoin`, a short script that starts the binary, and one package for each platform, which contains
//! the binary and is installed only on that platform.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::WITH_IT;
use super::binary::Binary;

/// The package with the binary for Linux on x86_64.
const PLATFORM: &str = "@mcpjoin/linux-x64";

/// Writes the packages side by side below `npm/`; returns the one that users install.
pub(super) fn pack(root: &Path, folder: &Path, binary: &Binary) -> Result<PathBuf> {
    let folder = folder.join("npm");
    let main = folder.join("mcpjoin");
    let platform = folder.join("linux-x64");
    for package in [&main, &platform] {
        fs::create_dir_all(package.join("bin"))?;
        for file in WITH_IT {
            fs::copy(root.join(file), package.join(file))?;
        }
    }
    let about = |name: &str, description: &str| {
        json!({
            "name": name,
            "version": binary.version,
            "description": description,
            "license": "MIT OR Apache-2.0",
            "repository": { "type": "git", "url": format!("git+{}.git", env!("CARGO_PKG_REPOSITORY")) },
        })
    };
    let mut package =
        about("mcpjoin", "Talk to Model Context Protocol servers, and know why when it does not work");
    package["bin"] = json!({ "mcpjoin": "bin/mcpjoin.js" });
    package["files"] = json!(["bin", "THIRD-PARTY.md"]);
    package["engines"] = json!({ "node": ">=18" });
    package["optionalDependencies"] = json!({ PLATFORM: binary.version });
    write(&main, &package)?;
    fs::write(main.join("bin/mcpjoin.js"), include_str!("mcpjoin.js"))?;

    let mut package = about(PLATFORM, "The binary of mcpjoin for Linux on x86_64");
    package["os"] = json!(["linux"]);
    package["cpu"] = json!(["x64"]);
    if binary.glibc.is_some() {
        package["libc"] = json!(["glibc"]);
    }
    package["files"] = json!(["bin", "THIRD-PARTY.md"]);
    write(&platform, &package)?;
    let program = platform.join("bin/mcpjoin");
    fs::write(&program, &binary.bytes)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(main)
}

fn write(folder: &Path, package: &Value) -> Result<()> {
    Ok(fs::write(folder.join("package.json"), format!("{package:#}\n"))?)
}
