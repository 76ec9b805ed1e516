//! Tests of joined names, owners, cursors and limits.

use super::*;

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| number.to_string())
}

#[test]
fn names_are_joined_and_looked_up_whole() {
    let mut catalogue =
        Catalogue::new([Source::new("a"), Source::new("a__b"), Source::new("c").separator(".")]);
    catalogue.replace(0, Kind::Tool, ["b__c", "x"]);
    catalogue.replace(1, Kind::Tool, ["d"]);
    catalogue.replace(2, Kind::Prompt, ["p"]);
    let found = |kind, name| catalogue.find(kind, name).map(|claim| (claim.source, claim.name.to_string()));
    assert_eq!(found(Kind::Tool, "a__b__c"), Some((0, "b__c".into())));
    assert_eq!(found(Kind::Tool, "a__b__d"), Some((1, "d".into())));
    assert_eq!(found(Kind::Prompt, "c.p"), Some((2, "p".into())));
    for unknown in ["x", "b__c", "a__", "a__b", "a__d", "A__x"] {
        assert_eq!(found(Kind::Tool, unknown), None, "{unknown}");
    }
    assert_eq!(found(Kind::Tool, "c.p"), None, "it is a prompt");
}

#[test]
fn a_name_of_more_than_64_characters_is_cut_the_same_way_everywhere() {
    let source = Source::new("files");
    let fits = "n".repeat(64 - "files__".len());
    assert_eq!(source.joined(&fits), format!("files__{fits}"));
    assert!(!source.cuts(&fits));
    let long = "n".repeat(200);
    let joined = source.joined(&long).into_owned();
    // Fixed: replicas of different versions must agree.
    assert_eq!(joined, format!("files__{}_vhkwho", "n".repeat(50)));
    assert!(source.cuts(&long) && joined.chars().count() == MAX_NAME_CHARS);
    let other = Source::new("files").joined(&format!("{}m", "n".repeat(199))).into_owned();
    assert_eq!(other[..58], joined[..58]);
    assert_ne!(other, joined, "the end of the name counts");
    // Characters, not bytes.
    let wide = "é".repeat(64);
    assert_eq!(source.joined(&wide).chars().count(), MAX_NAME_CHARS);
    assert_eq!(Source::new("").joined(&long), long, "without a prefix nothing is joined");
    let prefix = Source::new("p".repeat(70));
    assert_eq!(prefix.joined("a").chars().count(), MAX_NAME_CHARS);
    assert_ne!(prefix.joined("a"), prefix.joined("b"));
}

#[test]
fn the_first_source_owns_a_name_and_the_collision_is_reported_once() {
    let mut catalogue = Catalogue::new([Source::new("a"), Source::new("")]);
    let claim = |source, name: &str| Claim { source, name: name.into() };
    let collision =
        Collision { kind: Kind::Tool, name: "a__x".into(), owner: claim(0, "x"), other: claim(1, "a__x") };
    assert_eq!(catalogue.replace(1, Kind::Tool, ["a__x", "y"]).collisions, []);
    assert_eq!(catalogue.joined(1, Kind::Tool, "a__x").as_deref(), Some("a__x"));
    // The later one is the owner, because its source is the first.
    assert_eq!(catalogue.replace(0, Kind::Tool, ["x"]).collisions, std::slice::from_ref(&collision));
    assert_eq!(catalogue.replace(0, Kind::Tool, ["x", "z"]).collisions, [], "it is known");
    assert_eq!(catalogue.collisions().collect::<Vec<_>>(), std::slice::from_ref(&collision));
    assert_eq!(catalogue.joined(1, Kind::Tool, "a__x"), None);
    assert_eq!(catalogue.joined(0, Kind::Tool, "x").as_deref(), Some("a__x"));
    assert_eq!(catalogue.names(Kind::Tool).collect::<Vec<_>>(), ["a__x", "a__z", "y"]);
    // The other one gets the name when the owner has gone.
    catalogue.replace(0, Kind::Tool, ["z"]);
    assert_eq!(catalogue.find(Kind::Tool, "a__x"), Some(&claim(1, "a__x")));
    assert_eq!(catalogue.collisions().count(), 0);
    assert_eq!(catalogue.replace(0, Kind::Tool, ["x"]).collisions, [collision]);
    let twice = catalogue.replace(1, Kind::Tool, ["b", "b", "b"]);
    assert_eq!((twice.repeated, twice.collisions.len()), (2, 0));
    assert_eq!(catalogue.replace(7, Kind::Tool, ["b"]), Replaced::default(), "there is no such source");
}

#[test]
fn a_uri_belongs_to_the_source_that_lists_it_else_to_one_with_a_matching_template() {
    let mut catalogue = Catalogue::new([Source::new("a"), Source::new("b"), Source::new("c")]);
    catalogue.replace(0, Kind::ResourceTemplate, ["note://{id}", "db://{?query}"]);
    catalogue.replace(1, Kind::Resource, ["note://1", "ui://panel"]);
    catalogue.replace(1, Kind::ResourceTemplate, ["db://rows/{id}", "file:///{+path}"]);
    catalogue.replace(2, Kind::ResourceTemplate, ["note://{other}"]);
    let collisions = catalogue.replace(2, Kind::Resource, ["ui://panel"]).collisions;
    assert_eq!((collisions.len(), &*collisions[0].name), (1, "ui://panel"));
    let owner = |uri: &str| catalogue.owner(uri).map(|owner| (owner.source, owner.contested_by));
    assert_eq!(owner("note://1"), Some((1, None)), "listed");
    assert_eq!(owner("note://2"), Some((0, Some(2))), "two templates match");
    assert_eq!(owner("ui://panel"), Some((1, Some(2))));
    assert_eq!(owner("file:///a/b"), Some((1, None)));
    assert_eq!(owner("db://rows/7"), Some((1, None)), "a template that can be matched goes first");
    assert_eq!(owner("db://?query=x"), Some((0, None)), "by its start");
    assert_eq!(owner("other://1"), None);
    assert_eq!(owner(&format!("file:///{}", "a".repeat(MAX_MATCHED_URI_BYTES))), None);
    catalogue.replace(0, Kind::ResourceTemplate, [""; 0]);
    assert_eq!(catalogue.owner("note://2").map(|owner| owner.source), Some(2));
}

#[test]
fn a_cursor_is_read_by_its_own_list_of_its_own_generation_alone() {
    let catalogue = Catalogue::new([Source::new("a"), Source::new("b")]);
    let list = Method::ListTools;
    for cursor in [None, Some(""), Some("tools-1f"), Some("é")] {
        let position = Position { source: 1, cursor: cursor.map(Into::into) };
        let written = catalogue.write_cursor(&list, &position).unwrap();
        assert_eq!(catalogue.read_cursor(&list, &written), Ok(position));
        let replica = Catalogue::new([Source::new("a"), Source::new("b")]);
        assert!(replica.read_cursor(&list, &written).is_ok());
        for other in [
            Catalogue::new([Source::new("b"), Source::new("a")]),
            Catalogue::new([Source::new("a"), Source::new("b"), Source::new("c")]),
            Catalogue::new([Source::new("a"), Source::new("b").separator(".")]),
            Catalogue::new([Source::new("a").separator("_"), Source::new("b")]),
        ] {
            assert_ne!(other.generation, catalogue.generation);
            assert_eq!(other.read_cursor(&list, &written).unwrap_err().code, -32602);
        }
        assert_eq!(catalogue.read_cursor(&Method::ListPrompts, &written).unwrap_err().code, -32602);
        // Each changed, missing or added character is found.
        for at in 0..written.len() {
            let mut hostile = written.clone().into_bytes();
            hostile[at] = if hostile[at] == b'A' { b'B' } else { b'A' };
            let hostile = String::from_utf8(hostile).unwrap();
            assert!(catalogue.read_cursor(&list, &hostile).is_err(), "{hostile}");
            assert!(catalogue.read_cursor(&list, &written[..at]).is_err());
        }
        assert!(catalogue.read_cursor(&list, &format!("{written}A")).is_err());
    }
    for hostile in ["", "=", "tools-1", "é", "AAAAAAAAAAAAAAAAAA", &"A".repeat(1_000_000)] {
        assert_eq!(catalogue.read_cursor(&list, hostile).unwrap_err().code, -32602);
    }
    let out_of_range = Position { source: 2, cursor: None };
    let written = catalogue.write_cursor(&list, &out_of_range).unwrap();
    assert!(catalogue.read_cursor(&list, &written).is_err());
}

#[test]
fn the_cursor_of_a_source_has_a_maximum_length() {
    let catalogue = Catalogue::new([Source::new("a")]);
    let write = |bytes| {
        catalogue.write_cursor(&Method::ListTools, &Position { source: 0, cursor: Some("c".repeat(bytes)) })
    };
    let longest = write(MAX_CURSOR_BYTES).unwrap();
    assert!(catalogue.read_cursor(&Method::ListTools, &longest).is_ok());
    assert_eq!(write(MAX_CURSOR_BYTES + 1).unwrap_err().code, -32603);
}

#[test]
fn the_entries_of_a_source_and_of_all_have_a_maximum_number() {
    let mut catalogue = Catalogue::new((0..12).map(|source| Source::new(source.to_string())));
    assert_eq!(catalogue.replace(0, Kind::Tool, names(MAX_SOURCE_ENTRIES + 2)).left_out, 2);
    assert_eq!(catalogue.replace(0, Kind::Prompt, ["p"]).left_out, 1, "all kinds count");
    assert_eq!(catalogue.names(Kind::Tool).len(), MAX_SOURCE_ENTRIES);
    for source in 1..10 {
        assert_eq!(catalogue.replace(source, Kind::Tool, names(MAX_SOURCE_ENTRIES)).left_out, 0);
    }
    assert_eq!(catalogue.replace(10, Kind::Tool, ["a"]).left_out, 1, "{MAX_ENTRIES} are entered");
    // What is removed makes room.
    catalogue.replace(0, Kind::Tool, ["a"]);
    assert_eq!(catalogue.replace(10, Kind::Tool, ["a"]).left_out, 0);
    assert_eq!(catalogue.replace(0, Kind::Prompt, ["p"]).left_out, 0);
}

#[test]
fn the_names_of_one_more_page_are_added_to_the_others_within_the_same_limits() {
    let mut catalogue = Catalogue::new([Source::new("").separator(""), Source::new("").separator("")]);
    catalogue.replace(0, Kind::Tool, ["a", "b"]);
    let added = catalogue.add(0, Kind::Tool, ["b", "c"]);
    assert_eq!((added.repeated, added.left_out, added.collisions.len()), (1, 0, 0));
    assert_eq!(catalogue.names(Kind::Tool).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(catalogue.add(1, Kind::Tool, ["c"]).collisions.len(), 1);
    assert_eq!(catalogue.add(0, Kind::Tool, names(MAX_SOURCE_ENTRIES)).left_out, 3);
    catalogue.replace(0, Kind::ResourceTemplate, ["a:/{x}"]);
    catalogue.replace(0, Kind::Tool, ["a"]);
    catalogue.add(0, Kind::ResourceTemplate, ["b:/{x}"]);
    let owner = |catalogue: &Catalogue, uri| catalogue.owner(uri).map(|owner| owner.source);
    assert_eq!(
        (owner(&catalogue, "a:/1"), owner(&catalogue, "b:/1")),
        (None, Some(0)),
        "the source was full"
    );
    catalogue.replace(0, Kind::ResourceTemplate, ["c:/{x}"]);
    assert_eq!((owner(&catalogue, "b:/1"), owner(&catalogue, "c:/1")), (None, Some(0)));
    assert_eq!(catalogue.add(2, Kind::Tool, ["a"]), Replaced::default(), "there is no such source");
}

#[test]
fn the_names_of_a_source_and_of_all_have_a_maximum_size() {
    let mut catalogue = Catalogue::new((0..12).map(|source| Source::new(source.to_string())));
    // A URI is entered twice: under its key, and as what its source calls it.
    let half = |bytes: usize| "u".repeat(bytes / 2);
    assert_eq!(catalogue.replace(0, Kind::Resource, [half(MAX_SOURCE_BYTES + 2)]).left_out, 1);
    for source in 0..10 {
        assert_eq!(catalogue.replace(source, Kind::Resource, [half(MAX_SOURCE_BYTES)]).left_out, 0);
    }
    assert_eq!(catalogue.replace(0, Kind::Tool, ["a"]).left_out, 1, "the source is full");
    assert_eq!(catalogue.replace(10, Kind::Tool, ["a"]).left_out, 1, "{MAX_BYTES} bytes are entered");
    catalogue.replace(3, Kind::Resource, [""; 0]);
    assert_eq!(catalogue.replace(10, Kind::Tool, ["a"]).left_out, 0);
}

#[test]
fn instructions_share_eight_kibibytes() {
    assert_eq!(join_instructions([("a", ""), ("", "")]), None);
    let joined = join_instructions([("", "Own."), ("a", "Of a."), ("b", "")]).unwrap();
    assert_eq!(joined, "Own.\n\n## a\n\nOf a.");
    let long = "é".repeat(MAX_INSTRUCTION_BYTES);
    let joined = join_instructions([("a", &*long), ("b", "short"), ("c", &*long)]).unwrap();
    assert!(
        joined.len() <= MAX_INSTRUCTION_BYTES && joined.len() > MAX_INSTRUCTION_BYTES - 8,
        "{}",
        joined.len()
    );
    assert!(joined.contains("## b\n\nshort\n\n"));
    let parts: Vec<&str> = joined.split("\n\n## ").collect();
    assert!(parts[0].len().abs_diff(parts[2].len()) < 8, "the same share");
    assert!(parts[0].ends_with('…') && parts[2].ends_with('…'));
    let many: Vec<(&str, &str)> = (0..1000).map(|_| ("name", &*long)).collect();
    assert!(join_instructions(many).unwrap().len() <= MAX_INSTRUCTION_BYTES);
}
