//! The archive: the binary, its licences, completions and manual pages, in one folder.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use super::WITH_IT;
use super::binary::Binary;

/// The completions, each with the file name that its shell expects.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "mcpjoin.bash"),
    ("elvish", "mcpjoin.elv"),
    ("fish", "mcpjoin.fish"),
    ("powershell", "_mcpjoin.ps1"),
    ("zsh", "_mcpjoin"),
];

/// Writes `mcpjoin-VERSION-TARGET.tar.gz`. The archive has no times and no owners, so the same binary gives the same
/// archive.
pub(super) fn pack(root: &Path, folder: &Path, binary: &Binary) -> Result<PathBuf> {
    let name = format!("mcpjoin-{}-{}", binary.version, binary.target);
    let path = folder.join(format!("{name}.tar.gz"));
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut archive = Builder::new(GzEncoder::new(file, Compression::best()));
    let mut add = |inside: &str, mode: u32, bytes: &[u8]| -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len().try_into()?);
        header.set_mode(mode);
        header.set_cksum();
        Ok(archive.append_data(&mut header, format!("{name}/{inside}"), bytes)?)
    };
    add("mcpjoin", 0o755, &binary.bytes)?;
    for file in WITH_IT {
        add(file, 0o644, &std::fs::read(root.join(file))?)?;
    }
    for (shell, file) in COMPLETIONS {
        add(&format!("completions/{file}"), 0o644, binary.prints(&["completions", shell])?.as_bytes())?;
    }
    let page = binary.prints(&["man"])?;
    add("man/mcpjoin.1", 0o644, page.as_bytes())?;
    for verb in verbs(&page) {
        let page = binary.prints(&["man", &verb])?;
        add(&format!("man/mcpjoin-{verb}.1"), 0o644, page.as_bytes())?;
    }
    archive.into_inner()?.finish()?.sync_all()?;
    Ok(path)
}

/// The verbs that the main page refers to.
fn verbs(page: &str) -> Vec<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("mcpjoin\\-")?.strip_suffix("(1)"))
        .map(|verb| verb.replace("\\-", "-"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::verbs;

    #[test]
    fn verbs_are_read_off_the_page() {
        assert_eq!(verbs(".TP\nmcpjoin\\-list(1)\nLists\n.TP\nmcpjoin\\-a\\-b(1)\n"), ["list", "a-b"]);
    }
}
