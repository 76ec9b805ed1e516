//! Requests of the modern era whose `_meta` or headers lack something, differ from each other, or are written in another
//! way; and, in both eras, those of strangers.

use http::Method as Verb;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{Era, Method, Version};
use mcpjoin_rules::Probe;

use super::super::features::{Marked, Question};
use super::super::probes::{self, Manner};
use super::lines;
use super::live::{Live, Until};
use super::runs::Runs;
use super::wire::Head;

impl Runs {
    /// Requests whose `_meta` lacks something, or names another version.
    pub(super) async fn lacking(&mut self, live: &mut Live<'_>, version: &Version) {
        for (probe, named, capabilities) in [
            (Probe::NoCapabilities, Some(version.as_str()), false),
            (Probe::NoVersion, None, true),
            (Probe::UnsupportedVersion, Some(probes::NO_VERSION), true),
        ] {
            self.tell(live, probe);
            let line = probes::discover(&live.id(), named, capabilities);
            let head = match named {
                Some(named) => live.post(&line).with(name::PROTOCOL_VERSION, named),
                None => live.post(&line),
            };
            self.send(live, probe, head, &line).await;
        }
        self.tell(live, Probe::NoClientInfo);
        let line = probes::discover_unnamed(&live.id(), version.as_str());
        live.ask(Probe::NoClientInfo, &line).await;
        self.tell(live, Probe::NoMeta);
        let line = probes::discover_bare(&live.id());
        live.ask(Probe::NoMeta, &line).await;
    }

    /// Requests whose headers lack something, differ from the body, or are written in another way.
    pub(super) async fn headers(&mut self, live: &mut Live<'_>, manner: &Manner, control: &str) {
        type Change = fn(Head, &str) -> Head;
        let legacy = Version::newest(Era::Legacy);
        let changes: [(Probe, Change); 9] = [
            (Probe::NoVersionHeader, |head, _| head.without(name::PROTOCOL_VERSION)),
            (Probe::OtherVersionHeader, |head, legacy| head.with(name::PROTOCOL_VERSION, legacy)),
            (Probe::NoMethodHeader, |head, _| head.without(name::METHOD)),
            (Probe::OtherMethodHeader, |head, _| head.with(name::METHOD, Method::ListTools.as_str())),
            (Probe::CapitalMethodHeader, |head, _| head.with(name::METHOD, "SERVER/DISCOVER")),
            (Probe::HeaderLetters, |head, _| Head { other_letters: true, ..head }),
            (Probe::HeaderSpace, |head, _| head.with(name::METHOD, " \t server/discover \t ")),
            (Probe::EarlierHeaders, |head, _| {
                head.with(name::SESSION_ID, lines::NO_SESSION).with(name::LAST_EVENT_ID, "1")
            }),
            // The last one shows that nothing of these has stayed.
            (Probe::Ping, |head, _| head),
        ];
        for (probe, change) in changes {
            self.tell(live, probe);
            let line = probes::request(manner, &live.id(), control);
            let head = change(live.post(&line), legacy.as_str());
            self.send(live, probe, head, &line).await;
        }
        for (probe, verb) in [(Probe::EarlierGet, Verb::GET), (Probe::EarlierDelete, Verb::DELETE)] {
            self.tell(live, probe);
            let head = live.head(verb);
            live.exchange(probe, head, None, Until::Closed, self.answer()).await;
        }
    }

    /// Requests for a prompt that does not exist, with and without its name in the headers.
    pub(super) async fn names(&mut self, live: &mut Live<'_>, version: &Version) {
        for (probe, named) in [
            (Probe::NoNameHeader, None),
            (Probe::OtherNameHeader, Some(lines::OTHER_PROMPT)),
            (Probe::EncodedNameHeader, Some(lines::NO_PROMPT_ENCODED)),
            (Probe::BadNameHeader, Some(lines::NO_BASE64)),
        ] {
            self.tell(live, probe);
            let line = lines::no_prompt(&live.id(), version);
            let head = live.post(&line);
            let head = match named {
                Some(named) => head.with(name::NAME, named),
                None => head.without(name::NAME),
            };
            self.send(live, probe, head, &line).await;
        }
    }

    /// Requests of pages of other origins and for other hosts.
    pub(super) async fn strangers(&mut self, live: &mut Live<'_>, manner: &Manner, control: &str) {
        for origin in lines::FOREIGN_ORIGINS {
            self.tell(live, Probe::ForeignOrigin);
            let line = probes::request(manner, &live.id(), control);
            let head = live.post(&line).with(name::ORIGIN, origin);
            self.send(live, Probe::ForeignOrigin, head, &line).await;
        }
        if self.wire.is_loopback {
            self.tell(live, Probe::ForeignHost);
            let line = probes::request(manner, &live.id(), control);
            let head = live.post(&line).with(name::HOST, lines::FOREIGN_HOST);
            self.send(live, Probe::ForeignHost, head, &line).await;
        }
    }

    /// Calls with the headers of their arguments missing, with another value, unreadable, and written in other ways; then
    /// without the arguments.
    pub(super) async fn params(&mut self, live: &mut Live<'_>, manner: &Manner, marked: &Marked<'_>) {
        type Change = fn(&str) -> Option<&str>;
        let full = &marked.full;
        let mut changes: Vec<(Probe, &Question<'_>, Change)> = vec![
            (Probe::NoParamHeader, full, |_| None),
            (Probe::OtherParamHeader, full, |_| Some(lines::OTHER_VALUE)),
            (Probe::BadParamHeader, full, |_| Some(lines::NO_BASE64)),
            (Probe::EncodedParamHeader, full, |value| Some(lines::encoded(value))),
        ];
        if full.headers.iter().any(|(_, value)| value == lines::ONE) {
            changes.push((Probe::NumberParamHeader, full, |value| Some(lines::as_number(value))));
        }
        changes.push((Probe::NoParamExpected, &marked.null, |_| None));
        changes.push((Probe::NoParamExpected, &marked.empty, |_| None));
        for (probe, question, change) in changes {
            self.tell(live, probe);
            let line = question.line(manner, &live.id());
            let mut head = live.post(&line);
            for (name, value) in &question.headers {
                if let Some(value) = change(value) {
                    head = head.and(name, value);
                }
            }
            self.send(live, probe, head, &line).await;
        }
    }
}
