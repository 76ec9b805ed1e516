//! Logs in with the browser of the machine on which the program runs.
//!
//! Given to `OAuth` by programs with a user in front of them: `mcpjoin auth login`. The URL is passed to the program that opens
//! web pages as one argument, never through a shell (CVE-2025-6514); `authorize` has checked that it is a web page.
//! [RFC 8252](https://www.rfc-editor.org/rfc/rfc8252).

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::authorize::{harmless, web_page};
use super::callback::Callback;
use super::user_agent::{UserAgent, UserAgentError, Visit};

/// How long the user may take: the number of the adversarial catalogue, case 142.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The path of the redirect URI.
const PATH: &str = "/callback";

/// The host in the redirect URI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopbackHost {
    /// `127.0.0.1`, as [RFC 8252, 8.3](https://www.rfc-editor.org/rfc/rfc8252#section-8.3) recommends.
    #[default]
    Address,
    /// `localhost`, for authorization servers that accept only this name.
    Name,
}

impl LoopbackHost {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Address => "127.0.0.1",
            Self::Name => "localhost",
        }
    }
}

type Told = dyn Fn(&str) + Send + Sync;
type Opener = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// Opens the page of the authorization server in the system's browser, and receives the response on the loopback interface: on
/// `127.0.0.1`, and on `::1` where there is one, on a free port, for five minutes.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin_auth::{LocalBrowser, OAuth};
///
/// let browser = LocalBrowser::new().on_url(|url| eprintln!("If no browser opens, go to {url}"));
/// let oauth = OAuth::builder("https://example.com/mcp").user_agent(browser).build()?;
/// let login = oauth.login().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalBrowser {
    host: LoopbackHost,
    port: u16,
    path: String,
    within: Duration,
    told: Option<Arc<Told>>,
    opener: Option<Arc<Opener>>,
}

impl Default for LocalBrowser {
    fn default() -> Self {
        Self::new()
    }
}

impl LocalBrowser {
    /// A browser with the defaults above.
    #[must_use]
    pub fn new() -> Self {
        Self {
            host: LoopbackHost::default(),
            port: 0,
            path: PATH.into(),
            within: LOGIN_TIMEOUT,
            told: None,
            opener: Some(Arc::new(open)),
        }
    }

    /// Sets the port for the response, for clients whose registered redirect URI names it. 0 means any free port.
    #[must_use]
    pub const fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets how the redirect URI names this machine: by its address by default.
    #[must_use]
    pub const fn host(mut self, host: LoopbackHost) -> Self {
        self.host = host;
        self
    }

    /// Sets the path of the redirect URI: `/callback` by default.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets how long the user may take: five minutes by default.
    #[must_use]
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Called with the URL before it is opened, to show it to a user at another machine. It is no secret, but it works once.
    #[must_use]
    pub fn on_url(mut self, told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.told = Some(Arc::new(told));
        self
    }

    /// Opens the URL in place of the system's browser. It is a URL of https, or of http on this machine, without characters that
    /// are special to a shell; do not pass it to one. Must not block.
    #[must_use]
    pub fn opener(mut self, opener: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.opener = Some(Arc::new(opener));
        self
    }

    /// Opens nothing: the user opens the URL that [`on_url`](Self::on_url) has received.
    #[must_use]
    pub fn without_opening(mut self) -> Self {
        self.opener = None;
        self
    }

    fn redirect_uri(&self, port: u16) -> String {
        format!("http://{}:{port}{}", self.host.as_str(), self.path)
    }

    /// The port of a redirect URI that otherwise equals ours.
    fn port_of(&self, redirect_uri: &str) -> Option<u16> {
        let before = format!("http://{}:", self.host.as_str());
        redirect_uri.strip_prefix(&before)?.strip_suffix(&self.path)?.parse().ok()
    }

    async fn listen(&self, before: Option<&str>) -> Result<Callback, UserAgentError> {
        let both = self.host == LoopbackHost::Name;
        if self.port == 0
            && let Some(port) = before.and_then(|before| self.port_of(before))
            && let Ok(callback) = Callback::listen(port, &self.path, both).await
        {
            return Ok(callback);
        }
        Callback::listen(self.port, &self.path, both).await.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => UserAgentError::PortTaken { port: self.port },
            _ => UserAgentError::Listen(error.to_string()),
        })
    }
}

impl UserAgent for LocalBrowser {
    async fn visit(&self, before: Option<&str>) -> Result<Visit, UserAgentError> {
        if !self.path.starts_with('/') || self.path.contains(['?', '#', ' ', '\r', '\n']) {
            return Err(UserAgentError::Other("the redirect URI has no valid path".into()));
        }
        let callback = self.listen(before).await?;
        let this = self.clone();
        Ok(Visit::new(self.redirect_uri(callback.port()), move |authorizing| async move {
            if let Some(told) = &this.told {
                told(&authorizing.url);
            }
            if let Some(Err(error)) = this.opener.as_ref().map(|opener| opener(&authorizing.url)) {
                // The user can still open the URL that was shown.
                tracing::warn!(target: "mcpjoin", %error, "no browser was opened");
            }
            let answer = tokio::time::timeout(this.within, callback.answer(&authorizing.state)).await;
            answer.map_err(|_| UserAgentError::NobodyCame { after: this.within })
        }))
    }
}

impl fmt::Debug for LocalBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBrowser")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("path", &self.path)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

/// A web page that an MCP server asks the user to visit. Its URL passes the checks of an authorization endpoint, and is opened in the
/// same way: only [`open`](Self::open) does that.
#[doc(hidden)]
#[derive(Debug)]
pub struct WebPage {
    url: String,
    host: String,
}

impl WebPage {
    /// # Errors
    /// Why this URL is never opened.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let parsed = web_page(url)?;
        let host = parsed.host_str().unwrap_or_default().to_owned();
        Ok(Self { url: harmless(parsed.as_str()), host })
    }

    /// The URL without characters that are special to a shell.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The host, in ASCII.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Opens the page with the program that the user or the system has chosen for web pages.
    ///
    /// # Errors
    /// When no such program can be started.
    pub fn open(&self) -> io::Result<()> {
        open(&self.url)
    }
}

/// The programs that open web pages on this system: that of `BROWSER` if it names one, otherwise the system's own.
fn programs() -> Vec<(OsString, &'static [&'static str])> {
    let named = std::env::var_os("BROWSER").filter(is_one_program);
    let system: (OsString, &[&str]) = if cfg!(windows) {
        ("rundll32".into(), &["url.dll,FileProtocolHandler"])
    } else if cfg!(target_os = "macos") {
        ("open".into(), &[])
    } else {
        ("xdg-open".into(), &[])
    };
    named.map(|name| (name, [].as_slice())).into_iter().chain([system]).collect()
}

/// `BROWSER` may be a list, or a command with arguments; `xdg-open`, which interprets those, is used then.
fn is_one_program(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| !name.is_empty() && !name.contains([':', ' ', '%', '\t', '\n']))
}

fn open(url: &str) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for (program, arguments) in programs() {
        let mut command = Command::new(&program);
        command.args(arguments).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                // Some stay alive as long as the window is open.
                std::thread::Builder::new()
                    .name("mcpjoin-browser".into())
                    .spawn(move || drop(child.wait()))
                    .map(drop)?;
                return Ok(());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::user_agent::Authorizing;

    #[test]
    fn a_page_is_a_web_page_on_a_host_that_is_shown_as_it_is() {
        let page = WebPage::parse("https://b\u{fc}cher.example/pay?id=1&x='$(id)'").unwrap();
        assert_eq!(page.host(), "xn--bcher-kva.example");
        assert_eq!(page.url(), "https://xn--bcher-kva.example/pay?id=1&x=%27%24%28id%29%27");
        assert!(WebPage::parse("http://127.0.0.1:8080/x").is_ok());
        for refused in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http://example.com/",
            "https://bank.example@evil.example/",
            "https://a.example/\\x",
            "https://a.example/ x",
            "x",
        ] {
            assert!(WebPage::parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_browser_of_the_environment_is_one_program_or_none() {
        for (name, one) in [
            ("firefox", true),
            ("/usr/bin/firefox", true),
            ("", false),
            ("firefox %s", false),
            ("firefox:chromium", false),
            ("sh -c x", false),
        ] {
            assert_eq!(is_one_program(&name.into()), one, "{name}");
        }
    }

    fn authorizing() -> Authorizing {
        Authorizing::new("https://as.example/".into(), "s".into())
    }

    #[tokio::test(start_paused = true)]
    async fn g142_a_user_who_never_comes_back_is_waited_for_five_minutes_and_the_port_is_free_again() {
        let opened = Arc::new(Mutex::new(Vec::new()));
        let (told, open) = (opened.clone(), opened.clone());
        let browser = LocalBrowser::new()
            .on_url(move |url| told.lock().unwrap().push(format!("told {url}")))
            .opener(move |url| {
                open.lock().unwrap().push(format!("opened {url}"));
                Err(io::ErrorKind::NotFound.into())
            });
        let visit = browser.visit(None).await.unwrap();
        let port = browser.port_of(visit.redirect_uri()).unwrap();
        let before = tokio::time::Instant::now();
        let error = visit.authorize(authorizing()).await.unwrap_err();
        assert_eq!(error, UserAgentError::NobodyCame { after: Duration::from_secs(300) });
        assert!(before.elapsed() >= Duration::from_secs(300));
        assert_eq!(*opened.lock().unwrap(), ["told https://as.example/", "opened https://as.example/"]);

        // The same when the login is cancelled before the browser was opened.
        drop(browser.clone().port(port).visit(None).await.unwrap());
        let visit = browser.clone().port(port).visit(None).await.unwrap();
        let mut waiting = Box::pin(visit.authorize(authorizing()));
        assert!((&mut waiting).now_or_never().is_none());
        let error = browser.clone().port(port).visit(None).await.unwrap_err();
        assert_eq!(error, UserAgentError::PortTaken { port });
        assert!(error.to_string().contains("choose another port"), "{error}");
        drop(waiting);
        drop(browser.clone().port(port).visit(None).await.unwrap());
    }

    #[tokio::test]
    async fn the_redirect_uri_that_is_registered_is_taken_again_when_it_is_free() {
        let browser = LocalBrowser::new();
        let first = browser.visit(None).await.unwrap();
        let uri = first.redirect_uri().to_owned();
        let other = browser.visit(Some(&uri)).await.unwrap();
        assert_ne!(other.redirect_uri(), uri, "it is taken");
        drop(first);
        assert_eq!(browser.visit(Some(&uri)).await.unwrap().redirect_uri(), uri);
        for foreign in
            ["http://localhost:1/callback", "https://evil.example/callback", "http://127.0.0.1:x/callback"]
        {
            assert_eq!(browser.port_of(foreign), None, "{foreign}");
        }
    }
}
