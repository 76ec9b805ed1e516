//! Parameters, results, questions and errors in the words of the other era.
//!
//! Called by `rounds`. What an era's envelope does not name passes as it was written. What a modern result must have
//! (`resultType`, `ttlMs`, `cacheScope`, `_meta`) the session puts around it.
//! <https://modelcontextprotocol.io/specification/2026-07-28/changelog> names what differs.

use std::borrow::Cow;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{ClientCapabilities, InputRequest, InputResponses, UrlElicitationRequiredData};
use mcpjoin_proto::{ErrorObject, Kind, Method, Payload, Profile, Raw, code};
use memchr::memmem;

use mcpjoin::internal::undeclared;

/// The members of `_meta` that are the envelope of a modern request.
const ENVELOPE: [&str; 5] =
    [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::CLIENT_INFO, key::LOG_LEVEL, key::PROGRESS_TOKEN];

/// The parameters without what only a modern server reads: the envelope, and what makes a request a further round. A
/// progress token of ours is put in by the session of the server's side.
pub(super) fn params(method: &Method, params: &Payload) -> Payload {
    let bare = params.without_meta_members(|key| ENVELOPE.contains(&key));
    if method.may_need_input() {
        bare.without_members(|name| matches!(name, "inputResponses" | "requestState"))
    } else {
        bare
    }
}

/// What a request brings that is a further round of one before it.
pub(super) struct Round {
    pub(super) state: String,
    pub(super) responses: InputResponses,
}

/// The state and the answers that a request brings; `None`: it is a first one.
///
/// # Errors
/// When they are not what they must be.
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
            // To make the call anew would be to run a tool twice.
            Some(_) => Err(ErrorObject::invalid_params(
                "`inputResponses` without the `requestState` that came with the questions",
            )),
        };
    };
    let state = state
        .to_string_value()
        .map(Cow::into_owned)
        .ok_or_else(|| ErrorObject::invalid_params("`requestState` is not a string"))?;
    Ok(Some(Round { state, responses: responses.unwrap_or_default() }))
}

/// A result in the words of the modern era.
pub(super) fn result(method: &Method, result: Payload) -> Raw {
    let result = match method {
        // How a tool may be run as a task is a matter of 2025-11-25, and is seen to here.
        Method::ListTools if says(&result, "\"execution\"") => unexecuted(&result).unwrap_or(result),
        _ => result,
    };
    // In the legacy era nobody has given this name a meaning: what a server means by it is its own.
    if says(&result, "\"resultType\"") {
        result.without_members(|name| name == "resultType").into_raw()
    } else {
        result.into_raw()
    }
}

fn unexecuted(result: &Payload) -> Option<Payload> {
    let tools: Vec<Raw> = result.raw().member("tools")?.decode().ok()?;
    let bare = |tool| Payload::from_raw(tool).without_members(|name| name == "execution").into_raw();
    let tools: Vec<Raw> = tools.into_iter().map(bare).collect();
    Some(result.with_member("tools", &Raw::from_value(&tools).ok()?))
}

/// Whether the text may have such a member: a look that is much faster than reading it.
fn says(result: &Payload, member: &str) -> bool {
    memmem::find(result.raw().as_bytes(), member.as_bytes()).is_some()
}

/// An error of a legacy server as a modern client may see it: a resource that does not exist has another code. The codes that the modern era has given a meaning mean
/// nothing when such a server uses them, and a client would act on them.
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

/// A question of a legacy server, as it travels in `inputRequests`.
///
/// # Errors
/// What the client would answer: there is no such method, its parameters are not what they must be, or it has not
/// declared that it can be asked so.
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
            "{method} asks in a way that this client has not declared"
        )));
    }
    // As it was written, but for what only a request of its own has.
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

/// Whether it asks for more than the client has declared of the method.
fn is_undeclared(question: &InputRequest, client: &ClientCapabilities) -> bool {
    let with_tools = match question {
        InputRequest::CreateMessage(params) => params.tools.is_some() || params.tool_choice.is_some(),
        _ => false,
    };
    let takes_tools = client.sampling.as_ref().is_some_and(|sampling| sampling.tools.is_some());
    undeclared(question, client).is_some() || (with_tools && !takes_tools)
}

/// The pages that a user has to visit before a call can be made: what the error -32042 of 2025-11-25 says.
pub(super) struct Pages {
    pub(super) questions: Vec<InputRequest>,
    /// Under which names the server will tell that the user has done so.
    pub(super) ids: Vec<String>,
    /// The server's own words.
    pub(super) message: String,
}

/// The pages that an error wants; `None` for any other error, for one that does not name them, and for a client that has
/// not declared that its user can be sent to pages.
pub(super) fn pages(error: &ErrorObject, client: &ClientCapabilities) -> Option<Pages> {
    if error.code != code::URL_ELICITATION_REQUIRED {
        return None;
    }
    let data = error.data.as_ref()?;
    let known: UrlElicitationRequiredData = data.decode().ok()?;
    let pages: Vec<Raw> = data.member("elicitations")?.decode().ok()?;
    let questions: Result<Vec<_>, _> =
        pages.into_iter().map(|page| question(&Method::Elicit, Some(page), client)).collect();
    let questions = questions.ok().filter(|questions| !questions.is_empty())?;
    let ids = known.elicitations.into_iter().filter_map(|page| page.elicitation_id).collect();
    Some(Pages { questions, ids, message: error.message.clone() })
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

    #[test]
    fn the_pages_of_an_error_become_questions() {
        let data =
            raw(r#"{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a/","message":"m"}]}"#);
        let error = ErrorObject::new(code::URL_ELICITATION_REQUIRED, "visit").with_data(data);
        let found = pages(&error, &all()).expect("pages");
        assert_eq!(found.ids, ["e1"]);
        assert!(found.questions[0].is_url_elicitation());
        assert_eq!(found.message, "visit");
        assert!(pages(&ErrorObject { code: -32000, ..error.clone() }, &all()).is_none());
        assert!(pages(&error, &capabilities(r#"{"elicitation":{}}"#)).is_none());
        assert!(pages(&ErrorObject { data: Some(raw(r#"{"elicitations":[]}"#)), ..error }, &all()).is_none());
    }
}
