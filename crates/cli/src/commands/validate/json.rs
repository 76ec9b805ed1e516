//! The report for a program: one JSON document.

use mcpjoin::check::Level;
use serde_json::{Map, Value, json};

use super::calls::Note;
use super::openers::Row;
use super::report::{Compared, Document, Found, Judged, Ruling, Said, Seen, Server};
use crate::ui::Ui;
use crate::visible;

/// All of it: one object, or, of several servers, one with an array of them.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let mut out = Map::new();
    if document.several {
        let servers = document.servers.iter().map(|server| {
            let mut members = Map::new();
            members.insert("server".into(), json!(server.label));
            fill(ui, &mut members, server, document);
            Value::Object(members)
        });
        out.insert("servers".into(), servers.collect());
    } else if let Some(server) = document.servers.first() {
        fill(ui, &mut out, server, document);
    }
    if let Some(compared) = &document.baseline {
        out.insert("baseline".into(), baseline(compared));
    }
    visible::json(&Value::Object(out).to_string())
}

fn fill(ui: &Ui, out: &mut Map<String, Value>, server: &Server, document: &Document) {
    out.insert("command".into(), json!(server.shown));
    match &server.seen {
        Ok(Seen::Judged(judged)) => fill_judged(out, judged, document),
        Ok(Seen::Openers(rows)) => _ = out.insert("openers".into(), rows.iter().map(Row::json).collect()),
        Err(_) => {}
    }
    if let Some(failure) = server.failure() {
        let mut error = failure.json();
        ui.hide_in(&mut error);
        out.insert("error".into(), error["error"].take());
    }
}

fn fill_judged(out: &mut Map<String, Value>, judged: &Judged, document: &Document) {
    let runs = judged.runs.iter().map(|run| json!({ "name": run.name, "protocolVersion": run.version }));
    let counts = judged.counts();
    out.insert("runs".into(), runs.collect());
    out.insert("ran".into(), json!(counts.ran()));
    out.insert("passed".into(), json!(counts.passed));
    out.insert("failed".into(), json!(counts.failed));
    out.insert("skipped".into(), json!(counts.skipped));
    if document.baseline.is_some() {
        out.insert("known".into(), json!(counts.known));
    }
    let rules = judged.rulings.iter().map(|ruling| self::ruling(ruling, document.baseline.is_some()));
    out.insert("rules".into(), rules.collect());
    if !judged.calls.is_empty() {
        out.insert("calls".into(), judged.calls.iter().map(Note::json).collect());
    }
    if let Some(clients) = &judged.clients {
        out.insert("clients".into(), clients.json());
    }
}

fn ruling(ruling: &Ruling, compared: bool) -> Value {
    let rule = ruling.rule;
    let mut out = Map::new();
    out.insert("rule".into(), json!(rule.slug));
    out.insert("chapter".into(), json!(rule.chapter.as_str()));
    out.insert("level".into(), json!(level(ruling.level())));
    out.insert("sentence".into(), json!(rule.sentence));
    out.insert("address".into(), json!(rule.address()));
    match &ruling.said {
        Said::Passed => _ = out.insert("outcome".into(), json!("passed")),
        Said::Skipped(why) => {
            out.insert("outcome".into(), json!("skipped"));
            out.insert("why".into(), json!(why));
        }
        Said::Failed(places) => {
            out.insert("outcome".into(), json!("failed"));
            out.insert("findings".into(), places.found.iter().map(|one| found(one, compared)).collect());
            if places.left_out > 0 {
                out.insert("leftOut".into(), json!(places.left_out));
            }
        }
    }
    Value::Object(out)
}

fn found(found: &Found, compared: bool) -> Value {
    let mut out = json!({
        "problem": found.problem,
        "run": found.run,
        "protocolVersion": found.version,
        "level": level(found.level),
        "address": found.address,
        "fingerprint": found.fingerprint,
        "count": found.count,
    });
    for (name, line) in [("sent", &found.sent), ("received", &found.received)] {
        if let Some(line) = line {
            out[name] = json!(line);
        }
    }
    if compared {
        out["known"] = json!(found.known);
    }
    out
}

fn baseline(compared: &Compared) -> Value {
    let stale = compared.stale.iter().map(|stale| {
        let mut out = json!({ "rule": stale.rule, "run": stale.run, "problem": stale.problem });
        if let Some(server) = &stale.server {
            out["server"] = json!(server);
        }
        out
    });
    json!({ "file": compared.file, "stale": stale.collect::<Vec<_>>() })
}

/// How binding it is, as documents for programs write it.
pub(super) fn level(level: Level) -> String {
    level.as_str().to_lowercase()
}
