//! Downloads a package of Debian or Ubuntu and its missing dependencies with apt, and unpacks them into a folder. Nothing is
//! installed, and root is not needed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{empty, on_path};

/// apt's record of installed packages: with it, only missing packages are downloaded.
const STATUS: &str = "/var/lib/dpkg/status";

/// Downloads a package, so that the program `inside` it can be started as `place`.
pub(super) fn bring(package: &str, inside: &str, place: &Path, folder: &Path) -> Result<()> {
    let (apt, dpkg) = programs(std::env::var_os("PATH").as_deref())?;
    let own = folder.join("apt");
    empty(&own)?;
    fs::create_dir_all(own.join("state/lists/partial"))?;
    fs::create_dir_all(own.join("cache/archives/partial"))?;
    let run = |words: &[&str]| said(Command::new(&apt).args(options(&own)).args(words));
    // One of the system's hooks may need root and fail although the lists were updated: only the download decides.
    let updated = run(&["update"]);
    let download = ["install", "--yes", "--download-only", "--no-install-recommends", package];
    if let Err(error) = run(&download) {
        return Err(match updated {
            Ok(()) => error,
            Err(first) => error.context(format!("{first:#}")),
        });
    }
    let unpacked = folder.join(package);
    empty(&unpacked)?;
    let archives = archives(&own.join("cache/archives"))?;
    if archives.is_empty() {
        bail!("apt has downloaded nothing: {package} counts as installed");
    }
    for archive in &archives {
        said(Command::new(&dpkg).arg("-x").arg(archive).arg(&unpacked))?;
    }
    let program = unpacked.join(inside);
    if !program.is_file() {
        bail!("{package} has no {inside}");
    }
    let text = launcher(&program, &libraries(&unpacked)?);
    fs::create_dir_all(place.parent().context("a tool lies in a folder")?)?;
    fs::write(place, text).with_context(|| format!("cannot write {}", place.display()))?;
    executable(place)?;
    // The lists take 60 MB and are outdated after a day.
    fs::remove_dir_all(&own).with_context(|| format!("cannot remove {}", own.display()))
}

/// The programs that download and unpack packages.
fn programs(path: Option<&OsStr>) -> Result<(PathBuf, PathBuf)> {
    match (on_path("apt-get", path), on_path("dpkg-deb", path)) {
        (Some(apt), Some(dpkg)) => Ok((apt, dpkg)),
        _ => bail!("there is no apt here that could download it"),
    }
}

/// Options of apt: our own lists, cache and locks, but the sources, keys and proxies of the system.
fn options(own: &Path) -> Vec<OsString> {
    let setting = |name: &str, path: &Path| {
        let mut setting = OsString::from(format!("{name}="));
        setting.push(path);
        setting
    };
    let settings = [
        setting("Dir::State", &own.join("state")),
        setting("Dir::State::status", Path::new(STATUS)),
        setting("Dir::Cache", &own.join("cache")),
        "Debug::NoLocking=1".into(),
        // When this runs as root: apt's unprivileged download user cannot write into our folder.
        "APT::Sandbox::User=root".into(),
        "Acquire::Languages=none".into(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
        "Acquire::Retries=3".into(),
    ];
    settings.into_iter().flat_map(|setting| ["-o".into(), setting]).collect()
}

/// A script that starts a program with the unpacked libraries.
fn launcher(program: &Path, libraries: &[PathBuf]) -> String {
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let folders = libraries.iter().map(|folder| quoted(folder)).collect::<Vec<_>>().join(":");
    let variable = match folders.as_str() {
        "" => String::new(),
        // An empty entry would mean the current directory.
        _ => format!("export LD_LIBRARY_PATH={folders}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\n"),
    };
    format!("#!/bin/sh\n{variable}exec {} \"$@\"\n", quoted(program))
}

/// The folders with shared libraries, in Debian's layout: `lib`, `usr/lib`, and one folder below for the architecture.
fn libraries(unpacked: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in ["lib", "usr/lib"].map(|name| unpacked.join(name)) {
        if folder.is_dir() {
            let below = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path()));
            let below = below.collect::<Result<Vec<_>>>()?;
            found.extend(below.into_iter().filter(|path| path.is_dir() && holds_libraries(path)));
            found.push(folder);
        }
    }
    found.sort();
    found.retain(|folder| holds_libraries(folder));
    Ok(found)
}

fn holds_libraries(folder: &Path) -> bool {
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().contains(".so"))
}

fn archives(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs a command; if it fails, the error contains its output.
fn said(command: &mut Command) -> Result<()> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    let output = output.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: {}: {}", output.status, said.trim().replace('\n', "; "));
    }
    Ok(())
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::super::tests::{Folder, program};
    use super::{executable, launcher, libraries, programs};

    #[test]
    fn without_apt_there_is_an_error_and_no_attempt() {
        let folder = Folder::new("no-apt");
        let path = folder.0.as_os_str();
        for path in [None, Some(OsStr::new("")), Some(path)] {
            let told = programs(path).err().unwrap().to_string();
            assert_eq!(told, "there is no apt here that could download it");
        }
        program(&folder.0.join("apt-get"), "");
        assert!(programs(Some(path)).is_err(), "dpkg-deb is missing");
        program(&folder.0.join("dpkg-deb"), "");
        assert_eq!(programs(Some(path)).unwrap().0, folder.0.join("apt-get"));
    }

    #[test]
    fn a_launcher_hands_over_words_and_names_the_libraries() {
        let folder = Folder::new("it's");
        let unpacked = folder.0.join("unpacked");
        for name in ["usr/lib/x86_64-linux-gnu/liba.so.1", "usr/lib/nginx/none.txt", "lib/libb.so"] {
            let path = unpacked.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let libraries = libraries(&unpacked).unwrap();
        assert_eq!(libraries, ["lib", "usr/lib/x86_64-linux-gnu"].map(|name| unpacked.join(name)));

        let place = folder.0.join("place");
        // Only an unset variable is left out: an empty entry would mean the caller's current directory.
        for (libraries, shown) in [
            (&libraries[..1], format!("{}/lib:/x [a b] [c]", unpacked.display())),
            (&[][..], "/x [a b] [c]".to_owned()),
        ] {
            fs::write(&place, launcher(Path::new("/bin/sh"), libraries)).unwrap();
            executable(&place).unwrap();
            let script = "echo \"$LD_LIBRARY_PATH [$1] [$2]\"";
            let ran = Command::new(&place)
                .args(["-c", script, "sh", "a b", "c"])
                .env("LD_LIBRARY_PATH", "/x")
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(ran.stdout).unwrap().trim_end(), shown);
        }
    }
}
