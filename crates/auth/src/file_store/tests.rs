//! Tests of the file store: its files, permissions, locks, and limits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::*;

const SERVER: &str = "https://s.example/mcp";

/// A folder for this test alone, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-store-{}", random().unwrap()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    fn store(&self) -> FileStore {
        FileStore::at(self.0.join("a/auth"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sets the umask of the process until it is dropped.
struct Umask(rustix::fs::Mode);

impl Umask {
    fn set(mask: u32) -> Self {
        Self(rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask)))
    }
}

impl Drop for Umask {
    fn drop(&mut self) {
        rustix::process::umask(self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn files(store: &FileStore) -> Vec<PathBuf> {
    let entries = fs::read_dir(&store.folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() != "lock").collect()
}

#[tokio::test]
async fn g139_a_login_is_for_its_owner_alone_and_replaced_whole() {
    let folder = Folder::new();
    let store = folder.store();
    assert_eq!(store.load(SERVER).await.unwrap(), None);
    assert!(!store.remove(SERVER).await.unwrap());
    assert!(store.servers().await.unwrap().servers.is_empty());
    assert!(!store.folder.exists(), "nothing is made before something is saved");
    for (text, mask) in [("hunter2", 0o000), ("hunter3", 0o077)] {
        let umask = Umask::set(mask);
        store.save(SERVER, text.into()).await.unwrap();
        drop(umask);
        assert_eq!(store.load(SERVER).await.unwrap().unwrap().expose(), text);
        let [path] = &files(&store)[..] else { panic!("one file") };
        assert_eq!((mode(path), mode(&store.folder)), (0o600, 0o700));
        assert!(!path.to_string_lossy().contains("s.example"));
    }
    // A reader with the old file open reads the old text to its end: the new text is in another file.
    let before = fs::File::open(&files(&store)[0]).unwrap();
    store.save(SERVER, "hunter4".into()).await.unwrap();
    assert_eq!(io::read_to_string(before).unwrap(), "hunter3");
    assert_eq!(store.load("https://other.example/").await.unwrap(), None);
    assert!(store.remove(SERVER).await.unwrap());
    assert_eq!(store.load(SERVER).await.unwrap(), None);
}

#[tokio::test]
async fn a_tested_store_reports_the_problem_and_leaves_no_login() {
    let folder = Folder::new();
    let store = folder.store();
    TokenStore::check(&store, SERVER).await.unwrap();
    assert!(files(&store).is_empty());
    fs::remove_dir_all(&store.folder).unwrap();
    fs::write(&store.folder, "a file").unwrap();
    let error = TokenStore::check(&store, SERVER).await.unwrap_err();
    assert!(matches!(error, StoreError::Unsafe { .. }), "{error}");
}

#[tokio::test]
async fn g139_what_others_could_have_put_there_is_neither_read_nor_written() {
    let folder = Folder::new();
    let store = folder.store();
    store.save(SERVER, "hunter2".into()).await.unwrap();
    let path = files(&store).remove(0);
    let refused = async |what: &str| {
        for error in [store.load(SERVER).await.map(drop), store.save(SERVER, "x".into()).await] {
            let error = error.unwrap_err();
            assert!(matches!(error, StoreError::Unsafe { .. }), "{what}: {error}");
            assert!(!error.to_string().contains("hunter"));
        }
    };
    // A symbolic link in place of the file.
    let aside = folder.0.join("aside");
    fs::rename(&path, &aside).unwrap();
    symlink(&aside, &path).unwrap();
    refused("a link").await;
    assert_eq!(fs::read_to_string(&aside).unwrap(), "hunter2");
    // A folder in place of the file.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("a folder").await;
    fs::remove_dir(&path).unwrap();
    // A file that other users can read.
    fs::rename(&aside, &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = store.load(SERVER).await.unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
    // The faulty file does not affect the logins of other servers.
    let other = "https://other.example/";
    store.save(other, format!("{{\"format\":1,\"server\":\"{other}\"}}").into()).await.unwrap();
    let kept = store.servers().await.unwrap();
    assert_eq!(kept.servers, [other]);
    assert_eq!(kept.unread.iter().map(ToString::to_string).collect::<Vec<_>>(), [error.to_string()]);
    store.remove(other).await.unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    store.load(SERVER).await.unwrap().unwrap();
    // A folder that other users can write to, and a link in place of the folder.
    for bits in [0o777, 0o720] {
        fs::set_permissions(&store.folder, fs::Permissions::from_mode(bits)).unwrap();
        refused("a folder for all").await;
        assert!(store.lock(SERVER).await.is_err() && store.servers().await.is_err());
    }
    fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o700)).unwrap();
    let moved = folder.0.join("moved");
    fs::rename(&store.folder, &moved).unwrap();
    symlink(&moved, &store.folder).unwrap();
    refused("a link to a folder").await;
    fs::remove_file(&store.folder).unwrap();
    fs::rename(&moved, &store.folder).unwrap();
    // A folder of another user: one of root's if we are not root, or one that root gives to another user.
    let us = rustix::process::geteuid();
    if us.is_root() {
        rustix::fs::chown(&path, Some(rustix::fs::Uid::from_raw(65_534)), None).unwrap();
        refused("another user's").await;
    } else {
        let found = fs::metadata("/").unwrap();
        assert!(safety::check(Path::new("/"), &found, 0).is_err(), "root's");
    }
}

#[tokio::test]
async fn g139_a_login_that_is_too_long_is_neither_read_nor_written() {
    let folder = Folder::new();
    let store = folder.store();
    let long = "x".repeat(usize::try_from(MAX_LOGIN_BYTES).unwrap() + 1);
    assert!(store.save(SERVER, Secret::new(long.clone())).await.is_err());
    store.save(SERVER, "short".into()).await.unwrap();
    let path = files(&store).remove(0);
    fs::write(&path, long).unwrap();
    assert!(store.load(SERVER).await.is_err());
}

#[tokio::test]
async fn i180_one_at_a_time_has_the_lock_and_the_next_one_waits_for_it() {
    let folder = Folder::new();
    let (one, other) = (folder.store(), folder.store());
    let held = one.lock(SERVER).await.unwrap();
    // Another server has another lock.
    drop(other.lock("https://other.example/").await.unwrap());
    let other = Arc::new(other);
    let waiter = other.clone();
    let mut waiting = Box::pin(async move { waiter.lock(SERVER).await });
    assert!((&mut waiting).now_or_never().is_none());
    drop(held);
    let second = waiting.await.unwrap();
    drop(second);
    drop(one.lock(SERVER).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn i180_a_lock_that_is_never_given_back_is_waited_for_a_minute() {
    let folder = Folder::new();
    let store = folder.store();
    let _held = store.lock(SERVER).await.unwrap();
    let error = folder.store().lock(SERVER).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
}

#[tokio::test]
async fn i180_many_who_read_and_write_at_once_always_find_a_whole_login() {
    let folder = Folder::new();
    let store = folder.store();
    let text = |n: usize| Secret::new(n.to_string().repeat(10_000));
    store.save(SERVER, text(0)).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..5 {
                store.save(SERVER, text(n)).await.unwrap();
                let found = store.load(SERVER).await.unwrap().unwrap();
                let first = &found.expose()[..1];
                assert_eq!(found.expose(), first.repeat(10_000));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(files(&store).len(), 1, "nothing is left over");
}

#[tokio::test]
async fn g139_what_a_killed_process_has_left_of_a_login_is_forgotten_with_it() {
    let folder = Folder::new();
    let store = folder.store();
    let other = "https://other.example/";
    for server in [SERVER, other] {
        store.save(server, "hunter2".into()).await.unwrap();
        fs::write(store.file(server, "abc.new"), "hunter3").unwrap();
    }
    assert!(store.remove(SERVER).await.unwrap());
    let mut left = files(&store);
    left.sort();
    assert_eq!(left, [store.file(other, "abc.new"), store.file(other, "json")]);
    // The lock file is removed too when it is the only file left.
    fs::remove_file(store.file(other, "json")).unwrap();
    assert!(store.remove(other).await.unwrap());
    assert!(files(&store).is_empty());
}

#[tokio::test]
async fn ten_thousand_files_of_a_folder_are_looked_at_and_more_are_said_to_be_there() {
    let folder = Folder::new();
    let store = folder.store();
    store.save(SERVER, "hunter2".into()).await.unwrap();
    let one = store.folder.join("0.lock");
    fs::write(&one, "").unwrap();
    // With the two existing files these are 10,000.
    for n in 2..10_000 {
        fs::hard_link(&one, store.folder.join(format!("{n}.lock"))).unwrap();
    }
    assert_eq!(store.servers().await.unwrap().unread.len(), 0);
    fs::hard_link(&one, store.folder.join("more.lock")).unwrap();
    let unread = store.servers().await.unwrap().unread;
    let words = format!("{} has more than 10000 files: the rest are ignored", store.folder.display());
    assert_eq!(unread.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
}
