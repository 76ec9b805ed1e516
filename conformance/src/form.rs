//! Fills in a form like a user who accepts the proposed values.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema>

use mcpjoin::proto::types::{ElicitAction, ElicitParams, ElicitResult, Members, PrimitiveSchema};
use mcpjoin::proto::{ErrorObject, Raw};

/// Accepts the form, with the default of every field that has one, and `true` for every other boolean field.
pub(crate) fn accept(asked: &ElicitParams) -> Result<ElicitResult, ErrorObject> {
    let ElicitParams::Form(form) = asked else {
        return Err(ErrorObject::invalid_params("only forms are filled in here"));
    };
    let mut content = Members::default();
    for (name, field) in form.requested_schema.properties.iter() {
        if let Some(value) = proposed(field)? {
            content.insert(name, value);
        }
    }
    Ok(ElicitResult::new(ElicitAction::Accept).with_content(content))
}

fn proposed(field: &PrimitiveSchema) -> Result<Option<Raw>, ErrorObject> {
    // The field as the server wrote it, of any kind.
    let written = Raw::from_value(field).map_err(|error| ErrorObject::internal(error.to_string()))?;
    Ok(written.member("default").or_else(|| match field {
        PrimitiveSchema::Boolean(_) => Raw::parse("true").ok(),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;
    use mcpjoin::proto::types::ElicitParams;

    use super::accept;

    #[test]
    fn every_default_is_taken_as_it_is() {
        let asked: ElicitParams = Raw::parse(
            r#"{"message":"?","requestedSchema":{"type":"object","properties":{
                "name":{"type":"string","default":"John Doe"},
                "age":{"type":"integer","default":30},
                "score":{"type":"number","default":95.5},
                "status":{"type":"string","enum":["active","pending"],"default":"active"},
                "verified":{"type":"boolean","default":false},
                "confirmed":{"type":"boolean"},
                "comment":{"type":"string"}}}}"#,
        )
        .unwrap()
        .decode()
        .unwrap();
        let answer = Raw::from_value(&accept(&asked).unwrap()).unwrap();
        let expected = concat!(
            r#"{"action":"accept","content":{"name":"John Doe","age":30,"score":95.5,"#,
            r#""status":"active","verified":false,"confirmed":true}}"#
        );
        assert_eq!(answer.as_str(), expected);
    }

    #[test]
    fn a_page_is_no_form() {
        let asked: ElicitParams = Raw::parse(r#"{"mode":"url","message":"?","url":"https://example.com"}"#)
            .unwrap()
            .decode()
            .unwrap();
        assert!(accept(&asked).is_err());
    }
}
