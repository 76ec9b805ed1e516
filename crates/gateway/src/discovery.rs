//! What a modern client is told of a legacy server: the answer to `server/discover`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::DiscoverResult;
use mcpjoin_proto::{Era, ErrorObject, Payload, Version};

use mcpjoin::client::Client;

/// The answer, in the server's own words as far as it has them.
pub(super) fn of_legacy(server: &Client) -> Result<Reply, ErrorObject> {
    let peer = server.peer();
    let capabilities = peer.server_capabilities().cloned().unwrap_or_default();
    let result = DiscoverResult::new(vec![Version::newest(Era::Modern)], capabilities)
        .with_instructions(peer.instructions.clone());
    let mut result =
        Payload::from_value(&result).map_err(|error| ErrorObject::internal(error.to_string()))?;
    if let Some(capabilities) = peer.presented.as_ref().and_then(|presented| presented.member("capabilities"))
    {
        result = result.with_member("capabilities", &capabilities);
    }
    Ok(Reply::Complete(result.into_raw()))
}
