//! Whether standard output was closed when this program began (`>&-`): whatever is written then reaches nobody, and that is no success.
//!
//! Asked by `ui` before it writes a result, and before clients are served over standard output. The standard library opens the null
//! device in the place of what is closed, before `main` begins: afterwards it looks like `>/dev/null`, which somebody wanted.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the loader before the standard library begins. It allocates nothing and calls nothing but the system.
#[cfg(any(target_os = "linux", target_os = "macos"))]
#[used]
#[allow(unsafe_code, reason = "no safe code runs before the standard library, which hides what was closed")]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static LOOK: extern "C" fn() = look;

#[cfg(any(target_os = "linux", target_os = "macos"))]
extern "C" fn look() {
    let found = rustix::io::fcntl_getfd(rustix::stdio::stdout());
    CLOSED.store(found == Err(rustix::io::Errno::BADF), Ordering::Relaxed);
}

/// # Errors
/// When standard output was closed.
pub(crate) fn check() -> io::Result<()> {
    match CLOSED.load(Ordering::Relaxed) {
        true => Err(io::Error::other("standard output is closed")),
        false => Ok(()),
    }
}
