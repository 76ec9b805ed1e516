//! nginx before two bridges, with the configuration of `docs/replicas.md`: each request goes to the next of them.
//!
//! Used by [`crate::overheard`]. The program is the installed one, or that of `cargo xtask tools`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::guarded::Guarded;
use crate::{Port, tool};

const PAGE: &str = include_str!("../../docs/replicas.md");

/// What nginx needs besides, to write into one folder and to be a single process that says when it listens.
const AROUND: &str = "daemon off; master_process off; pid @/pid; error_log /dev/stdout notice; events {} http { access_log off;
client_body_temp_path @/body; proxy_temp_path @/proxy; fastcgi_temp_path @/fastcgi; uwsgi_temp_path @/uwsgi; scgi_temp_path @/scgi;";

/// The first line that nginx logs when it has bound its ports.
const READY: &str = "using the \"epoll\" event method";

/// A running nginx. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    port: Port,
    _process: Guarded,
}

impl Nginx {
    /// Starts it before these bridges, with its files in `folder`.
    ///
    /// # Errors
    ///
    /// When there is no nginx, or it does not start.
    pub(crate) fn before(bridges: [SocketAddr; 2], folder: &Path) -> io::Result<Self> {
        let program = tool(&["nginx", "/usr/sbin/nginx"], "nginx 1.18 or newer")?;
        let port = Port::claim()?;
        let own = folder.join("nginx");
        std::fs::create_dir(&own)?;
        let around = AROUND.replace('@', &own.display().to_string());
        let file = own.join("nginx.conf");
        std::fs::write(&file, format!("{around}\n{}}}\n", documented(bridges, port.number())))?;
        let process = Guarded::start(&program, ["-p".as_ref(), own.as_path(), "-c".as_ref(), &file], READY)?;
        Ok(Self { port, _process: process })
    }

    /// The address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number()))
    }
}

/// The configuration on the page, with these addresses.
///
/// # Panics
///
/// When the page has another one than this expects.
fn documented(bridges: [SocketAddr; 2], port: u16) -> String {
    let (_, block) = PAGE.split_once("```nginx\n").expect("a block for nginx");
    let (mut text, _) = block.split_once("```").map(|(text, rest)| (text.to_owned(), rest)).expect("its end");
    let [one, two] = bridges.map(|address| format!("server {address};"));
    let listen = format!("listen 127.0.0.1:{port};");
    for (from, to) in
        [("server 127.0.0.1:8081;", one), ("server 127.0.0.1:8082;", two), ("listen 8080;", listen)]
    {
        assert_eq!(text.matches(from).count(), 1, "the page names `{from}` once");
        text = text.replace(from, &to);
    }
    text
}
