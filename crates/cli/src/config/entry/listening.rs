//! An entry with a server that listens for MCP as it is, without HTTP around it: `quic://`, `tcp://` and `unix:`. Our own
//! addition to the dialects; its members are called as our options are.

use super::unused;
use crate::config::source::Problem;
use crate::config::tree::{Fields, Member, Text};

/// Where it listens, and who both sides are.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) struct Listening {
    pub(in crate::config) url: Text,
    pub(in crate::config) scheme: Scheme,
    pub(in crate::config) sides: Sides,
}

/// Over QUIC: whom to take for the server, and who we are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::config) struct Sides {
    pub(in crate::config) pin: Option<Text>,
    pub(in crate::config) ca: Option<Text>,
    /// A certificate and its key.
    pub(in crate::config) identity: Option<(Text, Text)>,
}

/// How it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Scheme {
    Quic,
    Tcp,
    Unix,
}

/// The members that say who both sides are, not looked into yet.
pub(super) struct Members<'a> {
    pub(super) pin: Option<&'a Member>,
    pub(super) ca: Option<&'a Member>,
    pub(super) cert: Option<&'a Member>,
    pub(super) key: Option<&'a Member>,
}

impl<'a> Members<'a> {
    pub(super) fn take(fields: &mut Fields<'a>) -> Result<Self, Problem> {
        let (pin, ca) = (fields.take(&["pin"])?, fields.take(&["ca"])?);
        Ok(Self { pin, ca, cert: fields.take(&["cert"])?, key: fields.take(&["key"])? })
    }
}

impl Scheme {
    /// That of an address, where it is one of these.
    pub(super) fn of(url: &str) -> Option<Self> {
        let (scheme, _) = url.split_once(':')?;
        match scheme.to_ascii_lowercase().as_str() {
            "quic" => Some(Self::Quic),
            "tcp" => Some(Self::Tcp),
            "unix" => Some(Self::Unix),
            _ => None,
        }
    }

    /// As `type` and as the beginning of an address.
    pub(in crate::config) const fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        }
    }

    /// Why members for other servers have no meaning.
    pub(super) const fn reached(self) -> &'static str {
        match self {
            Self::Quic => "the server is reached over QUIC",
            Self::Tcp | Self::Unix => "the server is reached over a socket",
        }
    }
}

impl Listening {
    /// Everything that may hold variables.
    pub(in crate::config) fn texts(&self) -> impl Iterator<Item = &Text> {
        let Sides { pin, ca, identity } = &self.sides;
        let identity = identity.iter().flat_map(|(cert, key)| [cert, key]);
        std::iter::once(&self.url).chain(pin).chain(ca).chain(identity)
    }

    /// `warnings`: takes what is not used.
    pub(super) fn read(
        url: &Member,
        scheme: Scheme,
        members: &Members<'_>,
        warnings: &mut Vec<Problem>,
    ) -> Result<Self, Problem> {
        let text = url.node.text(&url.name)?;
        // A variable may hold the whole of it.
        if Scheme::of(&text.text) != Some(scheme) && !text.text.starts_with("${") {
            let slashes = if scheme == Scheme::Unix { "" } else { "//" };
            let problem = format!("{} must begin with {}:{slashes}", url.name, scheme.name());
            return Err(Problem::new(text.at, problem));
        }
        let Members { pin, ca, cert, key } = *members;
        if scheme != Scheme::Quic {
            warnings.extend(unused(&[pin, ca, cert, key], scheme.reached()));
            return Ok(Self { url: text, scheme, sides: Sides::default() });
        }
        let written = |member: Option<&Member>| member.map(|it| it.node.text(&it.name)).transpose();
        if let (Some(_), Some(ca)) = (pin, ca) {
            return Err(Problem::new(ca.at, "there are both pin and ca: leave out one of them"));
        }
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert.node.text("cert")?, key.node.text("key")?)),
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => {
                return Err(Problem::new(one.at, "cert and key go together, and one of them is missing"));
            }
        };
        Ok(Self { url: text, scheme, sides: Sides { pin: written(pin)?, ca: written(ca)?, identity } })
    }
}
