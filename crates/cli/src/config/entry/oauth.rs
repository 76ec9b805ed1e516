//! How a server over HTTP is logged in to, as far as an entry says it: `oauth` of Claude Code
//! (<https://code.claude.com/docs/en/mcp>: `clientId`, `callbackPort`, `scopes` as one text), of VS Code
//! (<https://code.visualstudio.com/docs/copilot/reference/mcp-configuration>: `clientId`), of opencode
//! (<https://opencode.ai/docs/mcp-servers/>: `clientId`, `clientSecret`, `scope`, `redirectUri`, or `false`) and of Codex
//! (<https://developers.openai.com/codex/mcp>: `client_id`, `callback_url`, `callback_port`, and `scopes` beside it).
//!
//! One reader for all of them: their members do not contradict each other. Read by `auth login NAME`.

use crate::config::source::Problem;
use crate::config::tree::{Fields, Member, Text, Value};

/// What an entry says, nothing expanded yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::config) struct Oauth {
    /// The client that was registered with the authorization server before.
    pub(in crate::config) client_id: Option<Text>,
    pub(in crate::config) client_secret: Option<Text>,
    /// The port that is registered for the way back from the browser.
    pub(in crate::config) callback_port: Option<u16>,
    /// The programs that spell it so come back to `localhost` by that name.
    pub(in crate::config) by_name: bool,
    /// The whole address that is registered for the way back.
    pub(in crate::config) redirect: Option<Text>,
    /// To be asked for, several in one text with blanks between them.
    pub(in crate::config) scopes: Vec<Text>,
    /// Nothing of this kind is to be used.
    pub(in crate::config) off: bool,
}

impl Oauth {
    /// The texts in it that variables are expanded in.
    pub(in crate::config) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.client_id.iter().chain(&self.client_secret).chain(&self.redirect).chain(&self.scopes)
    }

    pub(in crate::config) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Text> {
        let id = self.client_id.iter_mut().chain(&mut self.client_secret);
        id.chain(&mut self.redirect).chain(&mut self.scopes)
    }
}

/// `member`: `oauth` itself; `beside`: scopes that stand outside of it. `warnings`: takes what is not used.
pub(super) fn read(
    member: Option<&Member>,
    beside: Option<&Member>,
    warnings: &mut Vec<Problem>,
) -> Result<Option<Oauth>, Problem> {
    let mut oauth = Oauth { scopes: scopes(beside)?, ..Oauth::default() };
    let Some(member) = member else { return Ok((beside.is_some()).then_some(oauth)) };
    if let Value::Bool(on) = member.node.value {
        oauth.off = !on;
        return Ok(Some(oauth));
    }
    let mut fields = Fields::new(member.node.members(&member.name)?);
    let text = |member: Option<&Member>, name: &str| member.map(|it| it.node.text(name)).transpose();
    oauth.client_id = text(fields.take(&["clientId", "client_id"])?, "oauth.clientId")?;
    oauth.client_secret = text(fields.take(&["clientSecret", "client_secret"])?, "oauth.clientSecret")?;
    if let Some(port) = fields.take(&["callbackPort", "callback_port"])? {
        let number = u16::try_from(port.node.whole("oauth.callbackPort")?).ok().filter(|port| *port > 0);
        let wrong = || Problem::new(port.node.at, "oauth.callbackPort must be a port: from 1 to 65535");
        oauth.callback_port = Some(number.ok_or_else(wrong)?);
        oauth.by_name = port.name == "callbackPort";
    }
    oauth.scopes.extend(scopes(fields.take(&["scopes", "scope"])?)?);
    let redirect = fields.take(&["redirectUri", "redirect_uri", "callbackUrl", "callback_url"])?;
    oauth.redirect = text(redirect, "oauth.redirectUri")?;
    warnings.extend(fields.take(&["authServerMetadataUrl"])?.map(|member| {
        let text = "oauth.authServerMetadataUrl is not used: the server itself says which authorization server it has \
                    (mcpjoin auth explain shows how)";
        Problem::new(member.at, text)
    }));
    warnings.extend(fields.unknown().map(|problem| {
        let text = format!("oauth: {}", problem.text);
        Problem { text, ..problem }
    }));
    Ok(Some(oauth))
}

/// One text with blanks between them, or a list.
fn scopes(member: Option<&Member>) -> Result<Vec<Text>, Problem> {
    let Some(member) = member else { return Ok(Vec::new()) };
    match member.node.value {
        Value::List(_) => member.node.texts(&member.name),
        _ => Ok(vec![member.node.text(&member.name)?]),
    }
}
