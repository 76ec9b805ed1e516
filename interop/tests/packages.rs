//! Installs the packages as users do, into an empty home directory and without the network, and runs the main commands from
//! there.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use interop::{MARK, running};

/// The folder that `cargo xtask dist --binary` has filled.
fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| interop::packages().unwrap())
}

/// The one file in that folder whose name has this suffix.
fn package(end: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(packages())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(end))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// An empty folder that is the home directory and working directory of all processes in it. It is removed at the end, and
/// none of these processes may still run.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mcpjoin-packages-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn mark(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn run(&self, program: impl AsRef<OsStr>, words: &[&str]) -> Output {
        let output = Command::new(&program)
            .args(words)
            .current_dir(&self.0)
            .env("HOME", &self.0)
            .env(MARK, self.mark())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let left = running(self.mark()).unwrap();
        assert!(left.is_empty(), "{words:?} left {left:?}");
        output
    }

    /// Runs the program, which must succeed, and returns its output.
    fn prints(&self, program: impl AsRef<OsStr>, words: &[&str]) -> String {
        let output = self.run(&program, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?} {words:?}: {}\n{said}", program.as_ref(), output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the main commands, with a `mcpjoin` that these words start.
    fn does_its_job(&self, program: impl AsRef<OsStr> + Copy, words: &[&str]) {
        let with = |more: &[&'static str]| [words, more].concat();
        let list = self.prints(program, &with(&["list", "demo:"]));
        assert!(list.contains("echo") && list.contains("translate"), "{list}");
        let said = self.prints(program, &with(&["call", "demo:", "echo", "message=a b\u{e9}"]));
        assert_eq!(said, "a b\u{e9}\n");
        let failed = self.run(program, &with(&["call", "demo:full", "test_error_handling"]));
        assert_eq!(failed.status.code(), Some(5), "the exit code comes through");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The folder of a failed test stays in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn npx_runs_the_folder_of_the_package() {
    let home = Home::new("npx");
    let folder = packages().join("npm/mcpjoin");
    home.does_its_job("npx", &["--yes", "--offline", folder.to_str().unwrap()]);
}

#[test]
fn npm_installs_the_package_and_the_one_for_this_platform() {
    let home = Home::new("npm");
    let folder = packages().join("npm");
    let packed = ["mcpjoin", "linux-x64"].map(|name| {
        let folder = folder.join(name);
        home.prints("npm", &["pack", "--silent", folder.to_str().unwrap()]).trim().to_owned()
    });
    let packed = packed.map(|file| format!("./{file}"));
    home.prints("npm", &["install", "--offline", "--no-audit", "--no-fund", &packed[0], &packed[1]]);
    let program = home.0.join("node_modules/.bin/mcpjoin");
    home.does_its_job(&program, &[]);
}

/// Anyone can publish a package with the platform's name without our scope.
#[test]
fn a_package_without_our_scope_is_never_run() {
    let home = Home::new("unscoped");
    let written = |path: &str, bytes: &[u8]| {
        let path = home.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    let starter = std::fs::read(packages().join("npm/mcpjoin/bin/mcpjoin.js")).unwrap();
    // Installed locally, globally, below a folder called npm, and unpacked in another place.
    for folder in ["node_modules", "lib/node_modules", "node_modules/npm", "npm/node_modules", "elsewhere"] {
        written(&format!("{folder}/mcpjoin/bin/mcpjoin.js"), &starter);
        written(&format!("{folder}/linux-x64/bin/mcpjoin"), b"#!/bin/sh\ntouch was-run\n");
        let starter = home.0.join(folder).join("mcpjoin/bin/mcpjoin.js");
        let output = home.run("node", &[starter.to_str().unwrap(), "--version"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{folder}: {said}");
        assert!(said.contains("mcpjoin has no binary for linux-x64"), "{folder}: {said}");
        assert!(!home.0.join("was-run").exists(), "{folder}");
    }
}

#[test]
fn pip_installs_the_wheel() {
    let home = Home::new("pip");
    home.prints("python3", &["-m", "venv", "venv"]);
    let wheel = package(".whl");
    let pip = home.0.join("venv/bin/pip");
    home.prints(&pip, &["install", "--quiet", "--no-index", wheel.to_str().unwrap()]);
    home.does_its_job(&home.0.join("venv/bin/mcpjoin"), &[]);
    let files = home.prints(&pip, &["show", "--files", "mcpjoin"]);
    assert!(files.contains("licenses/LICENSE-MIT"), "{files}");
    home.prints(&pip, &["uninstall", "--quiet", "--yes", "mcpjoin"]);
    assert!(!home.0.join("venv/bin/mcpjoin").exists());
}

#[test]
fn the_archive_has_everything_below_one_folder() {
    let home = Home::new("archive");
    let archive = package(".tar.gz");
    home.prints("tar", &["--extract", "--file", archive.to_str().unwrap()]);
    let name = archive.file_name().unwrap().to_str().unwrap().strip_suffix(".tar.gz").unwrap();
    let folder = home.0.join(name);
    home.does_its_job(&folder.join("mcpjoin"), &[]);
    for file in ["LICENSE-MIT", "completions/mcpjoin.bash", "man/mcpjoin.1", "man/mcpjoin-list.1"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let checked =
        Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(packages()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    assert_eq!(checked.stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
}
