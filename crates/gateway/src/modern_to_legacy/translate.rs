//! Translates parameters, results, questions and errors between the eras.
//!
//! Used by `mod`, `rounds` and `url_elicitation`. Members that differ in the two eras are removed or replaced; all
//! others pass byte for byte. The members that a modern result must have (`resultType`, `ttlMs`, `cacheScope`, `_meta`)
//! are added by the session.
//! <https://modelcontextprotocol.io/specification/2026-07-28/changelog> lists the differences.

use std::borrow::Cow;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{ClientCapabilities, DiscoverResult, InputRequest, InputResponses};
use mcpjoin_proto::{Era, ErrorObject, Kind, Method, Payload, Profile, Raw, Version, code};
use memchr::memmem;

use mcpjoin::client::Client;
use mcpjoin::internal::undeclared;

/// The members of `_meta` that a modern request carries for the protocol.
const ENVELOPE: [&str; 5] =
    [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::CLIENT_INFO, key::LOG_LEVEL, key::PROGRESS_TOKEN];

/// The parameters without the members that only a modern server reads: the envelope, and the answers and state of a
/// further round. The session with the server adds its own progress token.
pub(super) fn params(method: &Method, params: &Payload) -> Payload {
    let bare = params.without_meta_members(|key| ENVELOPE.contains(&key));
    if method.may_need_input() {
        bare.without_members(|name| matches!(name, "inputResponses" | "requestState"))
    } else {
        bare
    }
}

/// The state and the answers in a request that continues an earlier one.
pub(super) struct Round {
    pub(super) state: String,
    pub(super) responses: InputResponses,
}

/// Reads the state and the answers of a request. `None`: it begins a call.
///
/// # Errors
/// If they are not valid, or there are answers without a state.
pub(super) fn round(params: Option<&Payload>) -> Result<Option<Round>, ErrorObject> {
    let member = |name: &str| {
        let member = params.and_then(|params| params.raw().member(name));
        member.filter(|member| member.kind() != Kind::Null)
    };
    let responses = match member("inputResponses") {
        None => None,
        Some(responses) => Some(
            responses
                .decode::<InputResponses>()
                .map_err(|error| ErrorObject::invalid_params(format!("`inputResponses`: {error}")))?,
        ),
    };
    let Some(state) = member("requestState") else {
        return match responses {
            None => Ok(None),
            // Repeating the call would run a tool twice.
            Some(_) => Err(ErrorObject::invalid_params(
                "`inputResponses` without the `requestState` of the input requests",
            )),
        };
    };
    let state = state
        .to_string_value()
        .map(Cow::into_owned)
        .ok_or_else(|| ErrorObject::invalid_params("`requestState` is not a string"))?;
    Ok(Some(Round { state, responses: responses.unwrap_or_default() }))
}

/// Translates a result into the modern era.
pub(super) fn result(method: &Method, result: Payload) -> Raw {
    let result = match method {
        // `execution` says how a tool runs as a task of 2025-11-25, which `tasks` handles.
        Method::ListTools if may_contain(&result, "\"execution\"") => {
            without_execution(&result).unwrap_or(result)
        }
        _ => result,
    };
    // The legacy era does not define this member, so a server uses it for something else.
    if may_contain(&result, "\"resultType\"") {
        result.without_members(|name| name == "resultType").into_raw()
    } else {
        result.into_raw()
    }
}

fn without_execution(result: &Payload) -> Option<Payload> {
    let tools: Vec<Raw> = result.raw().member("tools")?.decode().ok()?;
    let bare = |tool| Payload::from_raw(tool).without_members(|name| name == "execution").into_raw();
    let tools: Vec<Raw> = tools.into_iter().map(bare).collect();
    Some(result.with_member("tools", &Raw::from_value(&tools).ok()?))
}

/// Whether the text may contain such a member. Much faster than parsing it.
fn may_contain(result: &Payload, member: &str) -> bool {
    memmem::find(result.raw().as_bytes(), member.as_bytes()).is_some()
}

/// Translates an error into the modern era. A resource that does not exist has another code there. Codes that only the
/// modern era defines become internal errors, because a client would act on them.
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes>
pub(super) fn error(profile: &Profile, error: ErrorObject) -> ErrorObject {
    match error.code {
        code::RESOURCE_NOT_FOUND => ErrorObject { code: profile.resource_not_found, ..error },
        code::HEADER_MISMATCH
        | code::MISSING_REQUIRED_CLIENT_CAPABILITY
        | code::UNSUPPORTED_PROTOCOL_VERSION
        | code::URL_ELICITATION_REQUIRED => ErrorObject { code: code::INTERNAL_ERROR, ..error },
        _ => error,
    }
}

/// Translates a question of a legacy server into an entry of `inputRequests`.
///
/// # Errors
/// The error that the client would answer with: it has not declared the method or this use of it, or the parameters are
/// not valid.
pub(super) fn question(
    method: &Method,
    params: Option<Raw>,
    client: &ClientCapabilities,
) -> Result<InputRequest, ErrorObject> {
    let has_method = match method {
        Method::CreateMessage => client.sampling.is_some(),
        Method::Elicit => client.elicitation.is_some(),
        Method::ListRoots => client.roots.is_some(),
        _ => false,
    };
    if !has_method {
        return Err(ErrorObject::method_not_found(method.as_str()));
    }
    let known = InputRequest::from_parts(method.as_str(), params.clone())
        .map_err(|error| ErrorObject::invalid_params(format!("{method}: {error}")))?;
    if is_undeclared(&known, client) {
        return Err(ErrorObject::invalid_params(format!(
            "{method} uses a mode that this client has not declared"
        )));
    }
    // Members that only a separate request has are removed.
    let is_page = known.is_url_elicitation();
    let params = params.map(|params| {
        let params = Payload::from_raw(params);
        let params = if is_page { params.without_members(|name| name == "elicitationId") } else { params };
        params
            .without_meta_members(|name| name == key::PROGRESS_TOKEN || name == key::RELATED_TASK)
            .into_raw()
    });
    Ok(InputRequest::Other { method: method.as_str().into(), params })
}

/// Whether the question uses a part of its method that the client has not declared.
fn is_undeclared(question: &InputRequest, client: &ClientCapabilities) -> bool {
    let with_tools = match question {
        InputRequest::CreateMessage(params) => params.tools.is_some() || params.tool_choice.is_some(),
        _ => false,
    };
    let takes_tools = client.sampling.as_ref().is_some_and(|sampling| sampling.tools.is_some());
    undeclared(question, client).is_some() || (with_tools && !takes_tools)
}

/// The result of `server/discover` for a legacy server. Its capabilities stay as the server wrote them.
/// <https://modelcontextprotocol.io/specification/2026-07-28/server/discover>
pub(crate) fn discover_result(server: &Client) -> Result<Reply, ErrorObject> {
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

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Era;

    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).expect("valid")
    }

    fn payload(text: &str) -> Payload {
        Payload::from_raw(raw(text))
    }

    fn capabilities(text: &str) -> ClientCapabilities {
        raw(text).decode().expect("capabilities")
    }

    fn all() -> ClientCapabilities {
        capabilities(r#"{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}"#)
    }

    #[test]
    fn what_the_client_has_not_declared_is_refused_as_it_would() {
        let page = r#"{"mode":"url","elicitationId":"e","url":"https://a/","message":"m"}"#;
        let tools = r#"{"messages":[],"maxTokens":1,"tools":[]}"#;
        for (method, params, client, wanted) in [
            (Method::ListRoots, "{}", "{}", code::METHOD_NOT_FOUND),
            (Method::CreateMessage, tools, "{}", code::METHOD_NOT_FOUND),
            (Method::CreateMessage, tools, r#"{"sampling":{}}"#, code::INVALID_PARAMS),
            (Method::Elicit, page, "{}", code::METHOD_NOT_FOUND),
            (Method::Elicit, page, r#"{"elicitation":{}}"#, code::INVALID_PARAMS),
        ] {
            let error = question(&method, Some(raw(params)), &capabilities(client)).expect_err(client);
            assert_eq!(error.code, wanted, "{method} {client}");
        }
        let takes = capabilities(r#"{"sampling":{"tools":{}}}"#);
        assert!(question(&Method::CreateMessage, Some(raw(tools)), &takes).is_ok());
    }

    #[test]
    fn the_modern_envelope_is_cut_out_of_parameters_and_nothing_else() {
        let meta = format!(
            r#"{{"{}":"2026-07-28","{}":{{}},"{}":{{"name":"a","version":"1"}},"{}":"info","progressToken":7"#,
            key::PROTOCOL_VERSION,
            key::CLIENT_CAPABILITIES,
            key::CLIENT_INFO,
            key::LOG_LEVEL
        );
        for (text, wanted) in [
            (format!(r#"{{"name":"t","_meta":{meta}}}}}"#), r#"{"name":"t"}"#),
            (format!(r#"{{"_meta":{meta}}}}}"#), "{}"),
            (
                format!(r#"{{"_meta":{meta},"traceparent":"00"}}, "name" : "t","arguments":{{"n":1.50}} }}"#),
                r#"{"_meta":{"traceparent":"00"}, "name" : "t","arguments":{"n":1.50} }"#,
            ),
            (
                format!(
                    r#"{{"name":"t","requestState":"x","inputResponses":{{}},"_meta":{meta}}},"own":[1, 2]}}"#
                ),
                r#"{"name":"t","own":[1, 2]}"#,
            ),
            (r#"{"name":"t"}"#.to_owned(), r#"{"name":"t"}"#),
        ] {
            assert_eq!(params(&Method::CallTool, &payload(&text)).raw().as_str(), wanted, "{text}");
        }
        let own = r#"{"requestState":"x"}"#;
        assert_eq!(params(&Method::parse("own/method"), &payload(own)).raw().as_str(), own);
    }

    #[test]
    fn a_further_round_brings_state_and_answers() {
        let of = |text: &str| round(Some(&payload(text)));
        assert!(of("{}").expect("a first one").is_none());
        assert!(of(r#"{"requestState":null,"inputResponses":null}"#).expect("a first one").is_none());
        let round =
            of(r#"{"requestState":"s","inputResponses":{"a":{}}}"#).expect("valid").expect("a further one");
        assert_eq!(round.state, "s");
        assert!(round.responses.contains_key("a"));
        assert!(of(r#"{"requestState":"s"}"#).expect("valid").expect("a further one").responses.is_empty());
        for (text, why) in [
            (r#"{"requestState":1}"#, "is not a string"),
            (r#"{"inputResponses":{"a":{}}}"#, "without the `requestState`"),
            (r#"{"requestState":"s","inputResponses":{"a":1}}"#, "`inputResponses`: "),
            (r#"{"requestState":"s","inputResponses":[]}"#, "`inputResponses`: "),
        ] {
            let error = of(text).err().expect(text);
            assert!(error.message.contains(why), "{}", error.message);
        }
    }

    #[test]
    fn results_lose_what_means_something_else_now() {
        let tools = r#"{"tools":[{"name":"a","execution":{"taskSupport":"required"},"inputSchema":{"type":"object"}},{"name":"execution","inputSchema":{ }}],"nextCursor":"x","own":1e5}"#;
        assert_eq!(
            result(&Method::ListTools, payload(tools)).as_str(),
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"execution","inputSchema":{ }}],"nextCursor":"x","own":1e5}"#
        );
        for text in [r#"{"content":[{"type":"text","text":"\"resultType\""}]}"#, r#"{ "content":[] }"#] {
            assert_eq!(result(&Method::CallTool, payload(text)).as_str(), text);
        }
        let own = r#"{"content":[],"resultType":"mine"}"#;
        assert_eq!(result(&Method::CallTool, payload(own)).as_str(), r#"{"content":[]}"#);
    }

    #[test]
    fn codes_that_mean_something_now_are_not_a_legacy_servers() {
        for (given, wanted) in [
            (-32020, -32603),
            (-32021, -32603),
            (-32022, -32603),
            (-32042, -32603),
            (-32002, -32602),
            (-32000, -32000),
            (7, 7),
        ] {
            let of = ErrorObject::new(given, "m").with_data(raw("[1]"));
            assert_eq!(
                error(Profile::newest(Era::Modern), of),
                ErrorObject::new(wanted, "m").with_data(raw("[1]"))
            );
        }
    }

    #[test]
    fn questions_stay_as_they_were_written_but_for_what_is_gone() {
        let all = all();
        let of = |method: Method, text: &str| {
            question(&method, Some(raw(text)), &all)
                .map(|question| Raw::from_value(&question).expect("JSON").to_string())
        };
        assert_eq!(
            of(Method::Elicit, r#"{"message":"m","requestedSchema":{"type":"object","properties":{}, "own":1.0},"_meta":{"progressToken":1}}"#),
            Ok(r#"{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}, "own":1.0}}}"#.to_owned())
        );
        assert_eq!(
            of(Method::Elicit, r#"{"mode":"url","elicitationId":"e","url":"https://a/","message":"m","own":1}"#),
            Ok(r#"{"method":"elicitation/create","params":{"mode":"url","url":"https://a/","message":"m","own":1}}"#.to_owned())
        );
        assert_eq!(
            of(Method::Elicit, r#"{"message":1}"#).map_err(|error| error.code),
            Err(code::INVALID_PARAMS)
        );
        let unknown = of(Method::parse("x/y"), "{}").map_err(|error| error.code);
        assert_eq!(unknown, Err(code::METHOD_NOT_FOUND));
        assert_eq!(
            question(&Method::ListRoots, None, &all)
                .map(|question| Raw::from_value(&question).expect("JSON").to_string()),
            Ok(r#"{"method":"roots/list"}"#.to_owned())
        );
    }
}
