//! Authorization: the seam that it hangs behind, and all of its flow against an authorization server that is played.

#[cfg(feature = "oauth")]
mod authority;
#[cfg(feature = "oauth")]
mod flow;
#[cfg(feature = "oauth")]
mod keeping;
#[cfg(feature = "oauth")]
mod refusals;
mod seam;
#[cfg(feature = "oauth")]
mod secrets;
#[cfg(feature = "oauth")]
mod unattended;
