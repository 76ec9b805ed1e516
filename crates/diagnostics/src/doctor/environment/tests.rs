//! Tests of the doctor's checks of a machine: machines with one fault each, which is the only finding, and a healthy one.

mod faults;
mod paths;
mod shell;

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io};

use super::{World, system};

/// Text in the form of a certificate.
pub(super) const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBdjCCAR2gAwIBAgIUQh1xZkQy3cZ8zFz1VvVQwqk9p0kwCgYIKoZIzj0EAwIwETEPMA0GA1UEAwwGdGVzdGVy\n\
    MIIBdjCCAR2gAwIBAgIUQh1xZkQy3cZ8zFz1VvVQwqk9p0kwCgYIKoZIzj0EAwIwETEPMA0GA1UEAwwGdGVzdGVy\n\
    -----END CERTIFICATE-----\n";

/// The root folder of a simulated machine, removed on drop.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mcpjoin-world-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("home/u")).unwrap();
        Self(path)
    }

    /// A healthy machine with a desktop.
    pub(super) fn healthy(name: &str) -> Self {
        let folder = Self::new(name);
        folder.shell("/usr/local/bin:/usr/bin:/bin", "/usr/local/bin:/usr/bin:/bin");
        folder.file("etc/ssl/certs/ca-certificates.crt", CERTIFICATE.repeat(3));
        folder.file("usr/share/wayland-sessions/gnome.desktop", "[Desktop Entry]\n");
        folder.program("usr/bin/node", "echo v22.1.0");
        folder.script("usr/bin/npx", "#!/usr/bin/env node\n");
        folder.program("usr/bin/uvx", "echo 'uvx 0.8.2 (x86_64)'");
        fs::create_dir_all(folder.0.join("tmp")).unwrap();
        folder
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file.
    pub(super) fn file(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes an executable file.
    pub(super) fn script(&self, path: &str, text: &str) {
        let path = self.file(path, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Writes a shell script with this body.
    pub(super) fn program(&self, path: &str, body: &str) {
        self.script(path, &format!("#!/bin/sh\n{body}\n"));
    }

    /// Writes a login shell that sets `terminal` as `PATH` in a terminal, and `otherwise` elsewhere.
    pub(super) fn shell(&self, terminal: &str, otherwise: &str) {
        let body = format!("PATH={otherwise}\n[ \"$1\" = -ilc ] && PATH={terminal}\neval \"$2\"");
        self.program("bin/bash", &body);
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).unwrap();
    }

    /// The world below this folder, with a home, and without the variables of the test machine.
    pub(super) fn world(&self) -> World {
        let world = World {
            open_files: Some(1024),
            now: Duration::from_secs(1_800_000_000),
            loopback: Arc::new(|_| Box::pin(async { Ok(()) })),
            ..World::below(&self.0)
        };
        resolving(world, || Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]))
            .with_variable("HOME", "/home/u")
            .with_variable("SHELL", "/bin/bash")
            .with_variable("PATH", "/usr/local/bin:/usr/bin:/bin")
    }
}

/// A world in which every name has these addresses.
pub(super) fn resolving(
    world: World,
    addresses: impl Fn() -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
) -> World {
    World { resolve: Arc::new(move |_| Box::pin(std::future::ready(addresses()))), ..world }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_of_settings_has_2_mib_and_a_folder_10_000_names_at_most() {
    let folder = Folder::new("bounds");
    for (bytes, is_read) in [(2_097_152, true), (2_097_153, false)] {
        folder.file("large", vec![b'x'; bytes]);
        assert_eq!(folder.world().read(Path::new("/large")).is_some(), is_read, "{bytes}");
    }
    let one = folder.file("many/0", "");
    for number in 1..10_001 {
        fs::hard_link(&one, folder.0.join(format!("many/{number}"))).unwrap();
    }
    assert_eq!(folder.world().list(Path::new("/many")).len(), 10_000);
}

#[test]
fn a_folder_above_a_cache_keeps_its_owner() {
    let folder = Folder::new("cache-above");
    let ours = rustix::process::geteuid().as_raw();
    let world = World { user: ours + 1, ..folder.world() }.with_variable("HOME", "/nonexistent");
    let results = system::caches(&world);
    assert_eq!(results.findings.len(), 2);
    for (finding, cache) in results.findings.iter().zip([".npm", ".cache/uv"]) {
        assert!(!finding.advice.contains("chown"), "{}", finding.advice);
        assert!(finding.advice.contains(&format!("/nonexistent/{cache}, owned")), "{}", finding.advice);
    }
    // A cache that another user owns gets its owner back, also with special characters in its path.
    folder.file("home/u/a b's/x", "");
    let results = system::caches(&world.with_variable("npm_config_cache", "/home/u/a b's"));
    let advice = format!("sudo chown -R {} '/home/u/a b'\\''s'", ours + 1);
    assert_eq!(results.findings[0].advice, advice);
}
