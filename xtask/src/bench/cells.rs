//! What is measured: the parts, and the cells of each.

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Echo servers under the load generator.
    Servers,
    /// Clients against the floor.
    Clients,
    /// From starting a server to its answer to `initialize`.
    Startup,
    /// Whole command lines that list a server's tools, or call one.
    CommandLines,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Servers, Self::Clients, Self::Startup, Self::CommandLines];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Clients => "clients",
            Self::Startup => "startup",
            Self::CommandLines => "command-lines",
        }
    }

    /// How many turns each candidate takes when that many repetitions are asked for: what lasts milliseconds once varies
    /// more than what is repeated for a second.
    pub(crate) const fn turns(self, repetitions: usize) -> usize {
        match self {
            Self::Servers | Self::Clients => repetitions,
            Self::Startup | Self::CommandLines => 4 * repetitions,
        }
    }

    pub(crate) fn cells(self) -> Vec<Cell> {
        const KIB_64: usize = 64 << 10;
        const MIB_4: usize = 4 << 20;
        let cells: &[(usize, usize)] = match self {
            Self::Servers => &[(64, 1), (64, 16), (64, 256), (KIB_64, 1), (KIB_64, 16), (MIB_4, 1)],
            Self::Clients => &[(64, 1), (64, 64), (KIB_64, 1)],
            Self::Startup | Self::CommandLines => return vec![Cell { size: 0, depth: 0, ascii: true }],
        };
        let mut cells: Vec<_> =
            cells.iter().map(|&(size, depth)| Cell { size, depth, ascii: true }).collect();
        if self == Self::Servers {
            cells.push(Cell { size: KIB_64, depth: 1, ascii: false });
        }
        cells
    }
}

/// One measurement: a text of so many bytes, so many calls at once.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Zero where nothing is called.
    pub(crate) size: usize,
    pub(crate) depth: usize,
    /// The text is ASCII; else it is in several scripts.
    pub(crate) ascii: bool,
}

impl Cell {
    /// The name of the file with its text.
    pub(crate) fn payload(&self) -> String {
        format!("{}-{}.txt", self.size, self.kind())
    }

    pub(crate) const fn kind(&self) -> &'static str {
        if self.ascii { "ascii" } else { "other" }
    }

    pub(crate) fn title(&self) -> String {
        let size = match self.size {
            size if size >= 1 << 20 => format!("{} MiB", size >> 20),
            size if size >= 1 << 10 => format!("{} KiB", size >> 10),
            size => format!("{size} B"),
        };
        let kind = if self.ascii { "" } else { " that are not ASCII" };
        match self.depth {
            1 => format!("{size}{kind}, one call after the other"),
            depth => format!("{size}{kind}, {depth} calls at once"),
        }
    }
}
