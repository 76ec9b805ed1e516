//! The things that MCP speaks of.
