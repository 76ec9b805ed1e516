//! The wheel for PyPI: the binary as a script, so that `pip install` puts it on PATH
//! (<https://packaging.python.org/en/latest/specifications/binary-distribution-format/>).

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::binary::Binary;

/// Writes the wheel.
pub(super) fn pack(root: &Path, folder: &Path, binary: &Binary) -> Result<PathBuf> {
    let tag = format!("py3-none-{}", platform(binary));
    let stem = format!("mcpjoin-{}", binary.version);
    let path = folder.join(format!("{stem}-{tag}.whl"));
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut wheel = Wheel { zip: ZipWriter::new(file), record: String::new() };
    wheel.add(&format!("{stem}.data/scripts/mcpjoin"), 0o755, &binary.bytes)?;
    let info = format!("{stem}.dist-info");
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        wheel.add(&format!("{info}/licenses/{licence}"), 0o644, &std::fs::read(root.join(licence))?)?;
    }
    let readme = complete_links(&std::fs::read_to_string(root.join("README.md"))?);
    wheel.add(&format!("{info}/METADATA"), 0o644, metadata(binary, &readme).as_bytes())?;
    let about = format!("Wheel-Version: 1.0\nGenerator: mcpjoin xtask\nRoot-Is-Purelib: false\nTag: {tag}\n");
    wheel.add(&format!("{info}/WHEEL"), 0o644, about.as_bytes())?;
    wheel.finish(&format!("{info}/RECORD"))?;
    Ok(path)
}

/// The systems that may install the wheel, as a platform tag of pip. The version of the C library is part of the tag.
fn platform(binary: &Binary) -> String {
    match binary.glibc {
        Some((major, minor)) => format!("manylinux_{major}_{minor}_x86_64"),
        None => "manylinux_2_17_x86_64.musllinux_1_1_x86_64".to_owned(),
    }
}

/// The page with its links to files of the repository as complete addresses: PyPI shows the page without those files.
fn complete_links(page: &str) -> String {
    let mut parts = page.split("](");
    let mut complete = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The text before a link begins with `![` where the link is a picture.
        let is_picture = complete.rsplit_once('[').is_some_and(|(before, _)| before.ends_with('!'));
        let tree = if is_picture { "raw" } else { "blob" };
        complete.push_str("](");
        if !part.starts_with("http") && !part.starts_with('#') {
            complete.push_str(&format!("{}/{tree}/main/", env!("CARGO_PKG_REPOSITORY")));
        }
        complete.push_str(part);
    }
    complete
}

fn metadata(binary: &Binary, readme: &str) -> String {
    format!(
        "Metadata-Version: 2.4\nName: mcpjoin\nVersion: {}\n\
         Summary: Talk to Model Context Protocol servers, and know why when it does not work\n\
         License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n\
         Project-URL: Source, {}\nDescription-Content-Type: text/markdown\n\n{readme}",
        binary.version,
        env!("CARGO_PKG_REPOSITORY"),
    )
}

struct Wheel {
    zip: ZipWriter<File>,
    /// Every file with its digest, as the format requires.
    record: String,
}

impl Wheel {
    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .unix_permissions(mode);
        self.zip.start_file(name, options)?;
        self.zip.write_all(bytes)?;
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        writeln!(self.record, "{name},sha256={digest},{}", bytes.len())?;
        Ok(())
    }

    fn finish(mut self, name: &str) -> Result<()> {
        let record = format!("{}{name},,\n", self.record);
        self.zip.start_file(name, SimpleFileOptions::default().unix_permissions(0o644))?;
        self.zip.write_all(record.as_bytes())?;
        Ok(self.zip.finish()?.sync_all()?)
    }
}

#[cfg(test)]
mod tests {
    use super::complete_links;

    #[test]
    fn links_to_files_of_the_repository_are_complete_addresses() {
        let page = "![a picture](docs/a.svg) [a page](docs/b.md#c), [here](#d), [`e`](https://f)";
        let repository = env!("CARGO_PKG_REPOSITORY");
        let expected = format!(
            "![a picture]({repository}/raw/main/docs/a.svg) [a page]({repository}/blob/main/docs/b.md#c), [here](#d), \
             [`e`](https://f)"
        );
        assert_eq!(complete_links(page), expected);
    }
}
