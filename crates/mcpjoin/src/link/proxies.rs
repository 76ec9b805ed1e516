//! The variables that name proxies and what is kept from them, and which of two spellings counts.
//!
//! There is no standard for them. Read by the HTTP client, whose rules these are, and by whoever examines them.

/// What names a proxy for `http:`, for `https:` and for all, in both spellings, in their order.
pub const VARIABLES: [[&str; 2]; 3] =
    [["HTTP_PROXY", "http_proxy"], ["HTTPS_PROXY", "https_proxy"], ["ALL_PROXY", "all_proxy"]];
/// What names the hosts that are reached without one.
pub const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The one that counts: the first that is there, be it empty, with its value.
pub fn first<T>(
    names: [&'static str; 2],
    value: impl Fn(&'static str) -> Option<T>,
) -> Option<(&'static str, T)> {
    names.into_iter().find_map(|name| Some((name, value(name)?)))
}
