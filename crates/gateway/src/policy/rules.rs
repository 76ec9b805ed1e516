//! A policy that is ready to be asked: patterns are compiled, names can be looked up in both directions.
//!
//! Made from a file by `Policy::read`, asked by `admission`. It knows no requests and keeps no state.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use mcpjoin_proto::session::Origin;

use super::credentials::TargetCredentials;
use super::file::{LimitsTable, PolicyFile, Problem, RuleTable, TargetTable};
use super::limiter::Limits;
use super::pins::Pin;
use crate::rate::Rate;

/// Targets, rules, patterns, scopes and names of one file together: each list of tools is compared with all of them.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// Bytes of a pattern: twice the longest name that the specification recommends.
pub(super) const MAX_PATTERN_BYTES: usize = 256;

/// What a target offers, and to whom.
#[derive(Debug, Default)]
pub(super) struct TargetRules {
    tools: ToolPatterns,
    scopes: Patterns,
    /// The scopes for each pattern of `scopes`.
    needed: Vec<Vec<String>>,
    /// New names by those of the server.
    renamed: HashMap<String, String>,
    /// The names of the server by new ones.
    original: HashMap<String, String>,
    redescribed: BTreeMap<String, String>,
    pub(super) pin: Option<Arc<Pin>>,
    pub(super) sampling: Option<bool>,
    pub(super) roots: Option<bool>,
    pub(super) timeout: Option<Duration>,
    pub(super) limits: Limits,
    credentials: Option<TargetCredentials>,
    /// Without what clients cannot see.
    table: TargetTable,
}

/// What some clients have instead of what all have.
#[derive(Debug)]
pub(super) struct ClientRule {
    principals: Option<Patterns>,
    scopes: Vec<String>,
    targets: Option<Patterns>,
    tools: ToolPatterns,
    limits: Option<Limits>,
    table: RuleTable,
}

/// What a client sees of a target. If two are equal, the client sees no difference.
#[derive(Debug, PartialEq)]
pub(super) struct View {
    table: TargetTable,
    pin: Option<Arc<Pin>>,
    rules: Vec<RuleTable>,
    /// Scopes decide what is hidden.
    scopes: Option<Arc<[Box<str>]>>,
}

/// All rules of a file.
#[derive(Debug, Default)]
pub(super) struct Rules {
    limits: Limits,
    defaults: Arc<TargetRules>,
    targets: BTreeMap<String, Arc<TargetRules>>,
    clients: Vec<ClientRule>,
}

type Patterns = GlobSet;

#[derive(Debug, Default)]
struct ToolPatterns {
    allow: Option<Patterns>,
    deny: Patterns,
}

impl ToolPatterns {
    fn allows(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.is_match(tool)) && !self.deny.is_match(tool)
    }
}

impl TargetRules {
    /// Whether this client may use a tool, which is named as the server names it.
    pub(super) fn allows(&self, tool: &str, scopes: &[Box<str>]) -> bool {
        let has = |needed: &String| scopes.iter().any(|scope| **scope == **needed);
        self.tools.allows(tool)
            && self.scopes.matches(tool).into_iter().all(|pattern| self.needed[pattern].iter().all(has))
    }

    /// The name of a tool for clients. `None`: a renamed tool has it.
    pub(super) fn shown<'a>(&'a self, tool: &'a str) -> Option<&'a str> {
        match self.renamed.get(tool) {
            Some(renamed) => Some(renamed),
            None => (!self.original.contains_key(tool)).then_some(tool),
        }
    }

    /// The name at the server of the tool that clients know by this name. `None`: clients know no tool by it.
    pub(super) fn original<'a>(&'a self, shown: &'a str) -> Option<&'a str> {
        match self.original.get(shown) {
            Some(original) => Some(original),
            None => (!self.renamed.contains_key(shown)).then_some(shown),
        }
    }

    /// The description that replaces that of the server.
    pub(super) fn description(&self, tool: &str) -> Option<&str> {
        self.redescribed.get(tool).map(String::as_str)
    }
}

impl ClientRule {
    fn is_for(&self, origin: Option<&Origin>) -> bool {
        let principal = origin.and_then(|origin| origin.principal.as_deref());
        let is_named = |names: &Patterns| principal.is_some_and(|principal| names.is_match(principal));
        let has = |scope: &String| scopes_of(origin).iter().any(|known| **known == **scope);
        self.principals.as_ref().is_none_or(is_named) && self.scopes.iter().all(has)
    }

    fn is_about(&self, target: &str) -> bool {
        self.targets.as_ref().is_none_or(|targets| targets.is_match(target))
    }
}

impl Rules {
    /// Compiles a file. `folder`: where the files are that it names.
    pub(super) fn compile(file: PolicyFile, folder: &Path) -> Result<Self, Problem> {
        let entries = count(&file);
        if entries > MAX_ENTRIES {
            let cause = format!(
                "{entries} targets, rules, patterns, scopes and names are above the limit of {MAX_ENTRIES}"
            );
            return Err(Problem::new(&[], cause));
        }
        let mut clients = Vec::new();
        for (index, rule) in file.rule.into_iter().enumerate() {
            clients.push(client_rule(rule, &["rule", &index.to_string()])?);
        }
        let mut targets = BTreeMap::new();
        for (name, own) in file.target {
            let keys = ["target", &name];
            let table = or_defaults(own, &file.defaults);
            let rules = target_rules(table, &keys, folder)?;
            targets.insert(name, Arc::new(rules));
        }
        if file.defaults.credentials.is_some() {
            let cause = "credentials are for one server: give them in its own table";
            return Err(Problem::new(&["defaults", "credentials"], cause));
        }
        let limits = limits(&file.limits);
        let defaults = Arc::new(target_rules(file.defaults, &["defaults"], folder)?);
        Ok(Self { limits, defaults, targets, clients })
    }

    /// The rules of a target.
    pub(super) fn target(&self, name: &str) -> &Arc<TargetRules> {
        self.targets.get(name).unwrap_or(&self.defaults)
    }

    /// The names of the targets that have rules of their own.
    pub(super) fn target_names(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    /// The credentials of the targets that have some.
    pub(super) fn credentials(&self) -> impl Iterator<Item = (&str, &TargetCredentials)> {
        self.targets.iter().filter_map(|(name, target)| Some((&**name, target.credentials.as_ref()?)))
    }

    pub(super) fn pins(&self) -> impl Iterator<Item = &Pin> {
        self.targets.values().chain([&self.defaults]).filter_map(|target| target.pin.as_deref())
    }

    fn rules_for(&self, origin: Option<&Origin>) -> impl Iterator<Item = &ClientRule> {
        self.clients.iter().filter(move |rule| rule.is_for(origin))
    }

    /// Whether the rules for this client let it use a tool of a target.
    pub(super) fn allows(&self, target: &str, tool: &str, origin: Option<&Origin>) -> bool {
        self.rules_for(origin).filter(|rule| rule.is_about(target)).all(|rule| rule.tools.allows(tool))
    }

    /// Whether it depends on the client which tools of a target it may use.
    pub(super) fn are_by_client(&self, target: &str) -> bool {
        let hides = |rule: &ClientRule| rule.table.allow.is_some() || rule.table.deny.is_some();
        !self.target(target).needed.is_empty()
            || self.clients.iter().any(|rule| rule.is_about(target) && hides(rule))
    }

    /// The limits of this client.
    pub(super) fn limits_of(&self, origin: Option<&Origin>) -> Limits {
        self.rules_for(origin).find_map(|rule| rule.limits).unwrap_or(self.limits)
    }

    /// What this client sees of a target.
    pub(super) fn view(&self, target: &str, origin: Option<&Origin>) -> View {
        let rules = self.target(target);
        let about = self.rules_for(origin).filter(|rule| rule.is_about(target));
        View {
            table: rules.table.clone(),
            pin: rules.pin.clone(),
            rules: about.map(|rule| rule.table.clone()).collect(),
            scopes: origin.and_then(|origin| origin.scopes.clone()),
        }
    }
}

/// The scopes of a client. One that is not authenticated has none.
pub(super) fn scopes_of(origin: Option<&Origin>) -> &[Box<str>] {
    origin.and_then(|origin| origin.scopes.as_deref()).unwrap_or_default()
}

fn count(file: &PolicyFile) -> usize {
    let list = |list: &Option<Vec<String>>| list.as_ref().map_or(0, Vec::len);
    let names = |names: &Option<BTreeMap<String, String>>| names.as_ref().map_or(0, BTreeMap::len);
    let target = |table: &TargetTable| {
        let scopes = table.scopes.iter().flatten().map(|(_, scopes)| 1 + scopes.len()).sum::<usize>();
        1 + list(&table.allow) + list(&table.deny) + names(&table.rename) + names(&table.redescribe) + scopes
    };
    let rule = |rule: &RuleTable| {
        let lists = [&rule.principals, &rule.scopes, &rule.targets, &rule.allow, &rule.deny];
        1 + lists.into_iter().map(list).sum::<usize>()
    };
    file.target.values().chain([&file.defaults]).map(target).sum::<usize>()
        + file.rule.iter().map(rule).sum::<usize>()
}

/// The table of a target, with the defaults for what it does not give.
fn or_defaults(own: TargetTable, defaults: &TargetTable) -> TargetTable {
    let defaults = defaults.clone();
    TargetTable {
        allow: own.allow.or(defaults.allow),
        deny: own.deny.or(defaults.deny),
        rename: own.rename.or(defaults.rename),
        redescribe: own.redescribe.or(defaults.redescribe),
        scopes: own.scopes.or(defaults.scopes),
        pin: own.pin.or(defaults.pin),
        sampling: own.sampling.or(defaults.sampling),
        roots: own.roots.or(defaults.roots),
        timeout_ms: own.timeout_ms.or(defaults.timeout_ms),
        limits: own.limits.or(defaults.limits),
        credentials: own.credentials,
    }
}

fn target_rules(table: TargetTable, keys: &[&str], folder: &Path) -> Result<TargetRules, Problem> {
    let at = |key| [keys, &[key]].concat();
    let mut original = HashMap::new();
    for (name, renamed) in table.rename.iter().flatten() {
        let keys = [&at("rename")[..], &[name]].concat();
        if renamed.is_empty() || renamed.len() > super::MAX_NAME_BYTES {
            let cause = format!("a new name has 1 to {} bytes", super::MAX_NAME_BYTES);
            return Err(Problem::new(&keys, cause));
        }
        if let Some(other) = original.insert(renamed.clone(), name.clone()) {
            return Err(Problem::new(&keys, format!("`{other}` is renamed to `{renamed}`, too")));
        }
    }
    let pin = table.pin.as_ref().map(|path| Pin::read(&folder.join(path)));
    let pin = pin.transpose().map_err(|cause| Problem::new(&at("pin"), cause))?;
    let scopes = table.scopes.clone().unwrap_or_default();
    let credentials = table.credentials.clone();
    let credentials = credentials.map(|own| own.resolved(&at("credentials"), folder)).transpose()?;
    Ok(TargetRules {
        tools: tool_patterns(&table.allow, &table.deny, keys)?,
        scopes: patterns(scopes.keys().map(|name| (name, &name[..])), &at("scopes"))?,
        needed: scopes.values().cloned().collect(),
        renamed: table.rename.clone().into_iter().flatten().collect(),
        original,
        redescribed: table.redescribe.clone().unwrap_or_default(),
        pin: pin.map(Arc::new),
        sampling: table.sampling,
        roots: table.roots,
        timeout: table.timeout_ms.map(|timeout| Duration::from_millis(timeout.get())),
        limits: table.limits.as_ref().map(limits).unwrap_or_default(),
        credentials,
        table: TargetTable {
            pin: None,
            sampling: None,
            roots: None,
            timeout_ms: None,
            limits: None,
            credentials: None,
            ..table
        },
    })
}

fn client_rule(table: RuleTable, keys: &[&str]) -> Result<ClientRule, Problem> {
    if table.principals.is_none() && table.scopes.is_none() {
        return Err(Problem::new(keys, "a rule needs `principals` or `scopes`, which say whom it is for"));
    }
    let list = |list: &Option<Vec<String>>, key| {
        list.as_ref().map(|list| listed(list, &[keys, &[key]].concat())).transpose()
    };
    Ok(ClientRule {
        principals: list(&table.principals, "principals")?,
        scopes: table.scopes.clone().unwrap_or_default(),
        targets: list(&table.targets, "targets")?,
        tools: tool_patterns(&table.allow, &table.deny, keys)?,
        limits: table.limits.as_ref().map(limits),
        table: RuleTable { limits: None, ..table },
    })
}

fn tool_patterns(
    allow: &Option<Vec<String>>,
    deny: &Option<Vec<String>>,
    keys: &[&str],
) -> Result<ToolPatterns, Problem> {
    let at = |key| [keys, &[key]].concat();
    let allow = allow.as_ref().map(|allow| listed(allow, &at("allow"))).transpose()?;
    let deny = deny.as_ref().map(|deny| listed(deny, &at("deny"))).transpose()?;
    Ok(ToolPatterns { allow, deny: deny.unwrap_or_default() })
}

fn listed(list: &[String], keys: &[&str]) -> Result<Patterns, Problem> {
    let positions: Vec<String> = (0..list.len()).map(|index| index.to_string()).collect();
    patterns(list.iter().zip(positions.iter().map(String::as_str)), keys)
}

/// Compiles patterns, each with its key.
fn patterns<'a>(
    patterns: impl Iterator<Item = (&'a String, &'a str)>,
    keys: &[&str],
) -> Result<Patterns, Problem> {
    let mut set = GlobSetBuilder::new();
    for (pattern, key) in patterns {
        let problem = |cause: String| Problem::new(&[keys, &[key]].concat(), cause);
        if pattern.len() > MAX_PATTERN_BYTES {
            let cause =
                format!("a pattern of {} bytes is above the limit of {MAX_PATTERN_BYTES}", pattern.len());
            return Err(problem(cause));
        }
        // In names of tools and principals `/` separates nothing.
        let glob = GlobBuilder::new(pattern).literal_separator(false).backslash_escape(true).build();
        set.add(
            glob.map_err(|error| problem(format!("`{pattern}` is not a valid pattern: {}", error.kind())))?,
        );
    }
    set.build().map_err(|error| Problem::new(keys, error.to_string()))
}

fn limits(table: &LimitsTable) -> Limits {
    let rate = table.requests_per_minute.map(|requests| Rate {
        period: Duration::from_secs(60) / requests.get(),
        burst: table.burst.map_or_else(|| (requests.get() / 60).max(1), |burst| burst.get()),
    });
    let bytes = table.message_bytes.map(|bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX));
    Limits { rate, concurrent: table.concurrent_requests.map(|requests| requests.get()), bytes }
}
