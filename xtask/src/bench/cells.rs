//! The parts of `cargo xtask bench`, and the cells of each part.

/// Clients over HTTP, a server over stdio.
pub(crate) const FROM_HTTP: &[&str] = &["from HTTP to standard input and output"];
/// Clients over stdio, a server over HTTP.
pub(crate) const FROM_STDIO: &[&str] = &["from standard input and output to HTTP"];
/// Calls through a gateway in one session, after the words of the generator that name the gateway.
const SHARED: &[&str] = &["calls", "shared"];
/// The same with a session for each connection.
const APART: &[&str] = &["calls", "apart"];
/// Sessions that are in their ids, with several bridges.
const IDS: &[&str] = &["sessions in their ids"];
/// Sessions with a program, each of which belongs to one of several bridges.
pub(crate) const PROGRAMS: &[&str] = &["sessions with a program"];
/// Calls without sessions, with several bridges.
pub(crate) const MODERN: &[&str] = &["2026-07-28"];
/// What a client of a gateway sees when a server is dead.
pub(crate) const DEAD: &[&str] = &["dead"];
/// A mixture of calls: 90 of 64 B, ten of them with progress, nine of 64 KiB, one of 4 MiB.
pub(crate) const MIXED: &[&str] = &["mixed"];
/// A list of tools.
pub(crate) const TOOLS: &[&str] = &["tools"];
/// The contents of a resource.
pub(crate) const RESOURCE: &[&str] = &["resource"];
/// The load generator's word for all calls on one connection, with HTTP/2.
pub(crate) const HTTP_2: &str = "--http2";
/// The load generator's words for the memory that remains after sessions have ended.
pub(crate) const LEFT: &[&str] = &["left", "20"];

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Echo servers under the load generator.
    Servers,
    /// Clients against the floor server.
    Clients,
    /// The time from starting a server to its response to `initialize`.
    Startup,
    /// Complete command lines that list a server's tools, or call one tool.
    CommandLines,
    /// Echo servers over HTTP under the load generator.
    Http,
    /// The memory of idle HTTP sessions.
    Sessions,
    /// From stdio over QUIC to stdio, compared with a child process that is reached directly.
    Quic,
    /// Bridges between stdio and HTTP, with the floor server behind them.
    Bridge,
    /// Several servers behind one endpoint.
    Gateway,
    /// Several bridges with one key.
    Replicas,
}

impl Part {
    pub(crate) const ALL: [Self; 10] = [
        Self::Servers,
        Self::Clients,
        Self::Startup,
        Self::CommandLines,
        Self::Http,
        Self::Sessions,
        Self::Quic,
        Self::Bridge,
        Self::Gateway,
        Self::Replicas,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Clients => "clients",
            Self::Startup => "startup",
            Self::CommandLines => "command-lines",
            Self::Http => "http",
            Self::Sessions => "sessions",
            Self::Quic => "quic",
            Self::Bridge => "bridge",
            Self::Gateway => "gateway",
            Self::Replicas => "replicas",
        }
    }

    /// How many samples of each candidate are taken when `repetitions` are requested. A measurement of a few milliseconds
    /// varies more than one that is repeated for a second, so it gets more samples.
    pub(crate) const fn turns(self, repetitions: usize) -> usize {
        match self {
            Self::Servers
            | Self::Clients
            | Self::Http
            | Self::Sessions
            | Self::Quic
            | Self::Bridge
            | Self::Gateway
            | Self::Replicas => repetitions,
            Self::Startup | Self::CommandLines => 4 * repetitions,
        }
    }

    pub(crate) fn cells(self) -> Vec<Cell> {
        const KIB_64: usize = 64 << 10;
        const MIB_4: usize = 4 << 20;
        let cells: &[(usize, usize)] = match self {
            Self::Servers => &[(64, 1), (64, 16), (64, 256), (KIB_64, 1), (KIB_64, 16), (MIB_4, 1)],
            Self::Clients => &[(64, 1), (64, 64), (KIB_64, 1)],
            Self::Quic => &[(64, 1), (64, 16), (KIB_64, 1), (KIB_64, 16)],
            Self::Bridge => {
                let sizes = [(64, 1), (64, 16), (1 << 10, 1), (KIB_64, 1), (KIB_64, 16)];
                let ways: [&'static [&'static str]; 2] = [FROM_HTTP, FROM_STDIO];
                let cells = ways
                    .into_iter()
                    .flat_map(|words| sizes.map(|(size, depth)| Cell { words, ..Cell::new(size, depth) }));
                return cells.chain([Cell { words: LEFT, ..Cell::new(0, 0) }]).collect();
            }
            Self::Gateway => {
                let first: [&'static [&'static str]; 4] = [
                    &["first", "one"],
                    &["first", "five"],
                    &["first", "one", "everything"],
                    &["first", "five", "everything"],
                ];
                let first = first.map(|words| Cell { words, ..Cell::new(0, 0) });
                let shared = [1, 16, 256].map(|depth| Cell { words: SHARED, ..Cell::new(64, depth) });
                let apart = Cell { words: APART, ..Cell::new(64, 16) };
                let dead = Cell { words: DEAD, ..Cell::new(0, 0) };
                return first.into_iter().chain(shared).chain([apart, dead]).collect();
            }
            Self::Replicas => {
                let words = [IDS, PROGRAMS, MODERN];
                return words.map(|words| Cell { words, ..Cell::new(64, 16) }).into();
            }
            Self::Startup | Self::CommandLines => return vec![Cell::new(0, 0)],
            Self::Http => {
                const STATEFUL: &[&str] = &["stateful"];
                const STATELESS: &[&str] = &["stateless"];
                return [
                    (STATEFUL, 64, 16),
                    (STATELESS, 64, 16),
                    (STATEFUL, KIB_64, 1),
                    (STATEFUL, 64, 128),
                    // The sessions of 1,000 clients that all work.
                    (STATEFUL, 64, 1000),
                    (&["stateful", "--once"], 64, 16),
                    (&["stateless", "--once"], 64, 16),
                    (&["stateful", HTTP_2], 64, 16),
                    (&["stateless", HTTP_2], 64, 16),
                ]
                .map(|(words, size, depth)| Cell { words, ..Cell::new(size, depth) })
                .into();
            }
            Self::Sessions => {
                let kinds: [&'static [&'static str]; 3] = [&["2000"], &["2000", "streams"], &["10000"]];
                return kinds.map(|words| Cell { words, ..Cell::new(0, 0) }).into();
            }
        };
        let mut cells: Vec<_> = cells.iter().map(|&(size, depth)| Cell::new(size, depth)).collect();
        if self == Self::Servers {
            cells.push(Cell { ascii: false, ..Cell::new(KIB_64, 1) });
            cells.push(Cell { words: TOOLS, ..Cell::new(1000, 1) });
            cells.push(Cell { words: MIXED, ..Cell::new(0, 16) });
            cells.push(Cell { words: RESOURCE, ..Cell::new(100 << 20, 1) });
        }
        cells
    }
}

/// One measurement: the size of what is sent or listed, and the number of concurrent calls.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Zero where the cell makes no calls.
    pub(crate) size: usize,
    pub(crate) depth: usize,
    /// Whether the text is ASCII; otherwise it is in several scripts.
    pub(crate) ascii: bool,
    /// Additional arguments of the load generator.
    pub(crate) words: &'static [&'static str],
}

impl Cell {
    const fn new(size: usize, depth: usize) -> Self {
        Self { size, depth, ascii: true, words: &[] }
    }

    /// The name of the file with the text of this cell.
    pub(crate) fn payload(&self) -> String {
        format!("{}-{}.txt", self.size, self.kind())
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self.words {
            ["tools"] => "tools",
            _ if self.ascii => "ascii",
            _ => "other",
        }
    }

    pub(crate) fn title(&self) -> String {
        match self.words {
            [mode @ ("stateful" | "stateless"), ways @ ..] => {
                let mode = if *mode == "stateful" { "2025-11-25 with sessions" } else { "2026-07-28" };
                let connections = match (ways, self.depth) {
                    ([HTTP_2], depth) => format!("{depth} calls at once on one connection with HTTP/2"),
                    ([_, ..], depth) => format!("{depth} connections, a new one for each request"),
                    ([], 1) => "1 connection".to_owned(),
                    ([], depth) => format!("{depth} connections"),
                };
                return format!("{}, {connections}, {mode}", self.size());
            }
            ["first", count, servers @ ..] => {
                let published = if servers.is_empty() { "" } else { "published " };
                let servers = if *count == "one" { "server" } else { "servers" };
                return format!("from the start to the list with all tools, {count} {published}{servers}");
            }
            ["tools"] => return format!("a list of {} tools", self.size),
            ["resource"] => return format!("a resource of {} MiB", self.size >> 20),
            ["mixed"] => {
                return format!(
                    "90 of 64 B (10 with progress), 9 of 64 KiB, 1 of 4 MiB, {} at once",
                    self.depth
                );
            }
            ["dead"] => return "one of five servers is dead".to_owned(),
            ["calls", sessions] => {
                let calls = Self { words: &[], ..self.clone() };
                let sessions = if *sessions == "shared" { "one session" } else { "a session for each" };
                return format!("{}, {sessions}", calls.title());
            }
            ["left", count] => return format!("the processes for {count} sessions"),
            _ if [IDS, PROGRAMS, MODERN].contains(&self.words) => {
                return format!("{} B, {} connections to each, {}", self.size, self.depth, self.words[0]);
            }
            _ if self.words == FROM_HTTP || self.words == FROM_STDIO => {
                let calls = Self { words: &[], ..self.clone() };
                return format!("{}: {}", self.words[0], calls.title());
            }
            [count] => return format!("{count} sessions"),
            [count, ..] => return format!("{count} sessions, each with an open stream"),
            [] => {}
        }
        let size = self.size();
        let kind = if self.ascii { "" } else { " that are not ASCII" };
        match self.depth {
            1 => format!("{size}{kind}, one call after the other"),
            depth => format!("{size}{kind}, {depth} calls at once"),
        }
    }
    fn size(&self) -> String {
        match self.size {
            size if size >= 1 << 20 => format!("{} MiB", size >> 20),
            size if size >= 1 << 10 => format!("{} KiB", size >> 10),
            size => format!("{size} B"),
        }
    }
}
