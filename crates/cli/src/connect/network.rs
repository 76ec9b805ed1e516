//! Servers that are reached over HTTP, QUIC and Orchestra: from an address and the options for it to what connects.
//!
//! Called by `connect::plan`, and for files and certificates by the commands. A file that an option names is read up to a
//! limit: a device or a pipe may have no end. No value of a header is put into a message, since it may be a secret.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use mcpjoin::Link;
use mcpjoin::transport::{HttpConnect, HttpSetupError};
use mcpjoin_auth::PrivateKey;
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_quic::QuicConnect;
use mcpjoin_quic::endpoint::{Authorities, CertificateError, Identity, Trust};

use super::authorization::Access;
use crate::args::Connect;
use crate::config::Remote;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::found;
use crate::secret;
use crate::target::{Quic, path_shown, shown};
use crate::ui::Ui;

/// The largest file of certificates. The authorities that an operating system brings have a tenth of that.
pub(super) const MAX_CERTIFICATES_BYTES: u64 = 4 << 20;
/// The largest file of headers: servers accept no more than that in one request.
const MAX_HEADERS_BYTES: u64 = 64 << 10;
/// The maximum size of a file with a secret or a key.
const MAX_SECRET_BYTES: u64 = 64 << 10;
const HEADER_FORM: &str = "use --header 'Name: value', or --header @FILE with one header per line";
const CA_FORM: &str = "--ca FILE, where FILE is in PEM";

/// What connects over HTTP, the authorization, and the values that are secrets. A typed header replaces the header of the same
/// name in the entry. `named`: the entry as the user would type it.
pub(super) fn http(
    ui: &Ui,
    remote: &Remote,
    connect: &Connect,
    named: Option<&str>,
) -> Result<(HttpConnect, Access, Vec<OsString>), Failure> {
    let address = &remote.address;
    let typed = headers(ui, &connect.header)?;
    let is_typed = |name: &str| typed.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let entry = remote.headers.iter().filter(|(name, _)| !is_typed(name));
    let mut link = Link::http(&address.url);
    let mut secrets = secret::values(&[OsString::from(&address.url)]);
    let mut has_header = false;
    for (name, value) in entry.chain(&typed) {
        has_header |= name.eq_ignore_ascii_case("authorization");
        secrets.extend(secret::of_header(name, value));
        link = link.header(name, value);
    }
    if address.sse {
        link = link.legacy_sse();
    }
    let extra_ca = connect.ca.as_deref().map(|path| certificates("--ca", path)).transpose()?;
    if let Some(pem) = &extra_ca {
        link = link.extra_ca(pem.clone());
    }
    if let Some(time) = connect.connect_timeout {
        link = link.connect_timeout(time);
    }
    let access = Access::new(ui, remote, connect, has_header, extra_ca, named)?;
    if let Some(credentials) = access.credentials() {
        link = link.credentials(credentials);
    }
    Ok((link, access, secrets))
}

/// What connects over QUIC.
pub(super) fn quic(quic: &Quic, connect: &Connect) -> Result<QuicConnect, Failure> {
    let trust = match (&connect.pin, &connect.ca) {
        (Some(pin), _) => Trust::Key(pin.0),
        (None, Some(path)) => {
            let authorities = Authorities::from_file(path);
            Trust::Authorities(authorities.map_err(|error| Failure::usage(error.to_string(), CA_FORM))?)
        }
        (None, None) => {
            return Err(Failure::usage(
                format!("the identity of {quic} is unknown"),
                "--pin sha256:HEX, the server's key from its output, or --ca FILE with the authorities \
                 that signed its certificate; in an entry, pin or ca",
            ));
        }
    };
    let mut link = mcpjoin_quic::connect(&quic.0, trust);
    if let (Some(certificate), Some(key)) = (&connect.cert, &connect.key) {
        link = link.identity(Identity::from_files(certificate, key).map_err(|error| unusable(&error))?);
    }
    if let Some(time) = connect.connect_timeout {
        link = link.timeout(time);
    }
    Ok(link)
}

/// The failure of settings that make no HTTP client.
pub(crate) fn refused(error: &HttpSetupError) -> Failure {
    let hint = match error {
        HttpSetupError::Header { .. } => "remove or correct that header",
        HttpSetupError::Certificate(_) => CA_FORM,
        HttpSetupError::Client(_) => "check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
        _ => "http://host:port/path",
    };
    Failure::usage(error.to_string(), hint)
}

/// The failure of a certificate or key of ours that cannot be used.
pub(crate) fn unusable(error: &CertificateError) -> Failure {
    Failure::usage(
        error.to_string(),
        "use --cert FILE --key FILE, both in PEM, the key readable only by \
        you (chmod 600)",
    )
}

/// The folder of certificates for Orchestra: `named`, or the one that Orchestra's own programs use. It need not exist.
pub(crate) fn certificates_folder(named: Option<&str>) -> Result<PathBuf, Failure> {
    let folder = Certificates::directory_named(named.unwrap_or_default())
        .map_err(|error| Failure::usage(error.to_string(), "--certs-dir DIR"))?;
    if folder.exists() && !folder.is_dir() {
        let problem = format!("{} is a file, not a folder of certificates", shown(folder.as_os_str()));
        return Err(Failure::new("E_CERTIFICATE", Exit::Usage, Phase::Usage, problem)
            .hint("--certs-dir DIR is the folder with ca.crt and the other certificates"));
    }
    Ok(folder)
}

/// The certificates for Orchestra that the options name: those of a folder, with other files in their place.
pub(crate) fn orchestra_certificates(connect: &Connect) -> Result<Certificates, Failure> {
    let mut certificates = Certificates::in_directory(certificates_folder(connect.certs_dir.as_deref())?);
    if let Some(file) = &connect.ca {
        certificates = certificates.ca(file);
    }
    if let (Some(certificate), Some(key)) = (&connect.cert, &connect.key) {
        certificates = certificates.pair(certificate, key);
    }
    Ok(match &connect.server_name {
        Some(name) => certificates.server_name(name),
        None => certificates,
    })
}

/// The PEM file of authorities that the option names.
pub(crate) fn certificates(option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    read_file(path, MAX_CERTIFICATES_BYTES).map_err(|why| {
        let problem = format!("the certificates in {} cannot be read: {why}", shown(path.as_os_str()));
        Failure::usage(problem, format!("{option} FILE, where FILE is in PEM"))
    })
}

/// Warns once of a file with secrets that other users of the machine can read.
fn warn_of_readers(ui: &Ui, path: &Path) {
    if is_readable_by_others(path) {
        ui.warning_once(&format!(
            "other users can read {}, which holds secrets (chmod 600)",
            path_shown(path)
        ));
    }
}

/// Whether others can read a file, as its permissions say. A pipe has no readers but us.
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        const READABLE_BY_OTHERS: u32 = 0o004;
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & READABLE_BY_OTHERS != 0)
    }
    #[cfg(not(unix))]
    false
}

/// Reads a file without the line feed at its end, and warns if others can read it. `what`: its name for messages, with an article.
pub(crate) fn secret_file(ui: &Ui, file: &Path, what: &str, form: &str) -> Result<String, Failure> {
    let name = path_shown(file);
    let cannot = |why: &str| Failure::usage(format!("{what} in {name} cannot be read: {why}"), form);
    let bytes = read_file(file, MAX_SECRET_BYTES).map_err(|why| cannot(&why))?;
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8"))?;
    warn_of_readers(ui, file);
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() { Err(cannot("it is empty")) } else { Ok(text.to_owned()) }
}

/// The private key in a file. `form`: how it is given, for the hint.
pub(crate) fn private_key(ui: &Ui, file: &Path, form: &str) -> Result<PrivateKey, Failure> {
    let pem = secret_file(ui, file, "the key", form)?;
    PrivateKey::from_pem(&pem).map_err(|error| {
        let problem = format!("the key in {} cannot be used: {error}", path_shown(file));
        Failure::usage(
            problem,
            "PKCS#8 in PEM, of P-256 or RSA: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256",
        )
    })
}

/// The bytes of a file. Fails with the reason, also where there are more than `max_bytes`.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, String> {
    bounded(File::open(path).map_err(|error| error.to_string())?, max_bytes)
}

/// [`read_file`] of an open file.
pub(crate) fn bounded(from: impl Read, max_bytes: u64) -> Result<Vec<u8>, String> {
    let bytes = found::bounded(from, max_bytes).map_err(|error| error.to_string())?;
    bytes.ok_or_else(|| format!("it exceeds the limit of {max_bytes} bytes"))
}

/// Names and values of `--header`, in the order in which they are given.
fn headers(ui: &Ui, words: &[OsString]) -> Result<Vec<(String, String)>, Failure> {
    let mut headers = Vec::new();
    for word in words {
        let text = word.to_str().ok_or_else(|| Failure::usage("a header is not Unicode", HEADER_FORM))?;
        let unusable =
            |place: &str| Failure::usage(format!("{place} is not of the form Name: value"), HEADER_FORM);
        let Some(file) = text.strip_prefix('@') else {
            headers.push(header(text).ok_or_else(|| unusable("a header"))?);
            continue;
        };
        let text = headers_file(Path::new(file))?;
        warn_of_readers(ui, Path::new(file));
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = || unusable(&format!("line {} of {}", place + 1, shown(file.as_ref())));
            headers.push(header(line).ok_or_else(place)?);
        }
    }
    Ok(headers)
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    let value = value.trim();
    (is_name && !value.contains(char::is_control)).then(|| (name.to_owned(), value.to_owned()))
}

fn headers_file(path: &Path) -> Result<String, Failure> {
    let bytes = read_file(path, MAX_HEADERS_BYTES);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
    text.map_err(|why| {
        let file = shown(path.as_os_str());
        Failure::usage(format!("the headers in {file} cannot be read: {why}"), HEADER_FORM)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{certificates, headers, read_file};
    use crate::found::Zeros;
    use crate::ui::Ui;

    #[test]
    fn a_file_of_certificates_has_4_mib_at_most() {
        assert_eq!(certificates("--ca", &Zeros::new("certificates", 4_194_304).0).unwrap().len(), 4_194_304);
        let failure = certificates("--ca", &Zeros::new("certificates", 4_194_305).0).unwrap_err();
        let words = "it exceeds the limit of 4194304 bytes";
        assert!(failure.message.ends_with(words), "{}", failure.message);
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_is_read_up_to_the_bound() {
        let refused = read_file(Path::new("/dev/zero"), 8).unwrap_err();
        assert!(refused.contains("the limit of 8 bytes"), "{refused}");
        assert_eq!(read_file(Path::new("/dev/null"), 8), Ok(Vec::new()));
        assert!(read_file(Path::new("/nowhere/at/all"), 8).unwrap_err().contains("No such file"));
    }

    #[test]
    fn headers_are_a_name_and_a_value() {
        let read = headers(&Ui::plain(), &["A: b: c ".into(), "x-y:z".into(), "Empty:".into()]).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read, [pair("A", "b: c"), pair("x-y", "z"), pair("Empty", "")]);
    }

    #[test]
    fn what_is_no_header_is_refused_and_not_shown() {
        for word in ["hunter2", ": hunter2", "A B: hunter2", "A: hunter2\r\nB: c", "A : hunter2"] {
            let failure = headers(&Ui::plain(), &[word.into()]).unwrap_err();
            assert!(!failure.message.contains("hunter2"), "{}", failure.message);
            assert!(failure.message.contains("Name: value"), "{}", failure.message);
        }
    }

    #[test]
    fn a_file_of_headers_has_64_kib_at_most() {
        // The file holds no header. The test checks whether it is read.
        let why = |bytes: u64| {
            let file = Zeros::new("headers", bytes);
            headers(&Ui::plain(), &[format!("@{}", file.0.display()).into()]).unwrap_err().message
        };
        assert!(why(65_536).starts_with("line 1 of "), "{}", why(65_536));
        assert!(why(65_537).ends_with("it exceeds the limit of 65536 bytes"), "{}", why(65_537));
    }

    #[test]
    fn a_file_of_headers_is_read_line_by_line() {
        let path = std::env::temp_dir().join(format!("mcpjoin-headers-{}", std::process::id()));
        std::fs::write(&path, "A: b\n\nC: d\r\n").unwrap();
        let word = format!("@{}", path.display());
        let read = headers(&Ui::plain(), &[word.clone().into()]);
        std::fs::write(&path, "A: b\nhunter2\n").unwrap();
        let failure = headers(&Ui::plain(), &[word.into()]).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap().len(), 2);
        assert!(failure.message.starts_with("line 2 of "), "{}", failure.message);
        assert!(
            headers(&Ui::plain(), &["@/nowhere/at/all".into()])
                .unwrap_err()
                .message
                .contains("/nowhere/at/all")
        );
    }
}
