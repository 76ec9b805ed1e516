//! What well-known clients take: the table of this module, to which a client is added by a line.
//!
//! Each line says where it was seen and when. Reports of users count as much as documentation: they say what happened.

use super::Consequence::{CallsFail, Crowded, Dropped, ListRejected, Renamed, RequestsRejected, Shortened};
use super::{Consequence, Day, Demand, Limit};

const fn limit(
    client: &'static str,
    demand: Demand,
    then: Consequence,
    (year, month, day): (u16, u8, u8),
    source: &'static str,
) -> Limit {
    Limit { client, demand, then, source, seen: Day { year, month, day } }
}

/// How Claude Code calls a tool: `mcp__SERVER__TOOL`.
const MCP: Option<[&str; 2]> = Some(["mcp__", "__"]);
/// What most interfaces of models allow in a name beside letters and digits.
const PLAIN: &str = "_-";
const COMPOSITION: &[&str] = &["anyOf", "oneOf", "allOf"];

/// The limits of all clients; those of one stand together.
pub static CLIENT_LIMITS: &[Limit] = &[
    limit(
        "Claude Code",
        Demand::InputIsObject,
        ListRejected,
        (2026, 8, 19),
        "https://github.com/AnalyseDeCircuit/oxideterm/issues/458",
    ),
    limit(
        "Claude Code",
        Demand::OutputIsObject,
        ListRejected,
        (2026, 8, 7),
        "https://github.com/trycua/cua/issues/2977",
    ),
    limit(
        "Claude Code",
        Demand::RequiredIsList,
        ListRejected,
        (2026, 4, 6),
        "https://github.com/anthropics/claude-code/issues/44364",
    ),
    limit(
        "Claude Code",
        Demand::NotAtTop(COMPOSITION),
        Dropped,
        (2026, 9, 21),
        "https://github.com/opentokenz/mcpx/issues/28",
    ),
    limit(
        "Claude Code",
        Demand::NameCharacters(PLAIN),
        Dropped,
        (2026, 4, 22),
        "https://github.com/valon-technologies/gestalt/pull/1284",
    ),
    limit(
        "Claude Code",
        Demand::NameLength { most: 128, around_server: MCP },
        RequestsRejected,
        (2025, 8, 14),
        "https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1345",
    ),
    limit(
        "Claude Code",
        Demand::OutputIs2020,
        CallsFail,
        (2026, 8, 22),
        "https://github.com/anthropics/claude-code/issues/88882",
    ),
    limit(
        "Claude Code",
        Demand::DescriptionLength(2048),
        Shortened,
        (2026, 9, 15),
        "https://code.claude.com/docs/en/mcp",
    ),
    limit(
        "Claude Code",
        Demand::Tokens(25_000),
        Crowded,
        (2025, 11, 24),
        "https://github.com/anthropics/claude-code/issues/12241",
    ),
    limit(
        "Claude Desktop",
        Demand::OutputIsObject,
        ListRejected,
        (2025, 10, 21),
        "https://github.com/anthropics/claude-code/issues/10031",
    ),
    limit(
        "Claude Desktop",
        Demand::NameCharacters(PLAIN),
        RequestsRejected,
        (2026, 4, 30),
        "https://github.com/jamiepine/voicebox/issues/590",
    ),
    limit(
        "Claude Desktop",
        Demand::NameLength { most: 64, around_server: None },
        RequestsRejected,
        (2026, 4, 30),
        "https://github.com/jamiepine/voicebox/issues/590",
    ),
    limit(
        "Claude Desktop",
        Demand::OutputIs2020,
        Dropped,
        (2026, 8, 15),
        "https://github.com/n8n-io/n8n/issues/36361",
    ),
    limit(
        "Anthropic API",
        Demand::NameCharacters(PLAIN),
        RequestsRejected,
        (2026, 3, 6),
        "https://github.com/github/copilot-cli/issues/1879",
    ),
    limit(
        "Anthropic API",
        Demand::NameLength { most: 128, around_server: None },
        RequestsRejected,
        (2026, 3, 6),
        "https://github.com/github/copilot-cli/issues/1879",
    ),
    limit(
        "Anthropic API",
        Demand::NotAtTop(COMPOSITION),
        RequestsRejected,
        (2026, 8, 5),
        "https://github.com/makenotion/notion-mcp-server/issues/341",
    ),
    limit(
        "Cursor",
        Demand::OutputIsObject,
        ListRejected,
        (2025, 10, 21),
        "https://github.com/anthropics/claude-code/issues/10031",
    ),
    limit(
        "Cursor",
        // Sixty are one too many: the message says that "length (60) exceeds 60".
        Demand::NameLength { most: 59, around_server: Some(["", ""]) },
        Dropped,
        (2026, 2, 27),
        "https://github.com/ComposioHQ/composio/issues/2788",
    ),
    limit(
        "Cursor",
        Demand::Tools(40),
        Crowded,
        (2026, 6, 17),
        "https://mcptrove.com/blog/cursor-tool-limit-math",
    ),
    limit(
        "VS Code",
        Demand::ArraysHaveItems,
        Dropped,
        (2026, 8, 19),
        "https://github.com/db-lyon/ue-mcp/issues/936",
    ),
    limit(
        "VS Code",
        Demand::Tools(128),
        Crowded,
        (2026, 11, 22),
        "https://github.com/microsoft/vscode-copilot-chat/blob/main/src/platform/configuration/common/configurationService.ts",
    ),
    limit(
        "GitHub Copilot CLI",
        Demand::NameCharacters(PLAIN),
        RequestsRejected,
        (2026, 3, 6),
        "https://github.com/github/copilot-cli/issues/1879",
    ),
    limit(
        "GitHub Copilot CLI",
        Demand::NameLength { most: 128, around_server: None },
        RequestsRejected,
        (2026, 3, 6),
        "https://github.com/github/copilot-cli/issues/1879",
    ),
    limit(
        "Codex",
        Demand::NameCharacters("_"),
        Renamed,
        (2026, 4, 6),
        "https://github.com/openai/codex/pull/16944",
    ),
    limit(
        "OpenAI API",
        Demand::InputIsObject,
        RequestsRejected,
        (2025, 7, 2),
        "https://github.com/vercel/ai/issues/7005",
    ),
    limit(
        "OpenAI API",
        Demand::NotAtTop(COMPOSITION),
        RequestsRejected,
        (2026, 8, 5),
        "https://github.com/makenotion/notion-mcp-server/issues/340",
    ),
    limit(
        "OpenAI API",
        Demand::HasProperties,
        RequestsRejected,
        (2025, 12, 7),
        "https://github.com/github/github-mcp-server/issues/1548",
    ),
    limit(
        "OpenAI API",
        Demand::ArraysHaveItems,
        RequestsRejected,
        (2025, 11, 21),
        "https://github.com/PrefectHQ/fastmcp/issues/2464",
    ),
    limit(
        "OpenAI API",
        Demand::NameCharacters(PLAIN),
        RequestsRejected,
        (2026, 9, 3),
        "https://github.com/redhat-community-ai-tools/UnifAI/pull/266",
    ),
    limit(
        "OpenAI API",
        Demand::NameLength { most: 64, around_server: None },
        RequestsRejected,
        (2025, 5, 9),
        "https://github.com/microsoft/foundry-dev-tools/issues/201",
    ),
    limit(
        "Gemini CLI",
        Demand::NameCharacters("_-.:"),
        Renamed,
        (2026, 11, 22),
        "https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/tools/mcp-tool.ts",
    ),
    limit(
        "Gemini CLI",
        Demand::NameLength { most: 63, around_server: Some(["mcp_", "_"]) },
        Renamed,
        (2026, 11, 22),
        "https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/tools/mcp-tool.ts",
    ),
    limit(
        "Windsurf",
        Demand::Tools(100),
        Crowded,
        (2026, 6, 16),
        "https://docs.windsurf.com/windsurf/cascade/mcp",
    ),
];
