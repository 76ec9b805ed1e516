//! `mcpjoin serve`: a built-in server on standard input and output.

use crate::args::Serve;
use crate::exit::Exit;

pub(crate) fn run(args: &Serve) -> Exit {
    let _ = (args.server, args.verbose, args.max_message_size);
    Exit::Done
}
