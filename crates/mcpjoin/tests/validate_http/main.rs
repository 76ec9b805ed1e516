//! A look at servers over HTTP: our own is clean, faults in front of it are found, nothing is called, and what is no
//! server is told as such.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod faults;
mod front;
mod outcomes;
