//! The ways to a server as an examination knows them: which phases and which checks each of them has.

use super::report::{Check, Phase};

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Started as a child, on its standard input and output.
    Child,
    /// Over HTTP.
    Http,
    /// Over a TCP or a Unix socket.
    Socket,
    /// Over QUIC.
    Quic,
    /// An orchestrator of Orchestra, which is no MCP server.
    Orchestra,
}

impl Way {
    /// In their order.
    pub(super) const fn phases(self) -> &'static [Phase] {
        use Phase as P;
        match self {
            Self::Child => &[P::Resolve, P::Spawn, P::Probe, P::Initialize, P::List, P::ShutDown],
            Self::Http => &[P::Resolve, P::Connect, P::Tls, P::Probe, P::Initialize, P::List, P::ShutDown],
            Self::Socket => &[P::Resolve, P::Connect, P::Probe, P::Initialize, P::List, P::ShutDown],
            Self::Quic => &[P::Resolve, P::Connect, P::Probe, P::Initialize, P::List, P::ShutDown],
            Self::Orchestra => &[P::Certificates, P::Connect, P::Health, P::List],
        }
    }

    /// In the order of [`Check::ALL`].
    pub(super) const fn checks(self) -> &'static [Check] {
        use Check as C;
        match self {
            Self::Child => &[
                C::Program,
                C::Runtime,
                C::Start,
                C::ProbeSurvived,
                C::ProbeAnswered,
                C::Opening,
                C::Speed,
                C::Output,
                C::ByteOrderMark,
                C::Rules,
                C::Lists,
                C::Offer,
                C::Life,
                C::EndOfInput,
                C::ExitStatus,
                C::Family,
            ],
            Self::Http => &[
                C::Address,
                C::Proxy,
                C::Reached,
                C::Families,
                C::Tls,
                C::ServerCertificate,
                C::Protocol,
                C::Clock,
                C::Authorization,
                C::Endpoint,
                C::Headers,
                C::Size,
                C::Capacity,
                C::Body,
                C::ProbeAnswered,
                C::Opening,
                C::Speed,
                C::Output,
                C::Rules,
                C::Session,
                C::Lists,
                C::Offer,
                C::Life,
                C::Farewell,
            ],
            Self::Socket => &[
                C::Address,
                C::Reached,
                C::Protocol,
                C::ProbeSurvived,
                C::ProbeAnswered,
                C::Opening,
                C::Speed,
                C::Output,
                C::ByteOrderMark,
                C::Rules,
                C::Lists,
                C::Offer,
                C::Life,
            ],
            Self::Quic => &[
                C::Certificates,
                C::Address,
                C::Reached,
                C::ServerCertificate,
                C::ClientCertificate,
                C::Protocol,
                C::ProbeAnswered,
                C::Opening,
                C::Speed,
                C::Output,
                C::Rules,
                C::Lists,
                C::Offer,
                C::Life,
            ],
            Self::Orchestra => &[
                C::Certificates,
                C::Address,
                C::Reached,
                C::ServerCertificate,
                C::ClientCertificate,
                C::Protocol,
                C::Health,
                C::Lists,
                C::Offer,
            ],
        }
    }

    /// Whether a server that does not survive the probe shows it by the end of the connection.
    pub(super) const fn hangs_up(self) -> bool {
        matches!(self, Self::Socket)
    }

    /// Whether the server is none of our children.
    pub(super) const fn is_remote(self) -> bool {
        !matches!(self, Self::Child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_and_checks_are_in_the_order_in_which_they_are_told() {
        let ways = [Way::Child, Way::Socket, Way::Http, Way::Quic, Way::Orchestra];
        for way in ways {
            assert!(way.phases().is_sorted(), "{way:?}");
            assert!(way.checks().is_sorted(), "{way:?}");
        }
        assert!(Phase::ALL.is_sorted() && Check::ALL.is_sorted());
    }
}
