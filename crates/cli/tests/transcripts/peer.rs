//! A connection to the server over one of the two transports, line by line.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// A timeout far above any response time on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A server process, killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited by itself.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcpjoin"));
    command.args(["serve", "demo", "--full"]).args(arguments).env_remove("RUST_LOG");
    command
}

/// The client's side of a connection.
pub(crate) struct Peer {
    way: Open,
    /// The server's messages; closed when the connection ends.
    said: Receiver<String>,
}

enum Open {
    Child { server: Running, stdin: Option<ChildStdin> },
    HttpSse { address: String, messages: String, stream: TcpStream },
}

impl Peer {
    /// A separate server over standard input and output.
    pub(crate) fn child() -> Self {
        let mut child =
            serve(&[]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { way: Open::Child { server: Running(child), stdin }, said }
    }

    /// The next message of the server.
    pub(crate) fn next(&self) -> Result<String, String> {
        self.said.recv_timeout(LIMIT).map_err(|_| "the server says nothing".to_owned())
    }

    pub(crate) fn send(&mut self, line: &str) -> Result<(), String> {
        match &mut self.way {
            Open::Child { stdin, .. } => {
                let stdin = stdin.as_mut().ok_or("the transcript goes on behind its end")?;
                writeln!(stdin, "{line}").map_err(|error| error.to_string())
            }
            Open::HttpSse { address, messages, .. } => match exchange(address, "POST", messages, "", line)? {
                202 => Ok(()),
                status => Err(format!("the message was answered with {status}")),
            },
        }
    }

    /// The status of the response to an HTTP request outside the connection.
    pub(crate) fn status(&self, method: &str, path: &str, header: &str) -> Result<u16, String> {
        let Open::HttpSse { address, .. } = &self.way else { return Err("there is no HTTP here".into()) };
        exchange(address, method, path, header, "{}")
    }

    /// Closes the client's side.
    pub(crate) fn close(&mut self) {
        if let Open::Child { stdin, .. } = &mut self.way {
            *stdin = None;
        }
    }

    /// Asserts that the server sends nothing more, and that a separate server exits with success.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.close();
        let Open::Child { server, .. } = &mut self.way else { return Ok(()) };
        match self.said.recv_timeout(LIMIT) {
            Ok(line) => return Err(format!("the server says more: {line}")),
            Err(mpsc::RecvTimeoutError::Timeout) => return Err("the server does not end".to_owned()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {}
        }
        let status = server.0.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the server has ended with {status}")) }
    }

    /// Whether the server has other clients. It then keeps running, and a final request must show that nothing more was sent.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self.way, Open::HttpSse { .. })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Open::HttpSse { stream, .. } = &self.way {
            // Ends the thread that reads the stream. The stream may be closed already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Sends a request on a connection of its own, and returns the status of the response.
fn exchange(address: &str, method: &str, path: &str, header: &str, body: &str) -> Result<u16, String> {
    let mut stream = connect(address);
    let host = if header.to_ascii_lowercase().starts_with("host:") {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
    let body = if method == "POST" { body } else { "" };
    let head = format!(
        "{method} {path} HTTP/1.1\r\n{host}{header}Accept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).map_err(|error| error.to_string())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(|error| error.to_string())?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| format!("no answer of HTTP: {line:?}"))
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// One server over HTTP for many clients.
pub(crate) struct Listening {
    _server: Running,
    address: String,
}

impl Listening {
    pub(crate) fn new() -> Self {
        let mut child = serve(&["--listen", "http://127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let server = Running(child);
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        // The rest of the output is read, so that the server does not block.
        thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
        let address =
            line.trim().strip_prefix("listening on http://").and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { _server: server, address }
    }

    /// A connection of 2024-11-05: its stream is open, and the server has sent the address for messages.
    pub(crate) fn peer(&self) -> Peer {
        let mut stream = connect(&self.address);
        // HTTP/1.0, so that the response is not chunked.
        write!(stream, "GET /sse HTTP/1.0\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n", self.address)
            .unwrap();
        let (sender, said) = mpsc::channel();
        let reader = stream.try_clone().unwrap();
        thread::spawn(move || {
            let mut data = String::new();
            let lines =
                BufReader::new(reader).lines().map_while(Result::ok).skip_while(|line| !line.is_empty());
            for line in lines {
                if let Some(more) = line.strip_prefix("data:") {
                    data += more.trim_start();
                } else if line.is_empty()
                    && !data.is_empty()
                    && sender.send(std::mem::take(&mut data)).is_err()
                {
                    return;
                }
            }
        });
        let messages = said.recv_timeout(LIMIT).unwrap();
        assert!(messages.starts_with('/'), "{messages}");
        Peer { way: Open::HttpSse { address: self.address.clone(), messages, stream }, said }
    }
}
