//! How a server finds out the era of a stream: the first request decides.
//!
//! Used by `Session` until the era is known. The client side is in `client_negotiation`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;

use super::capabilities::supported_in;
use super::event::{ClientInfo, Peer, PeerCapabilities};
use super::legacy::Legacy;
use super::modern::{self, Modern};
use super::role::ServerRole;
use super::shared::Shared;
use super::violation::Violation;
use crate::json::ReadError;
use crate::types::{ClientCapabilities, Implementation, InitializeParams, InitializeResult};
use crate::{Era, ErrorObject, Method, Payload, Profile, Raw, Request, Version};

/// The effect of a request before the era is known.
pub(super) enum FirstRequest {
    /// It has its response and decides nothing.
    Answered,
    /// It opens a legacy session.
    Legacy(Legacy),
    /// It is a modern request and is still to be handled.
    Modern(Modern, Request),
}

/// Handles a request before the era is known.
pub(super) fn first_request(shared: &mut Shared, server: &ServerRole, request: Request) -> FirstRequest {
    let speaks_modern = server.speaks(Era::Modern);
    let speaks_legacy = server.speaks(Era::Legacy);
    let modern_way = request.method != Method::Initialize && modern::names_its_version(&request);
    if speaks_modern && (modern_way || !speaks_legacy) {
        let modern = Modern::new(modern::newest(), &shared.role);
        return FirstRequest::Modern(modern, request);
    }
    let outcome = match request.method {
        Method::Ping => Ok(Payload::from_raw(Raw::empty_object())),
        Method::Initialize => match initialize(server, &request) {
            Ok((legacy, peer, result)) => {
                shared.peer = Some(Arc::new(peer));
                shared.reply(request.id, None, Ok(result));
                return FirstRequest::Legacy(legacy);
            }
            Err(error) => Err(error),
        },
        Method::Discover if speaks_modern => Err(ErrorObject::invalid_params(
            "every request must carry `io.modelcontextprotocol/protocolVersion` in its _meta",
        )),
        Method::Discover => Err(ErrorObject::method_not_found("server/discover")),
        _ => {
            let method = request.method.clone();
            shared.violation(Violation::TooEarly { method });
            Err(ErrorObject::invalid_request(format!(
                "{} came before the session was opened: send `initialize` first{}",
                request.method,
                if speaks_modern { ", or name the protocol version in _meta" } else { "" }
            )))
        }
    };
    shared.reply(request.id, None, outcome);
    FirstRequest::Answered
}

fn initialize(server: &ServerRole, request: &Request) -> Result<(Legacy, Peer, Payload), ErrorObject> {
    let params = request.params.as_ref().ok_or_else(|| ErrorObject::invalid_params("`params` is missing"))?;
    let (version, info, capabilities) = presented(server, params.raw())
        .map_err(|problem| ErrorObject::invalid_params(problem.to_string()))?;
    let newest = server.newest(Era::Legacy);
    let Some(newest) = newest else {
        return Err(modern::unsupported_version(server, version.as_str()));
    };
    let asked_for = Profile::of(&version)
        .filter(|profile| profile.initialize && server.versions.contains(&profile.version));
    let profile = asked_for.or_else(|| Profile::of(newest)).unwrap_or_else(|| Profile::newest(Era::Legacy));
    let client = Arc::new(ClientInfo { info: info.map(Arc::new), capabilities });
    let result = match &server.presents {
        Some(result) => Payload::from_raw(result.clone()),
        None => {
            let capabilities = supported_in(server.capabilities.clone(), profile);
            let result = InitializeResult::new(profile.version.clone(), capabilities, server.info.clone())
                .with_instructions(server.instructions.clone());
            Payload::from_value(&result).map_err(|error| ErrorObject::internal(error.to_string()))?
        }
    };
    let peer = Peer {
        profile,
        info: client.info.clone(),
        capabilities: PeerCapabilities::Client(client.clone()),
        instructions: None,
        supported_versions: alloc::vec![profile.version.clone()],
        presented: None,
    };
    Ok((Legacy::new(profile, client, false), peer, result))
}

/// The version, the name and the capabilities that a client presents.
fn presented(
    server: &ServerRole,
    params: &Raw,
) -> Result<(Version, Option<Implementation>, ClientCapabilities), ReadError> {
    if server.lenient_opening {
        let capabilities = params.member("capabilities").map(|known| known.decode()).transpose()?;
        let info = params.member("clientInfo").map(|known| known.decode()).transpose()?;
        if capabilities.is_none() || info.is_none() {
            let version = params.member("protocolVersion").unwrap_or_else(Raw::null).decode()?;
            return Ok((version, info, capabilities.unwrap_or_default()));
        }
    }
    let params: InitializeParams = params.decode()?;
    Ok((params.protocol_version, Some(params.client_info), params.capabilities))
}

/// The peer of a modern server. Each request describes its own client.
pub(super) fn unknown_client() -> Peer {
    Peer {
        profile: modern::newest(),
        info: None,
        capabilities: PeerCapabilities::Client(Arc::new(ClientInfo::default())),
        instructions: None,
        supported_versions: alloc::vec![modern::newest().version.clone()],
        presented: None,
    }
}
