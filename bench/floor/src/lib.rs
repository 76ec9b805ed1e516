//! The shared part of the floor servers: the responses.

pub mod answer;
pub mod offer;
