//! `mcpjoin serve`: a built-in server on standard input and output, on sockets, over QUIC, or over HTTP.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use mcpjoin::link::{HttpListener, HttpOptions, Listener};
use mcpjoin::proto::session::{CloseCause, Limits, LinkEndKind};
use mcpjoin::quic::{Authorities, CertificateError, ClientsAre, Identity};
use mcpjoin::{Link, Server};
use tokio::sync::watch;

use crate::args::{Pin as KeyPin, Serve, Served};
use crate::connect::{Signals, unusable};
use crate::demo;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{Quic, Socket, shown};
use crate::ui::Ui;
use crate::visible;

/// Serves until the client goes away, or a signal comes.
#[inline(never)]
pub(crate) fn run(args: &Serve) -> Exit {
    let ui = Ui::plain();
    if let Some(failure) = misplaced(args) {
        ui.failure(&failure);
        return failure.exit;
    }
    let mut limits = Limits::default();
    if let Some(size) = args.max_message_size {
        limits.message = size;
    }
    let Served::Demo = args.server;
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system(Phase::Serve, &error))
        .and_then(|runtime| {
            runtime.block_on(async {
                if args.listen.is_empty() {
                    return serve(limits).await;
                }
                let addresses: Vec<Address> =
                    args.listen.iter().map(|word| Address::parse(word)).collect::<Result<_, _>>()?;
                listen(&ui, args, &addresses, limits).await
            })
        });
    outcome.unwrap_or_else(|failure| {
        ui.failure(&failure);
        failure.exit
    })
}

/// Options that can do nothing are refused.
fn misplaced(args: &Serve) -> Option<Failure> {
    let quic = |word: &String| word.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("quic:"));
    if args.listen.iter().any(quic) {
        return None;
    }
    let options = [("--cert", args.cert.is_some()), ("--client-ca", args.client_ca.is_some())];
    let (option, _) = options.into_iter().find(|(_, given)| *given)?;
    let problem = format!("{option} is for clients over QUIC");
    Some(Failure::usage(problem, "--listen quic://host:port, or leave it out"))
}

/// Where to listen.
enum Address {
    Socket(Socket),
    Quic(Quic),
    Http(String),
}

impl Address {
    fn parse(word: &str) -> Result<Self, Failure> {
        let wrong = |problem: String| {
            Failure::usage(format!("{} is no address to listen on", shown(word.as_ref())), problem)
        };
        match word.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                if authority.contains('@') || !authority.contains(':') {
                    return Err(wrong("write http://host:port/path, with nothing before the host".into()));
                }
                if matches!(path, "sse" | "messages") {
                    return Err(wrong(
                        "write another path: clients of 2024-11-05 are served at this one".into(),
                    ));
                }
                Ok(Self::Http(format!("http://{rest}")))
            }
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("quic") => {
                Quic::parse(word).map(Self::Quic).map_err(wrong)
            }
            _ => Socket::parse(word).map(Self::Socket).map_err(|problem| {
                // What a socket is not may be HTTP.
                wrong(
                    problem
                        .replace(" or unix:/path", ", unix:/path, quic://host:port or http://host:port/path"),
                )
            }),
        }
    }
}

/// What listens.
enum Open {
    Socket(Listener),
    /// With the line by which a client knows the key that was made for it.
    Quic(Listener, Option<String>),
    Http(HttpListener),
}

/// Who the server is over QUIC, and who may come: read anew for each connection.
fn who(args: &Serve, made: Option<&Identity>) -> Result<(Identity, ClientsAre), CertificateError> {
    let identity = match (made, &args.cert, &args.key) {
        (Some(made), ..) => made.clone(),
        (None, Some(certificate), Some(key)) => Identity::from_files(certificate, key)?,
        (None, ..) => Identity::self_signed(["localhost"])?,
    };
    let clients = match &args.client_ca {
        Some(path) => ClientsAre::Required(Authorities::from_file(path)?),
        None => ClientsAre::Anybody,
    };
    Ok((identity, clients))
}

impl Open {
    async fn at(address: &Address, args: &Serve) -> Result<Self, Failure> {
        let socket = match address {
            Address::Quic(quic) => return Self::over_quic(quic, args).await,
            Address::Http(url) => {
                let listener = HttpListener::bind(url).await;
                return listener.map(Self::Http).map_err(|error| Failure::listen_http(&error));
            }
            Address::Socket(Socket::Tcp(address)) => Listener::tcp(address).await,
            Address::Socket(Socket::Unix(path)) => Listener::unix(path).await,
        };
        socket.map(Self::Socket).map_err(|error| Failure::listen(&error))
    }

    async fn over_quic(quic: &Quic, args: &Serve) -> Result<Self, Failure> {
        let made = match args.cert {
            Some(_) => None,
            None => Some(who(args, None).map_err(|error| unusable(&error))?.0),
        };
        let pin = made.as_ref().and_then(Identity::facts).map(|facts| KeyPin(facts.key_hash));
        let asked = args.clone();
        let listener = Listener::quic(&quic.0, move || who(&asked, made.as_ref())).await;
        let listener = listener.map_err(|error| Failure::listen_quic(&error))?;
        let shows = if args.client_ca.is_some() { " --cert FILE --key FILE" } else { "" };
        let line = pin.map(|pin| {
            format!(
                "its key lasts as long as it runs: mcpjoin list --pin {pin}{shows} {}",
                listener.address()
            )
        });
        Ok(Self::Quic(listener, line))
    }

    /// As a client names it.
    fn address(&self) -> String {
        match self {
            Self::Socket(listener) | Self::Quic(listener, _) => listener.address().to_string(),
            Self::Http(listener) => listener.url(),
        }
    }

    fn is_for_others(&self) -> bool {
        let address = match self {
            Self::Socket(listener) => listener.address().tcp(),
            Self::Quic(listener, _) => listener.address().quic(),
            Self::Http(listener) => Some(listener.address()),
        };
        address.is_some_and(|address| !address.ip().is_loopback())
    }

    /// Serves everyone who comes until `end` says so.
    async fn serve(self, server: Server, mut end: watch::Receiver<bool>) {
        let end = async move {
            // Without its sender it would be over, too.
            let _ = end.wait_for(|end| *end).await;
        };
        match self {
            Self::Socket(listener) | Self::Quic(listener, _) => server.serve_all(listener, end).await,
            Self::Http(listener) => server.serve_http(listener, HttpOptions::new(), end).await,
        }
    }
}

/// Ready when all of them are.
async fn all(mut futures: Vec<Pin<Box<dyn Future<Output = ()>>>>) {
    poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn server(limits: Limits) -> Result<Server, Failure> {
    demo::server(limits).map_err(|error| {
        Failure::new("E_DEMO", Exit::Usage, Phase::Serve, error.to_string())
            .hint("tell the authors of mcpjoin")
    })
}

/// Serves everyone who comes, until a signal comes. What is in progress then is finished, unless another one comes.
async fn listen(ui: &Ui, args: &Serve, addresses: &[Address], limits: Limits) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let server = server(limits)?;
    let mut open = Vec::new();
    for address in addresses {
        open.push(Open::at(address, args).await?);
    }
    if open.iter().any(Open::is_for_others) {
        ui.warning("whoever can reach this port can use this server");
    }
    for open in &open {
        ui.note(&format!("listening on {}", visible::line(&open.address())));
        if let Open::Quic(_, Some(line)) = open {
            ui.note(line);
        }
    }
    let (end, ended) = watch::channel(false);
    let serving = open.into_iter().map(|open| {
        let serving: Pin<Box<dyn Future<Output = ()>>> = Box::pin(open.serve(server.clone(), ended.clone()));
        serving
    });
    let mut serving = Box::pin(all(serving.collect()));
    let signal = tokio::select! {
        biased;
        signal = signals.next() => signal,
        () = &mut serving => return Ok(Exit::Done),
    };
    // Nobody listens when it has ended by itself.
    let _ = end.send(true);
    tokio::select! {
        biased;
        _ = signals.next() => {}
        () = serving => {}
    }
    Ok(Exit::Signal(signal))
}

async fn serve(limits: Limits) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let server = server(limits)?;
    let link = Link::stdio().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let cause = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Signal(signal)),
        cause = server.serve(link) => cause,
    };
    match &cause {
        // The client has closed its side: that is how this ends.
        CloseCause::Local => Ok(Exit::Done),
        CloseCause::Link(end) if end.kind == LinkEndKind::EndOfStream => Ok(Exit::Done),
        CloseCause::Link(_) => {
            Err(Failure::closed(&cause, Phase::Serve).hint("look at what standard input and output lead to"))
        }
        cause => Err(Failure::closed(cause, Phase::Serve)),
    }
}
