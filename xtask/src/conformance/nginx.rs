//! A reverse proxy in front of the server: nginx with `conformance/nginx.conf`.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use interop::Port;

use super::process::Running;
use crate::tools;

/// A running proxy. It is ended when this value is dropped.
pub(crate) struct Nginx {
    process: Running,
    /// The server's URL through the proxy.
    pub(crate) url: String,
    /// Reserved until the process has ended.
    _port: Port,
}

impl Nginx {
    /// Starts a proxy in front of a server, with its output files in `folder`.
    pub(crate) fn start(root: &Path, server: &str, folder: &Path) -> Result<Self> {
        let program = tools::nginx(root)?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let template = root.join("conformance/nginx.conf");
        let template =
            fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        let (origin, path) = parts(server).with_context(|| format!("{server} is no URL of a server"))?;
        let port = Port::claim().context("no port for nginx")?;
        let listen = format!("{}:{}", Ipv4Addr::LOCALHOST, port.number());
        let configuration = folder.join("nginx.conf");
        let text = template
            .replace("@FOLDER@", &folder.display().to_string())
            .replace("@LISTEN@", &listen)
            .replace("@SERVER@", origin);
        fs::write(&configuration, text)?;
        let log = folder.join("nginx.txt");
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-c").arg(&configuration).args(["-g", "daemon off;"]);
        let mut process = Running::start(&mut command, "nginx", &log)?;
        // nginx writes its process id after it has bound the port.
        let number = folder.join("nginx.pid");
        process.wait_for(&log, || {
            let started = fs::read_to_string(&number).is_ok_and(|number| !number.trim().is_empty());
            (started && TcpStream::connect(&listen).is_ok()).then_some(())
        })?;
        Ok(Self { process, url: format!("http://{listen}{path}"), _port: port })
    }

    /// Fails if the proxy has ended by itself.
    pub(crate) fn runs(&mut self) -> Result<()> {
        self.process.runs()
    }
}

/// Splits `http://127.0.0.1:80/mcp` into origin and path.
fn parts(url: &str) -> Option<(&str, &str)> {
    let slash = url.strip_prefix("http://")?.find('/')? + "http://".len();
    Some(url.split_at(slash))
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn a_url_has_an_origin_and_a_path() {
        assert_eq!(parts("http://127.0.0.1:80/mcp"), Some(("http://127.0.0.1:80", "/mcp")));
        assert_eq!(parts("http://127.0.0.1:80"), None);
        assert_eq!(parts("127.0.0.1:80/mcp"), None);
    }
}
