//! Tools whose input schema says more than the names and types of arguments.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{Tool, ToolAnnotations};
use mcpjoin::server::{HandlerError, ServerBuilder, tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// A schema that is told to the client as it is written here, every keyword of it.
const CONTACT: &str = r##"{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
        }
    },
    "properties": {
        "name": { "type": "string" },
        "address": { "$ref": "#/$defs/address" },
        "contactMethod": { "type": "string", "enum": ["phone", "email"] },
        "phone": { "type": "string" },
        "email": { "type": "string" }
    },
    "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
    "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
    "then": { "required": ["phone"] },
    "else": { "required": ["email"] },
    "additionalProperties": false
}"##;

/// The same for the program. What only the schema can say, the handler says again in its own words.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Contact {
    name: Option<String>,
    address: Option<Address>,
    contact_method: Option<ContactMethod>,
    phone: Option<String>,
    email: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    city: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ContactMethod {
    Phone,
    Email,
}

#[derive(Deserialize, JsonSchema)]
struct Routed {
    /// Where the call is to be handled. Over HTTP it also goes into the header `Mcp-Param-Region`, for whoever
    /// routes the call without reading it
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// Adds the chapter.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    let schema = Raw::parse(CONTACT).expect("the constant above is JSON");
    let contact = Tool::new("json_schema_2020_12_tool", schema)
        .with_description("Says how somebody can be reached; its schema uses what JSON Schema 2020-12 has")
        .with_annotations(ToolAnnotations::default().with_read_only_hint(true));
    server.raw_tool(contact, async |arguments: Raw, _| reach(&arguments.decode()?)).tool(
        tool("test_custom_header").description("Takes an argument that HTTP repeats in a header").read_only(),
        async |routed: Routed, _| format!("Handled in {}", routed.region),
    )
}

fn reach(contact: &Contact) -> Result<String, HandlerError> {
    let way = match (&contact.contact_method, &contact.phone, &contact.email) {
        (Some(ContactMethod::Phone), Some(phone), _) => phone,
        (Some(ContactMethod::Phone), None, _) => return Err(HandlerError::new("`phone` is missing")),
        (Some(ContactMethod::Email) | None, _, Some(email)) => email,
        (Some(ContactMethod::Email) | None, _, None) => return Err(HandlerError::new("`email` is missing")),
    };
    let name = contact.name.as_deref().unwrap_or("Somebody");
    let city = contact.address.as_ref().and_then(|address| address.city.as_deref());
    Ok(match city {
        Some(city) => format!("{name} in {city} can be reached at {way}"),
        None => format!("{name} can be reached at {way}"),
    })
}
