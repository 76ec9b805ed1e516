//! Broken worlds, each diagnosed as what it is and alone, and a healthy one.

mod faults;
mod seats;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::World;

/// A text that has the form of a certificate.
pub(super) const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBdjCCAR2gAwIBAgIUQh1xZkQy3cZ8zFz1VvVQwqk9p0kwCgYIKoZIzj0EAwIwETEPMA0GA1UEAwwGdGVzdGVy\n\
    MIIBdjCCAR2gAwIBAgIUQh1xZkQy3cZ8zFz1VvVQwqk9p0kwCgYIKoZIzj0EAwIwETEPMA0GA1UEAwwGdGVzdGVy\n\
    -----END CERTIFICATE-----\n";

/// What Debian has.
const PROFILE: &str = r#"if [ "$(id -u)" -eq 0 ]; then
  PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
else
  PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
fi
export PATH
if [ "${PS1-}" ]; then
  if [ "${BASH-}" ] && [ "$BASH" != "/bin/sh" ]; then
    if [ -f /etc/bash.bashrc ]; then
      . /etc/bash.bashrc
    fi
  fi
fi
if [ -d /etc/profile.d ]; then
  for i in /etc/profile.d/*.sh; do
    if [ -r $i ]; then
      . $i
    fi
  done
  unset i
fi
"#;
const OWN_PROFILE: &str = r#"if [ -n "$BASH_VERSION" ]; then
    if [ -f "$HOME/.bashrc" ]; then
	. "$HOME/.bashrc"
    fi
fi
if [ -d "$HOME/.local/bin" ] ; then
    PATH="$HOME/.local/bin:$PATH"
fi
"#;
/// Lines that come after it are for terminals alone.
pub(super) const GUARD: &str = "case $- in\n    *i*) ;;\n      *) return;;\nesac\n";

/// A folder that is a world, gone with the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mcpjoin-world-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("home/u")).unwrap();
        Self(path)
    }

    /// A machine on which nothing is wrong, and which has a desktop.
    pub(super) fn healthy(name: &str) -> Self {
        let folder = Self::new(name);
        let user = rustix::process::geteuid().as_raw();
        folder.file("etc/profile", PROFILE);
        folder.file("etc/bash.bashrc", "[ -z \"$PS1\" ] && return\n");
        folder.file("etc/passwd", format!("u:x:{user}:{user}::/home/u:/bin/bash\n"));
        folder.file("etc/ssl/certs/ca-certificates.crt", CERTIFICATE.repeat(3));
        folder.file("home/u/.profile", OWN_PROFILE);
        folder.file("home/u/.bashrc", GUARD);
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

    /// Writes a script with its first line.
    pub(super) fn script(&self, path: &str, text: &str) {
        let path = self.file(path, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Writes a program that does this.
    pub(super) fn program(&self, path: &str, body: &str) {
        self.script(path, &format!("#!/bin/sh\n{body}\n"));
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).unwrap();
    }

    /// It, with a home and nothing of the machine that the test runs on.
    pub(super) fn world(&self) -> World {
        World::below(&self.0)
            .with_variable("HOME", "/home/u")
            .with_variable("PATH", "/usr/local/bin:/usr/bin:/bin")
            .with_open_files(Some(1024))
            .at_time(Duration::from_secs(1_800_000_000))
            .resolving(async |_| Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]))
            .looping(async |_| Ok(()))
    }
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
