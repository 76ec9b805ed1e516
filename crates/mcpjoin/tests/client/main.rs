//! Tests of the client against scripted servers in memory.

mod cache;
mod calls;
mod input;
mod layers;
mod lists;
mod notifications;
mod opening;
mod tasks;
mod typed;
