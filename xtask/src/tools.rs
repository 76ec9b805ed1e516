//! `cargo xtask tools`: the programs that the tests start and that Rust, npm and PyPI do not install.
//!
//! A program on the PATH in a sufficient version is used. If it is missing and has a Debian package, the package is
//! downloaded and unpacked into the build folder without root; apt uses separate lists and a separate cache there. For all
//! other programs the command prints how to install them.

mod debian;
mod version;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use semver::Version;

use crate::interop;

/// A program that tests start.
struct Tool {
    name: &'static str,
    /// The possible places: a name is looked up on the PATH.
    places: &'static [&'static str],
    /// The argument that makes it print its version, on either output.
    version: &'static str,
    lowest: Version,
    /// The tests that need it.
    purpose: &'static str,
    /// The package of Debian and Ubuntu that contains it.
    package: &'static str,
    /// The program's path in the package, if it also runs from another folder.
    unpacked: Option<&'static str>,
}

/// The oldest version in a supported release (Debian 11, Ubuntu 20.04): nothing newer is needed.
const NGINX: Tool = Tool {
    name: "nginx",
    // On Debian, not every user has this folder on the PATH.
    places: &["nginx", "/usr/sbin/nginx"],
    version: "-v",
    lowest: Version::new(1, 18, 0),
    purpose: "the clients of several bridges, and the conformance suite through a reverse proxy",
    package: "nginx",
    unpacked: Some("usr/sbin/nginx"),
};

const TOOLS: [Tool; 6] = [
    NGINX,
    Tool {
        name: "redis-server",
        places: &["redis-server", "valkey-server"],
        version: "--version",
        // The scripts of `crates/redis` trim streams by the smallest id.
        lowest: Version::new(6, 2, 0),
        purpose: "the tests of the state that several bridges share",
        package: "redis-server",
        unpacked: Some("usr/bin/redis-server"),
    },
    Tool {
        name: "promtool",
        places: &["promtool"],
        version: "--version",
        lowest: Version::new(2, 15, 0),
        purpose: "the test of the metrics of a bridge",
        package: "prometheus",
        unpacked: Some("usr/bin/promtool"),
    },
    Tool {
        name: "cc",
        places: &["cc"],
        version: "--version",
        lowest: Version::new(7, 0, 0),
        purpose: "the cryptography of `ring`, which has parts in C",
        package: "gcc",
        unpacked: None,
    },
    Tool {
        name: "script",
        places: &["script"],
        version: "--version",
        lowest: Version::new(2, 34, 0),
        purpose: "terminals for the tests of the command line (util-linux)",
        package: "bsdutils",
        unpacked: None,
    },
    Tool {
        name: "git",
        places: &["git"],
        version: "--version",
        lowest: Version::new(2, 25, 0),
        purpose: "the list of files, and the server mcp-server-git",
        package: "git",
        unpacked: None,
    },
];

/// A program that was found, and the version that it printed.
struct Found {
    program: PathBuf,
    version: Version,
}

/// Prints each tool with its version and its place, downloads missing ones where possible, and fails if one is still missing.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = folder(root)?;
    let mut faults: Vec<String> =
        interop::missing().iter().map(|what| format!("{what} is missing")).collect();
    for tool in &TOOLS {
        match provide(tool, &folder) {
            Ok(Found { program, version }) => {
                println!("    {:<12} {:<10} {}", tool.name, version, program.display());
            }
            Err(error) => faults.push(format!("{}, for {}: {error:#}", tool.name, tool.purpose)),
        }
    }
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n    ")) }
}

/// The nginx of the tests.
///
/// # Errors
///
/// When no sufficient version is installed and `cargo xtask tools` has not downloaded one.
pub(crate) fn nginx(root: &Path) -> Result<PathBuf> {
    let found = look(&NGINX, &folder(root)?);
    found.map(|found| found.program).context("`cargo xtask tools` brings nginx and was not run")
}

/// The folder of the tools below the build folder.
pub(crate) fn folder(root: &Path) -> Result<PathBuf> {
    Ok(target(root)?.join("tools"))
}

/// The build folder.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    std::path::absolute(&target).with_context(|| format!("cannot tell where {} is", target.display()))
}

fn provide(tool: &Tool, folder: &Path) -> Result<Found> {
    match look(tool, folder) {
        Err(absent) => {
            let brought = match tool.unpacked {
                None => return Err(absent.context(by_hand(tool))),
                Some(inside) => debian::bring(tool.package, inside, &place(tool, folder), folder),
            };
            brought.with_context(|| format!("{absent:#}; {}", by_hand(tool)))?;
            look(tool, folder).with_context(|| by_hand(tool))
        }
        found => found,
    }
}

/// The first place with the tool in a sufficient version.
fn look(tool: &Tool, folder: &Path) -> Result<Found> {
    let mut older = None;
    let path = std::env::var_os("PATH");
    let installed = tool.places.iter().filter_map(|name| on_path(name, path.as_deref()));
    for program in installed.chain([place(tool, folder)]) {
        let Some(version) = printed(&program, tool.version).as_deref().and_then(version::first) else {
            continue;
        };
        if version >= tool.lowest {
            return Ok(Found { program, version });
        }
        older = Some(version);
    }
    match older {
        Some(version) => bail!("version {version} is older than {}", tool.lowest),
        None => bail!("not found"),
    }
}

/// The path of a downloaded tool.
fn place(tool: &Tool, folder: &Path) -> PathBuf {
    folder.join("bin").join(tool.name)
}

/// The program of that name in the folders of `path`; a path is returned unchanged.
fn on_path(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let folders = std::env::split_paths(path?);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn by_hand(tool: &Tool) -> String {
    let Tool { name, lowest, package, .. } = tool;
    format!("install {name} {lowest} or newer; on Debian or Ubuntu: apt-get install {package}")
}

/// The output of a program, from both outputs; `None` if it does not exist or fails.
fn printed(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(text)
}

/// Creates an empty folder, and removes an existing one first.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use super::{NGINX, Tool, Version, by_hand, look, place, provide};

    /// A folder of a test. It is removed when this value is dropped.
    pub(super) struct Folder(pub(super) PathBuf);

    impl Folder {
        pub(super) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-tools-{}-{name}", std::process::id()));
            super::empty(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// Writes a program that prints this line on standard error, like nginx.
    pub(super) fn program(at: &Path, line: &str) {
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, format!("#!/bin/sh\necho '{line}' >&2\n")).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn absent() -> Tool {
        Tool { places: &["no-such-nginx"], unpacked: None, ..NGINX }
    }

    #[test]
    fn a_tool_is_used_from_the_lowest_version_on() {
        let folder = Folder::new("lowest");
        assert_eq!(look(&absent(), &folder.0).err().unwrap().to_string(), "not found");
        let at = place(&absent(), &folder.0);
        program(&at, "nginx version: nginx/1.17.10");
        let older = look(&absent(), &folder.0).err().unwrap().to_string();
        assert_eq!(older, "version 1.17.10 is older than 1.18.0");
        program(&at, "nginx version: nginx/1.18.0 (Ubuntu)");
        let found = look(&absent(), &folder.0).unwrap();
        assert_eq!((found.program, found.version), (at, Version::new(1, 18, 0)));
    }

    #[test]
    fn what_cannot_be_brought_is_named_with_what_installs_it() {
        let folder = Folder::new("by-hand");
        let told = format!("{:#}", provide(&absent(), &folder.0).err().unwrap());
        assert!(told.starts_with(&by_hand(&absent())), "{told}");
        assert!(told.contains("apt-get install nginx") && told.contains("1.18.0"), "{told}");
        assert!(told.ends_with("not found"), "{told}");
    }
}
