//! Tests of the era cache file: which entries it drops, and that invalid content has no effect.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mcpjoin::transport::ChildCommand;

use super::{CachedEra, ENTRY_TTL, FORMAT, MAX_ENTRIES, MAX_FILE_BYTES, fingerprint, is_valid, now};
use crate::cache_file::Servers;

type Eras = Servers<u64>;

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-era-cache-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn server(&self, server: &[u8]) -> CachedEra {
        let file = self.0.join("cache").join("mcpjoin").join("eras");
        let legacy = Eras::read(&file, &FORMAT)
            .is_some_and(|eras| eras.of(server).is_some_and(|time| is_valid(*time, now())));
        CachedEra { file, server: server.to_vec(), legacy }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_verdict_is_kept_corrected_and_bounded() {
    let folder = Folder::new("kept");
    assert!(!folder.server(b"a").is_legacy());
    folder.server(b"a").store(false);
    assert!(!folder.0.join("cache").exists(), "there was nothing to keep");

    folder.server(b"a").store(true);
    assert!(folder.server(b"a").is_legacy() && !folder.server(b"b").is_legacy());
    folder.server(b"a").store(false);
    assert!(!folder.server(b"a").is_legacy());

    for number in 0..MAX_ENTRIES + 10 {
        folder.server(&number.to_be_bytes()).store(true);
    }
    assert!(!folder.server(&9_usize.to_be_bytes()).is_legacy());
    assert!(folder.server(&10_usize.to_be_bytes()).is_legacy());
    let file = folder.server(b"a").file;
    assert!(fs::metadata(&file).unwrap().len() < MAX_FILE_BYTES);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let around = file.parent().unwrap();
    assert_eq!(fs::metadata(around).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(around).unwrap().count(), 1, "temporary files are left");
}

#[test]
fn a_file_of_64_kib_is_read_and_a_larger_one_is_none_of_ours() {
    let folder = Folder::new("large");
    let file = folder.0.join("eras");
    let begin = format!("{} {:032x}\n{} ", FORMAT.magic, 7, "0".repeat(64));
    // One entry, whose time is padded with zeros.
    let is_read = |bytes: usize| {
        fs::write(&file, format!("{begin}{:0>1$}\n", 1, bytes - begin.len() - 1)).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), bytes as u64);
        Eras::read(&file, &FORMAT).is_some()
    };
    assert!(is_read(65_536) && !is_read(65_537));
}

#[test]
fn a_verdict_ages_and_a_time_to_come_is_none() {
    let valid = ENTRY_TTL.as_secs();
    for (now, known) in [(999, false), (1000, true), (1000 + valid - 1, true), (1000 + valid, false)] {
        assert_eq!(is_valid(1000, now), known, "{now}");
    }
}

#[test]
fn arguments_are_not_in_the_file() {
    let folder = Folder::new("secret");
    folder.server(b"--token hunter2").store(true);
    let file = folder.server(b"").file;
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter2") && text.starts_with(FORMAT.magic), "{text}");
    // Another salt gives another hash, so that two files cannot be compared.
    let other = Folder::new("secret-other");
    other.server(b"--token hunter2").store(true);
    let other = fs::read_to_string(other.server(b"").file).unwrap();
    let hash = |text: &str| text.lines().nth(1).and_then(|line| line.split(' ').next()).map(str::to_owned);
    assert!(hash(&text).is_some() && hash(&text) != hash(&other), "{other}");
}

#[test]
fn i176_a_damaged_file_is_replaced_and_fails_nothing() {
    let folder = Folder::new("damaged");
    folder.server(b"a").store(true);
    let file = folder.server(b"a").file;
    let sound = fs::read(&file).unwrap();
    let mut damaged: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\xff\xfe".to_vec(),
        b"mcpjoin-eras-2 00\n".to_vec(),
        [sound.as_slice(), b"short 1\n"].concat(),
        [sound.as_slice(), &sound[sound.len() - 70..]].concat(),
        vec![b'x'; 1 << 20],
    ];
    damaged.extend((0..sound.len()).map(|end| sound[..end].to_vec()));
    for content in damaged {
        fs::write(&file, &content).unwrap();
        let _ = folder.server(b"a").is_legacy();
        folder.server(b"b").store(true);
        assert!(folder.server(b"b").is_legacy(), "{:?}", String::from_utf8_lossy(&content));
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    folder.server(b"a").store(true);
    assert!(!folder.server(b"a").is_legacy());
}

#[test]
fn i180_many_writers_at_once_leave_a_sound_file() {
    let folder = Folder::new("writers");
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let folder = &folder;
            scope.spawn(move || {
                for number in 0..20_u64 {
                    folder.server(&(thread * 100 + number).to_be_bytes()).store(true);
                }
            });
        }
    });
    let file = folder.server(b"").file;
    assert!(Eras::read(&file, &FORMAT).is_some());
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "temporary files are left");
}

#[test]
fn what_decides_which_server_it_is_decides_the_fingerprint() {
    let folder = Folder::new("fingerprint");
    let program = folder.0.join("program");
    let script = folder.0.join("script");
    fs::write(&program, "1").unwrap();
    fs::write(&script, "1").unwrap();
    for file in [&program, &script] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let print = |program: &str, args: &[&str], cwd: &Path, path: &str| {
        fingerprint(&ChildCommand::new(program).args(args).current_dir(cwd).env("PATH", path))
    };
    let here = folder.0.as_path();
    let path = here.to_str().unwrap();
    let usual = || print("program", &["a", "script"], here, path).unwrap();
    let first = usual();
    assert_eq!(first, usual());
    for other in [
        print("program", &["script", "a"], here, path),
        print("program", &["a script"], here, path),
        print("program", &["as", "cript"], here, path),
        print("program", &["a", "script"], Path::new("/"), path),
        print("script", &["a", "script"], here, path),
    ] {
        assert_ne!(first, other.unwrap());
    }
    // If no argument is a file, the hash does not depend on the directory.
    assert_eq!(
        print("program", &["-y", "pkg"], here, path),
        print("program", &["-y", "pkg"], Path::new("/"), path)
    );
    assert!(print("nothing", &[], here, path).is_none());
    assert!(print("program", &[], here, "/nowhere").is_none());
    assert!(print("./program", &[], here, "/nowhere").is_some());
    fs::write(&script, "22").unwrap();
    let second = usual();
    assert_ne!(first, second, "the script has changed");
    fs::write(&program, "22").unwrap();
    assert_ne!(second, usual(), "the program has changed");
}
