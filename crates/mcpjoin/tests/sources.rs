//! Checks of the source text for calls whose harm no test of behaviour can show.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// These files may sleep on a thread. The keeper of the children has its own thread, the guard its own process, and the
/// wait for the lock of a certificate folder a blocking thread: the system gives them no event to wait for, so they poll.
/// The trust list is locked where the command line waits for a user anyway, and the second signal has a thread.
const THEIR_OWN: [&str; 5] = [
    "mcpjoin/src/process/supervisor.rs",
    "mcpjoin/src/process/guard.rs",
    "orchestra/src/certs/directory.rs",
    "cli/src/config/trust.rs",
    "cli/src/connect/signals.rs",
];

/// These files may use calendar time: for the dates of tasks, which the specification requires as text, the validity of
/// certificates, the clock checks of the doctor, the expiry of tokens and secrets, which is stored for longer than any
/// process runs, and the age of a state that another replica has sealed.
const DATES: [&str; 6] = [
    "auth/src/",
    "diagnostics/src/doctor/http/exchanges.rs",
    "mcpjoin/src/seal.rs",
    "mcpjoin/src/server/task/time.rs",
    "quic/src/endpoint/tls/time.rs",
    "diagnostics/src/doctor/environment/world.rs",
];

/// Every source file of these folders, with its text.
fn all(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for folder in folders {
        sources(&crates.join(folder), &mut files);
    }
    assert!(files.len() > 100, "{} files", files.len());
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Checks that only these files and folders use one of these words.
fn only(words: &[&str], folders: &[&str], allowed: &[&str]) {
    for (path, text) in all(folders) {
        let found = words.iter().find(|word| text.contains(**word));
        let text_of_path = path.to_string_lossy();
        let allowed = allowed.iter().any(|allowed| match allowed.ends_with('/') {
            true => text_of_path.contains(allowed),
            false => path.ends_with(allowed),
        });
        assert!(found.is_none() || allowed, "{found:?} stands in {}", path.display());
    }
}

/// A thread that sleeps blocks its runtime. A start-up check that polls is late by half the pause on average.
#[test]
fn f36_nothing_sleeps_on_its_thread() {
    only(
        &["thread::sleep", "park_timeout"],
        &["proto/src", "mcpjoin/src", "auth/src", "cli/src"],
        &THEIR_OWN,
    );
}

/// A change of the system clock, or a clock that goes on while the machine sleeps, must not end a call: deadlines use
/// monotonic clocks.
#[test]
fn e99_no_deadline_is_kept_by_a_clock_that_can_be_set() {
    only(&["SystemTime"], &["proto/src", "mcpjoin/src", "auth/src"], &DATES);
}

// ---------------------------------------------------------------------------------------------------------------------
// Links in the guides.

/// Where the files of the repository are for those who do not have it.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// A link in a page of Markdown.
#[derive(Debug, PartialEq)]
struct PageLink {
    /// The text that a reference is found by. `None` for a link that has its target with it.
    label: Option<String>,
    target: String,
}

/// The targets of the links in a page: `[text](target)`, and definitions of references.
fn page_links(page: &str) -> Vec<PageLink> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        if let Some((label, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            links.push(PageLink { label: Some(label.to_owned()), target: target.trim().to_owned() });
            continue;
        }
        for part in line.split("](").skip(1) {
            let target = part.split(')').next().unwrap().to_owned();
            links.push(PageLink { label: None, target });
        }
    }
    links
}

/// The name of a heading in an address, as GitHub and rustdoc make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// What is wrong with a target that stands for a file of the repository: `path` and, behind `#`, a heading.
fn fault_of_file(root: &Path, target: &str) -> Option<String> {
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = root.join(path);
    if !path.exists() {
        return Some(format!("{} does not exist", path.display()));
    }
    if fragment.is_empty() || path.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let page = std::fs::read_to_string(&path).unwrap();
    let mut headings = page.lines().filter(|line| line.starts_with('#'));
    let found = headings.any(|line| anchor(line.trim_start_matches('#')) == fragment);
    (!found).then(|| format!("{} has no heading #{fragment}", path.display()))
}

/// The guides are read in the repository and in the documentation of the crate, where a relative address leads nowhere. So a
/// link is a complete address, or a reference that `guide.rs` defines as well.
#[test]
fn links_of_the_guides_work_in_the_repository_and_in_the_documentation() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.join("../..");
    let guides = std::fs::read_to_string(own.join("src/guide.rs")).unwrap();
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(own.join("docs")).unwrap().map(|page| page.unwrap().path()).collect();
    pages.push(own.join("README.md"));
    let mut to_repository = 0;
    for page in &pages {
        let name = page.file_name().unwrap().to_str().unwrap();
        let mut faults = Vec::new();
        for link in page_links(&std::fs::read_to_string(page).unwrap()) {
            let PageLink { label, target } = &link;
            if let Some(rest) = target.strip_prefix(REPOSITORY) {
                let path = ["/blob/main/", "/tree/main/"].iter().find_map(|tree| rest.strip_prefix(tree));
                to_repository += 1;
                faults.extend(path.map_or_else(
                    || Some(format!("{target} is no file of the branch `main`")),
                    |path| fault_of_file(&root, path),
                ));
            } else if target.starts_with('#') {
                faults.extend(fault_of_file(page.parent().unwrap(), &format!("{name}{target}")));
            } else if !target.starts_with("https://") {
                faults.extend(fault_of_file(page.parent().unwrap(), target));
                let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
                let hash = if fragment.is_empty() { "" } else { "#" };
                let module = file.trim_end_matches(".md").replace('-', "_");
                let label = label.as_deref().unwrap_or_default();
                // rustdoc checks that there is such a module.
                let definition = format!("/// [{label}]: crate::guide::{module}{hash}{fragment}\n");
                let before = format!("#[doc = include_str!(\"../docs/{name}\")]");
                let defined = guides.split(&before).next().unwrap();
                let defined = defined.rsplit("pub mod ").next().unwrap();
                if label != file || !guides.contains(&before) || !defined.contains(&definition) {
                    faults.push(format!("{target} leads nowhere on docs.rs"));
                }
            }
        }
        assert!(faults.is_empty(), "{}: {faults:#?}", page.display());
    }
    assert!(to_repository >= 15, "the guides link to {to_repository} files");
}

#[test]
fn the_links_of_a_page_are_found() {
    let link = |label: Option<&str>, target: &str| PageLink {
        label: label.map(ToOwned::to_owned),
        target: target.to_owned(),
    };
    let page = "see [a](b.md#c) and [`d`](https://e).\n```rust\n[x](y)\n```\n[f.md]: f.md#g\n";
    let expected = [link(None, "b.md#c"), link(None, "https://e"), link(Some("f.md"), "f.md#g")];
    assert_eq!(page_links(page), expected);
    assert_eq!(anchor(" Messages: a queue, a `port`"), "messages-a-queue-a-port");
    assert!(fault_of_file(Path::new(env!("CARGO_MANIFEST_DIR")), "README.md#nothing").is_some());
    assert!(fault_of_file(Path::new(env!("CARGO_MANIFEST_DIR")), "NOTHING.md").is_some());
}
