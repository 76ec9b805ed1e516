//! A file that is named on the command line, read up to a bound: a device or a pipe may have no end.
//!
//! Called by `connect::headers`, `connect::http` and the verbs `auth` and `diff`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::found;

/// The file's bytes, of which there are at most so many. Otherwise why not.
pub(crate) fn read(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    bounded(File::open(path).map_err(|error| error.to_string())?, largest)
}

/// The same of what is open already.
pub(crate) fn bounded(from: impl Read, largest: u64) -> Result<Vec<u8>, String> {
    let bytes = found::bounded(from, largest).map_err(|error| error.to_string())?;
    bytes.ok_or_else(|| format!("it has more than the {largest} bytes that are read"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use super::read;

    #[test]
    fn what_has_no_end_is_read_up_to_the_bound() {
        let refused = read(Path::new("/dev/zero"), 8).unwrap_err();
        assert!(refused.contains("more than the 8 bytes"), "{refused}");
        assert_eq!(read(Path::new("/dev/null"), 8), Ok(Vec::new()));
        assert!(read(Path::new("/nowhere/at/all"), 8).unwrap_err().contains("No such file"));
    }
}
