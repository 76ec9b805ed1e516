//! The exit codes of the process. No other module contains one.
//!
//! Used by `main` and by the commands. The numbers are part of the interface: scripts rely on them.

use std::process::ExitCode;

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did its work.
    Done,
    /// The command found faults (`validate`, `doctor`) or changes (`diff`).
    Faults,
    /// The command line, the configuration or the environment cannot be used, or the output cannot be written.
    Usage,
    /// The server requires an authorization, or refuses ours.
    Authorization,
    /// No connection, connection lost, or timed out.
    Connection,
    /// The server responded with an error, or a tool result is one.
    ServerError,
    /// A signal ended the command, after all processes that it had started were ended.
    Signal(Signal),
}

/// The signals that end a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGHUP: the terminal was closed.
    Hangup,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The table for `--help`.
pub(crate) const TABLE: &str = concat!(
    "  0    done\n",
    "  1    checks found faults (validate, doctor), or something has changed (diff)\n",
    "  2    wrong usage, an invalid configuration, or output that cannot be written\n",
    "  3    not authorized\n",
    "  4    no connection, connection lost, or timed out\n",
    "  5    the server answered with an error, or a tool result is one\n",
    "  129  the terminal is gone\n",
    "  130  interrupted (Ctrl-C)\n",
    "  143  terminated",
);

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Faults => 1,
            Self::Usage => 2,
            Self::Authorization => 3,
            Self::Connection => 4,
            Self::ServerError => 5,
            // As a shell reports it: 128 plus the number of the signal.
            Self::Signal(Signal::Hangup) => 129,
            Self::Signal(Signal::Interrupt) => 130,
            Self::Signal(Signal::Terminate) => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, Signal, TABLE};

    #[test]
    fn i168_every_code_is_in_the_table_of_the_help() {
        let known = [
            Exit::Done,
            Exit::Faults,
            Exit::Usage,
            Exit::Authorization,
            Exit::Connection,
            Exit::ServerError,
            Exit::Signal(Signal::Hangup),
            Exit::Signal(Signal::Interrupt),
            Exit::Signal(Signal::Terminate),
        ];
        let listed: Vec<u8> =
            TABLE.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        assert_eq!(listed, known.map(Exit::code));
    }
}
