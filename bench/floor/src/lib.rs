//! What both floors have in common: the answers.

pub mod answer;
