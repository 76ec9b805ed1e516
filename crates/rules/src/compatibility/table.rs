//! The limits of well-known clients. A client is added by a row for each of its limits.
//!
//! A row is the demand, what happens to a tool that does not meet it, and the date and the address of the source. Reports of
//! users count as much as documentation.

use super::Consequence::{CallsFail, Crowded, Dropped, ListRejected, Renamed, RequestsRejected, Shortened};
use super::Demand::{
    ArraysHaveItems, DescriptionLength, HasProperties, InputIsObject, NameCharacters, NameLength, NotAtTop,
    OutputIs2020, OutputIsObject, RequiredIsList, Tokens, Tools,
};
use super::{Day, Limit};

/// How Claude Code calls a tool: `mcp__SERVER__TOOL`.
const MCP: Option<[&str; 2]> = Some(["mcp__", "__"]);
/// What most model APIs allow in a name beside letters and digits.
const PLAIN: &str = "_-";
const COMPOSITION: &[&str] = &["anyOf", "oneOf", "allOf"];

macro_rules! limits {
    (
        $($client:literal {
            $($demand:expr => $then:ident, $year:literal-$month:literal-$day:literal, $source:literal;)+
        })+
    ) => {
        /// The limits of all clients; those of one stand together.
        pub static CLIENT_LIMITS: &[Limit] = &[$($(Limit {
            client: $client,
            demand: $demand,
            then: $then,
            source: $source,
            seen: Day { year: $year, month: $month, day: $day },
        },)+)+];
    };
}

limits! {
    "Claude Code" {
        InputIsObject => ListRejected, 2026-8-19, "https://github.com/AnalyseDeCircuit/oxideterm/issues/458";
        OutputIsObject => ListRejected, 2026-8-7, "https://github.com/trycua/cua/issues/2977";
        RequiredIsList => ListRejected, 2026-4-6, "https://github.com/anthropics/claude-code/issues/44364";
        NotAtTop(COMPOSITION) => Dropped, 2026-9-21, "https://github.com/opentokenz/mcpx/issues/28";
        NameCharacters(PLAIN) => Dropped, 2026-4-22, "https://github.com/valon-technologies/gestalt/pull/1284";
        NameLength { most: 128, around_server: MCP } => RequestsRejected, 2025-8-14,
            "https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1345";
        OutputIs2020 => CallsFail, 2026-8-22, "https://github.com/anthropics/claude-code/issues/88882";
        DescriptionLength(2048) => Shortened, 2026-9-15, "https://code.claude.com/docs/en/mcp";
        Tokens(25_000) => Crowded, 2025-11-24, "https://github.com/anthropics/claude-code/issues/12241";
    }
    "Claude Desktop" {
        OutputIsObject => ListRejected, 2025-10-21, "https://github.com/anthropics/claude-code/issues/10031";
        NameCharacters(PLAIN) => RequestsRejected, 2026-4-30, "https://github.com/jamiepine/voicebox/issues/590";
        NameLength { most: 64, around_server: None } => RequestsRejected, 2026-4-30,
            "https://github.com/jamiepine/voicebox/issues/590";
        OutputIs2020 => Dropped, 2026-8-15, "https://github.com/n8n-io/n8n/issues/36361";
    }
    "Anthropic API" {
        NameCharacters(PLAIN) => RequestsRejected, 2026-3-6, "https://github.com/github/copilot-cli/issues/1879";
        NameLength { most: 128, around_server: None } => RequestsRejected, 2026-3-6,
            "https://github.com/github/copilot-cli/issues/1879";
        NotAtTop(COMPOSITION) => RequestsRejected, 2026-8-5,
            "https://github.com/makenotion/notion-mcp-server/issues/341";
    }
    "Cursor" {
        OutputIsObject => ListRejected, 2025-10-21, "https://github.com/anthropics/claude-code/issues/10031";
        // 60 are too many: the message says that "length (60) exceeds 60".
        NameLength { most: 59, around_server: Some(["", ""]) } => Dropped, 2026-2-27,
            "https://github.com/ComposioHQ/composio/issues/2788";
        Tools(40) => Crowded, 2026-6-17, "https://mcptrove.com/blog/cursor-tool-limit-math";
    }
    "VS Code" {
        ArraysHaveItems => Dropped, 2026-8-19, "https://github.com/db-lyon/ue-mcp/issues/936";
        Tools(128) => Crowded, 2026-11-22,
            "https://github.com/microsoft/vscode-copilot-chat/blob/main/src/platform/configuration/common/configurationService.ts";
    }
    "GitHub Copilot CLI" {
        NameCharacters(PLAIN) => RequestsRejected, 2026-3-6, "https://github.com/github/copilot-cli/issues/1879";
        NameLength { most: 128, around_server: None } => RequestsRejected, 2026-3-6,
            "https://github.com/github/copilot-cli/issues/1879";
    }
    "Codex" {
        NameCharacters("_") => Renamed, 2026-4-6, "https://github.com/openai/codex/pull/16944";
    }
    "OpenAI API" {
        InputIsObject => RequestsRejected, 2025-7-2, "https://github.com/vercel/ai/issues/7005";
        NotAtTop(COMPOSITION) => RequestsRejected, 2026-8-5,
            "https://github.com/makenotion/notion-mcp-server/issues/340";
        HasProperties => RequestsRejected, 2025-12-7, "https://github.com/github/github-mcp-server/issues/1548";
        ArraysHaveItems => RequestsRejected, 2025-11-21, "https://github.com/PrefectHQ/fastmcp/issues/2464";
        NameCharacters(PLAIN) => RequestsRejected, 2026-9-3,
            "https://github.com/redhat-community-ai-tools/UnifAI/pull/266";
        NameLength { most: 64, around_server: None } => RequestsRejected, 2025-5-9,
            "https://github.com/microsoft/foundry-dev-tools/issues/201";
    }
    "Gemini CLI" {
        NameCharacters("_-.:") => Renamed, 2026-11-22,
            "https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/tools/mcp-tool.ts";
        NameLength { most: 63, around_server: Some(["mcp_", "_"]) } => Renamed, 2026-11-22,
            "https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/tools/mcp-tool.ts";
    }
    "Windsurf" {
        Tools(100) => Crowded, 2026-6-16, "https://docs.windsurf.com/windsurf/cascade/mcp";
    }
}
