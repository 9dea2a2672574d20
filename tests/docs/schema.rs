//! docs/schema.json, the JSON Schema of what both programs print: made of the structs of the library, and for other lines of
//! `fields.txt` beside this file and of the codes that the library lists. Tables of docs/json.md are made of the structs, too.
//! `UPDATE_DOCS=1` writes both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pgforensics::analysis::skipped::{SkipReason, SkippedPart};
use pgforensics::analysis::start::cluster_condition::ClusterCondition;
use pgforensics::analysis::start::doubt::Doubt;
use pgforensics::analysis::verdict::evidence::Statement;
use pgforensics::analysis::verdict::judge::Reason;
use pgforensics::analysis::verdict::next_step::NextStep;
use pgforensics::analysis::verdict::rebuild::{BuildFailure, NotRebuildable};
use pgforensics::inspect::finding_rules::rules;
use pgforensics::inspect::innodb::{Family, HeldImage, InnodbComparison};
use pgforensics::output::json::{SCHEMA, schemas};
use pgforensics::parsers::innodb::checksum::Algorithm;
use pgforensics::repair::plan::LeftReason;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use strum::{VariantArray, VariantNames};

use super::json_schema::documented;
use crate::common::schema::schema;
use crate::common::{arg, cluster, run, unpack};

/// What [`schema`] is made of.
const FIELDS: &str = include_str!("fields.txt");

/// Where the schema is.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema.json")
}

/// The codes that the library lists, by the name of the set.
fn code_sets() -> BTreeMap<&'static str, Vec<&'static str>> {
    let statements = || Statement::codes().chain(Doubt::codes());
    let not_built = NotRebuildable::codes().chain(BuildFailure::codes());
    let reasons = Reason::codes().chain(statements()).chain(not_built);
    BTreeMap::from([
        ("finding", rules().map(|rule| rule.code).collect()),
        ("part", SkippedPart::VARIANTS.to_vec()),
        ("cause", SkipReason::codes().collect()),
        ("state", ClusterCondition::VARIANTS.to_vec()),
        ("left_reason", LeftReason::codes().chain(reasons).collect()),
        ("doubt", Doubt::codes().collect()),
        ("next_step", NextStep::codes().collect()),
        ("innodb_family", <Family as VariantNames>::VARIANTS.to_vec()),
        ("innodb_algorithm", <Algorithm as VariantNames>::VARIANTS.to_vec()),
        ("innodb_comparison", InnodbComparison::VARIANTS.iter().map(|word| word.name()).collect()),
        ("innodb_held", HeldImage::VARIANTS.iter().map(|held| held.name()).collect()),
    ])
}

/// Types that are not put together from others.
fn scalars() -> Value {
    let whole = |maximum: u64| json!({"type": "integer", "minimum": 0, "maximum": maximum});
    let like = |pattern: &str, what: &str| json!({"type": "string", "pattern": pattern, "description": what});
    json!({
        "text": {"type": "string"},
        "id": like("^[0-9]+$", "A number of up to 64 bits"),
        "number_text": like("^-?[0-9]+$", "A number in place of a word that there is none for"),
        "crc": like("^[0-9a-f]{8}$", "A CRC-32C"),
        "count": whole(u64::MAX),
        "u32": whole(u64::from(u32::MAX)),
        "u16": whole(u64::from(u16::MAX)),
        "int": {"type": "integer"},
        "number": {"type": "number"},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "bool": {"type": "boolean"},
        "scalar": {"type": ["string", "number", "boolean", "null"]},
        "program": {"enum": ["pg_dwbinspect", "pg_walfpi"]},
        "schema": {"const": SCHEMA},
        "status": {"enum": [0, 1, 2], "description": "Exit status"},
    })
}

fn words_of(list: &str) -> Value {
    json!({"enum": list.split('|').collect::<Vec<_>>()})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// The schema of a type as `fields.txt` spells it.
fn type_of(text: &str) -> Value {
    if let Some(inner) = text.strip_suffix('?') {
        return json!({"anyOf": [type_of(inner), {"type": "null"}]});
    }
    if let Some(items) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return json!({"type": "array", "items": type_of(items)});
    }
    if let Some(values) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        let (keys, values) = values.split_once(" => ").map_or((None, values), |(keys, values)| (Some(keys), values));
        let mut map = json!({"type": "object", "additionalProperties": type_of(values)});
        if let Some(keys) = keys {
            map["propertyNames"] = type_of(keys);
        }
        return map;
    }
    if let Some((one, other)) = text.split_once('+') {
        return json!({"anyOf": [type_of(one), type_of(other)]});
    }
    if let Some(words) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return words_of(words);
    }
    reference(&text.replacen('@', "codes.", 1))
}

/// Makes a schema of a struct one of lines: no field but these, and where one does not apply it is absent.
fn strict(schema: &mut Value) {
    let Value::Object(parts) = schema else { return };
    if let Some(Value::Object(properties)) = parts.get_mut("properties") {
        for property in properties.values_mut() {
            let description = property.as_object_mut().and_then(|property| property.remove("description"));
            if let Some(Value::Array(types)) = property.get_mut("type") {
                types.retain(|of_type| of_type != "null");
            }
            let several = property.get_mut("anyOf").and_then(Value::as_array_mut);
            if let Some(several) = several {
                several.retain(|of| of["type"] != "null");
                if let [only] = several.as_slice() {
                    *property = only.clone();
                }
            }
            strict(property);
            if let (Value::Object(property), Some(description)) = (property, description) {
                property.insert("description".to_owned(), description);
            }
        }
        parts.insert("additionalProperties".to_owned(), false.into());
    }
    parts.remove("title");
    parts.values_mut().for_each(strict_inside);
}

fn strict_inside(value: &mut Value) {
    match value {
        Value::Array(several) => several.iter_mut().for_each(strict),
        Value::Object(_) => strict(value),
        _ => {}
    }
}

/// The lines that the library has structs for, and the definitions that they refer to.
fn typed() -> (BTreeMap<&'static str, Shape>, Map<String, Value>) {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let lines = schemas(&mut generator).into_iter();
    let shape = |(name, schema): (&'static str, schemars::Schema)| {
        let mut schema = Value::from(schema);
        strict(&mut schema);
        let required = schema["required"].as_array().into_iter().flatten();
        let required = required.filter_map(Value::as_str).map(str::to_owned).collect();
        (name, Shape { properties: schema["properties"].as_object().unwrap().clone(), required })
    };
    let lines = lines.map(shape).collect();
    let mut defs = generator.take_definitions(true);
    defs.values_mut().for_each(strict);
    (lines, defs)
}

/// The tables of docs/json.md that are made of structs, by heading.
fn tables() -> BTreeMap<String, String> {
    fn add(
        tables: &mut BTreeMap<String, String>,
        heading: &str,
        fields: &Map<String, Value>,
        defs: &Map<String, Value>,
    ) {
        let mut rows: Vec<(String, &str)> = Vec::new();
        for (name, of) in fields {
            match (of["description"].as_str(), rows.last_mut()) {
                (Some(description), _) => rows.push((format!("`{name}`"), description)),
                (None, Some((names, _))) => *names += &format!(", `{name}`"),
                (None, None) => panic!("{heading}.{name} is not described"),
            }
            let (of, end) = if of.get("items").is_some() { (&of["items"], "[]") } else { (of, "") };
            let inner = of["$ref"].as_str().and_then(|path| defs.get(path.trim_start_matches("#/$defs/")));
            if let Some(inner) = inner.and_then(|inner| inner["properties"].as_object()) {
                add(tables, &format!("{heading}.{name}{end}"), inner, defs);
            }
        }
        let row = |(names, description): (String, &str)| format!("| {names} | {} |\n", description.replace('\n', " "));
        tables.insert(heading.to_owned(), rows.into_iter().map(row).collect());
    }
    let (lines, defs) = typed();
    let mut tables = BTreeMap::new();
    lines.iter().for_each(|(name, shape)| add(&mut tables, name, &shape.properties, &defs));
    tables
}

#[test]
fn tables_are_those_of_the_structs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let written = fs::read_to_string(&path).unwrap();
    let mut tables = tables();
    let mut text = String::new();
    let mut made = false;
    let mut heading = "";
    for line in written.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            (heading, made) = (title, false);
        }
        if line.starts_with("| `") && !heading.contains(" of ") {
            if let Some(table) = tables.remove(heading.trim_matches('`')) {
                (text, made) = (text + &table, true);
            }
            if made {
                continue;
            }
        }
        text = text + line + "\n";
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&path, &text).unwrap();
    }
    let first = text.lines().zip(written.lines()).find(|(made, written)| made != written);
    assert!(text == written, "UPDATE_DOCS=1 writes the tables of docs/json.md anew; the first difference: {first:?}");
    let unused: Vec<&String> = tables.keys().filter(|heading| !heading.contains('.')).collect();
    assert!(unused.is_empty(), "docs/json.md has no heading for {unused:?}");
}

/// A line, an object or a summary of `fields.txt`.
#[derive(Default)]
struct Shape {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Shape {
    fn put(&mut self, name: &str, of: Value, is_required: bool) {
        assert!(self.properties.insert(name.to_owned(), of).is_none(), "{name} stands there twice");
        if is_required {
            self.required.push(name.to_owned());
        }
    }

    fn schema(&self) -> Value {
        let required: BTreeSet<&String> = self.required.iter().collect();
        json!({"type": "object", "properties": self.properties, "required": required, "additionalProperties": false})
    }

    /// The same as a line of NDJSON.
    fn line(&self, of_type: &str) -> Value {
        let mut line = Self { properties: self.properties.clone(), required: self.required.clone() };
        line.put("type", json!({"const": of_type}), true);
        line.schema()
    }
}

/// A kind of document.
struct Document {
    program: &'static str,
    command: &'static str,
    always: Vec<&'static str>,
    sometimes: Vec<&'static str>,
    summaries: Vec<&'static str>,
}

/// `fields.txt`, read.
#[derive(Default)]
struct Listed {
    lets: Vec<(&'static str, &'static str)>,
    /// By type, and ` of innodb`: the array, and the fields.
    lines: BTreeMap<&'static str, (&'static str, Shape)>,
    objects: BTreeMap<&'static str, Shape>,
    summaries: BTreeMap<&'static str, Shape>,
    documents: Vec<Document>,
}

fn names(list: &'static str) -> Vec<&'static str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

fn document(rest: &'static str) -> Document {
    let (head, rest) = rest.split_once(':').unwrap_or_else(|| panic!("{rest}"));
    let (program, command) = head.split_once(' ').unwrap();
    let (arrays, summaries) = rest.split_once("->").unwrap();
    let (always, sometimes) = arrays.split_once('|').unwrap_or((arrays, ""));
    Document { program, command, always: names(always), sometimes: names(sometimes), summaries: names(summaries) }
}

impl Listed {
    fn read() -> Self {
        let mut listed = Self::default();
        let mut current: Option<(&str, &str)> = None;
        for line in FIELDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(fields) = line.strip_prefix("  ") {
                let (names, of) = fields.split_once(": ").unwrap_or_else(|| panic!("no type: {line}"));
                let (of, is_required) = of.strip_suffix(" --follow only").map_or((of, true), |of| (of, false));
                // What need not apply is absent then.
                let (of, is_required) = of.strip_suffix('?').map_or((of, is_required), |of| (of, false));
                let shape = listed.shape(current.unwrap_or_else(|| panic!("fields of nothing: {line}")));
                names.split(' ').for_each(|name| shape.put(name, type_of(of), is_required));
                continue;
            }
            let (word, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            current = None;
            match word {
                "let" => listed.lets.push(rest.split_once(": ").unwrap()),
                "command" => listed.documents.push(document(rest)),
                "line" => {
                    let (name, array) = rest.split_once(" in ").unwrap();
                    assert!(listed.lines.insert(name, (array, Shape::default())).is_none(), "{name} twice");
                    current = Some((word, name));
                }
                "object" | "summary" => {
                    let shapes = if word == "object" { &mut listed.objects } else { &mut listed.summaries };
                    assert!(shapes.insert(rest, Shape::default()).is_none(), "{rest} twice");
                    current = Some((word, rest));
                }
                _ => panic!("what is {word}?"),
            }
        }
        listed
    }

    fn shape(&mut self, (word, name): (&str, &str)) -> &mut Shape {
        match word {
            "line" => &mut self.lines.get_mut(name).unwrap().1,
            "object" => self.objects.get_mut(name).unwrap(),
            _ => self.summaries.get_mut(name).unwrap(),
        }
    }

    /// The last line of a command with the fields that every one has.
    fn summary(&self, name: &str) -> Shape {
        let mut whole = Shape::default();
        let own = (name != "every").then(|| self.summaries.get(name).unwrap_or_else(|| panic!("no summary {name}")));
        for shape in std::iter::once(&self.summaries["every"]).chain(own) {
            shape
                .properties
                .iter()
                .for_each(|(field, of)| whole.put(field, of.clone(), shape.required.contains(field)));
        }
        whole
    }

    fn schema(&self) -> Value {
        let Value::Object(mut defs) = scalars() else { unreachable!() };
        let mut define = |name: String, of: Value| assert!(defs.insert(name.clone(), of).is_none(), "{name} twice");
        let (typed, of_types) = typed();
        of_types.into_iter().for_each(|(name, of)| define(name, of));
        for (name, codes) in code_sets() {
            let codes: BTreeSet<&str> = codes.into_iter().collect();
            define(format!("codes.{name}"), json!({"enum": codes}));
        }
        let commands: BTreeSet<&str> = self.documents.iter().map(|document| document.command).collect();
        define("command".to_owned(), json!({"enum": commands}));
        self.lets.iter().for_each(|(name, of)| define((*name).to_owned(), type_of(of)));
        self.objects.iter().for_each(|(name, shape)| define((*name).to_owned(), shape.schema()));
        let mut lines = vec!["line.begin".to_owned()];
        define("line.begin".to_owned(), self.objects["begin"].line("begin"));
        for (name, (_, shape)) in &self.lines {
            lines.push(line_name(name));
            let of_type = name.strip_suffix(" of innodb").unwrap_or(name);
            define(line_name(name), typed.get(name).map_or_else(|| shape.line(of_type), |typed| typed.line(of_type)));
        }
        for name in self.summaries.keys() {
            lines.push(format!("line.{}", summary_name(name)));
            define(format!("line.{}", summary_name(name)), self.summary(name).line("summary"));
            define(summary_name(name), self.summary(name).schema());
        }
        let documents: Vec<Value> = self.documents.iter().map(|document| self.document(document)).collect();
        define("document".to_owned(), json!({"oneOf": documents}));
        let lines: Vec<Value> = lines.iter().map(|name| reference(name)).collect();
        define("line".to_owned(), json!({"oneOf": lines}));
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "What pg_dwbinspect and pg_walfpi print as JSON and NDJSON",
            "description": "A document of --format json, or one line of --format ndjson. Of this version of the programs: later ones may print new fields and new codes. What the fields mean is in json.md.",
            "oneOf": [reference("document"), reference("line")],
            "$defs": defs,
        })
    }

    fn document(&self, document: &Document) -> Value {
        let Document { program, command, always, sometimes, summaries } = document;
        let mut shape = Shape::default();
        let mut begin = reference("begin");
        begin["properties"] = json!({"tool": {"const": program}, "command": {"const": command}});
        shape.put("begin", begin, true);
        let listed = |name: &&'static str| (*name, self.lines.get(name).unwrap_or_else(|| panic!("no line {name}")).0);
        for (name, array) in always.iter().chain(sometimes).chain(&["finding", "skipped"]).map(listed) {
            let of = json!({"type": "array", "items": reference(&line_name(name))});
            shape.put(array, of, always.contains(&name));
        }
        let mut ends: Vec<Value> = summaries.iter().map(|name| reference(&summary_name(name))).collect();
        let end = if ends.len() == 1 { ends.remove(0) } else { json!({"oneOf": ends}) };
        shape.put("summary", end, true);
        shape.schema()
    }
}

/// Name of a line among the definitions.
pub fn line_name(of_type: &str) -> String {
    of_type.strip_suffix(" of innodb").map_or_else(|| format!("line.{of_type}"), |name| format!("line.innodb.{name}"))
}

fn summary_name(command: &str) -> String {
    format!("summary.of.{}", command.replace(' ', "."))
}

/// The schema with a line for each definition.
fn printed(schema: &Value) -> String {
    let mut text = "{\n".to_owned();
    let mut head = schema.as_object().unwrap().clone();
    let Some(Value::Object(defs)) = head.remove("$defs") else { unreachable!() };
    head.iter().for_each(|(name, of)| text.push_str(&format!("  {}: {of},\n", json!(name))));
    let defs: Vec<String> = defs.iter().map(|(name, of)| format!("    {}: {of}", json!(name))).collect();
    text.push_str(&format!("  \"$defs\": {{\n{}\n  }}\n}}\n", defs.join(",\n")));
    text
}

#[test]
fn the_schema_is_that_of_the_fields() {
    let text = printed(&Listed::read().schema());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path(), &text).unwrap();
    }
    let written = fs::read_to_string(path()).unwrap();
    let first = text.lines().zip(written.lines()).find(|(made, written)| made != written);
    assert!(text == written, "UPDATE_DOCS=1 writes docs/schema.json anew; the first difference: {first:?}");
    let schema: Value = serde_json::from_str(&written).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&schema), "not a schema of 2020-12");
}

#[test]
fn fields_and_documentation_name_the_same() {
    let listed = Listed::read();
    let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let keys = |shape: &Shape| shape.properties.keys().cloned().collect::<BTreeSet<_>>();
    for (name, (_, shape)) in &listed.lines {
        fields.insert((*name).to_owned(), keys(shape));
    }
    for (name, shape) in &listed.objects {
        fields.insert((*name).to_owned(), keys(shape));
    }
    for (name, shape) in &listed.summaries {
        let heading = if *name == "every" { "summary".to_owned() } else { format!("summary of {name}") };
        fields.insert(heading, keys(shape));
    }
    let mut wrong = Vec::new();
    let typed = typed().0;
    let is_typed = |heading: &str| heading.split('.').next().is_some_and(|line| typed.contains_key(line));
    for (heading, told) in documented().into_iter().filter(|(heading, _)| !is_typed(heading)) {
        let name = heading.replace("[]", "");
        let without_own = told.is_empty() && heading.starts_with("summary of ") && !fields.contains_key(&name);
        if !without_own && fields.get(&name) != Some(&told) {
            wrong.push(format!("{heading}: docs/json.md has {told:?}, fields.txt {:?}", fields.get(&name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Outputs of many kinds: what was asked for, and the lines.
fn outputs() -> Vec<(String, Vec<Value>)> {
    let data = cluster("checkpoint");
    let wal = unpack::unpack("wal/pg18").unwrap().join("pg18");
    let innodb = unpack::data_dir("innodb/mysql97-detect").unwrap();
    let (data, wal, innodb) = (arg(&data), arg(&wal), arg(&innodb));
    let of_clusters: [&[&str]; 11] = [
        &["check", "--all", data],
        &["page", data, "base/5/1259", "0"],
        &["page", "--history", data, "base/5/1259", "0"],
        &["info", data],
        &["batches", data],
        &["verify", "--replay", data],
        &["repair", data],
        &["innodb", "info", innodb],
        &["innodb", "check", innodb],
        &["innodb", "batches", innodb],
        &["innodb", "verify", innodb],
    ];
    let of_wal: [&[&str]; 8] = [
        &["stats", wal],
        &["stats", "--by", "relation,cause", wal],
        &["stats", "--by", "since-redo", wal],
        &["advise", wal],
        &["whatif", wal],
        &["dwb-size", wal],
        &["verify", wal],
        &["list", wal],
    ];
    let run_of = |program: &str, args: &[&str]| {
        let formatted = |format| run(program, &[args, &["--format", format]].concat());
        let document: Value = serde_json::from_str(&formatted("json").stdout).unwrap();
        let lines = formatted("ndjson").lines();
        let as_document = schema().document_of(lines.clone());
        let keys = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&document), keys(&as_document), "{args:?}");
        assert!(schema().of_anything().is_valid(&document), "{args:?}");
        (args.join(" "), lines)
    };
    let clusters = of_clusters.iter().map(|args| run_of("pg_dwbinspect", args));
    clusters.chain(of_wal.iter().map(|args| run_of("pg_walfpi", args))).collect()
}

/// A value that no field has.
fn never_right() -> Value {
    json!({"no field has this": [[{"at": "all"}]]})
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn changed_lines_are_refused() {
    let whole = schema().of_anything();
    let mut types = BTreeSet::new();
    let (mut tried, mut always) = (0, 0);
    for (context, lines) in outputs() {
        for line in lines {
            let fields = line.as_object().unwrap();
            let of_type = format!("{}{}", line["type"], line.get("engine").is_some());
            let is_summary = line["type"] == "summary";
            if !is_summary && !types.insert(of_type.clone()) {
                continue;
            }
            let refused = |changed: &Value, why: &str| {
                assert!(!whole.is_valid(changed), "{context}: {of_type} {why} is taken for right");
            };
            let needed = |field: &&String| {
                let mut without = line.clone();
                without.as_object_mut().unwrap().remove(*field);
                !whole.is_valid(&without)
            };
            always += fields.keys().filter(needed).count();
            assert!(whole.is_valid(&line), "{context}: {of_type}");
            for field in fields.keys() {
                let mut wrong = line.clone();
                wrong[field] = never_right();
                refused(&wrong, &format!("with a wrong {field}"));
                tried += 1;
            }
            let mut more = line.clone();
            more["nobody_listed_this"] = Value::Null;
            refused(&more, "with a field more");
        }
    }
    let counts = (types.len(), tried, always);
    assert!(counts.0 >= 25 && tried >= 350 && always >= 250, "{counts:?}: types, fields, fields that are always there");
}

#[test]
fn unknown_words_and_documents_of_other_commands_are_refused() {
    let data = cluster("checkpoint");
    let ran = run("pg_dwbinspect", &["check", "--format", "json", arg(&data)]);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    let whole = schema().of_anything();
    assert!(whole.is_valid(&document));
    let changes: [(&str, Value); 9] = [
        ("/begin/command", json!("verify")),
        ("/begin/schema", json!(SCHEMA + 1)),
        ("/pages/0/verdict", json!("safe")),
        ("/pages/0/on_start/what", json!("dies_later")),
        ("/pages/0/candidates/0/evidence/0/code", json!("looks_good")),
        ("/pages/0/disk_lsn", json!(35_316_768)),
        ("/findings/0/kind", json!("unheard_of")),
        ("/summary/exit_status", json!(3)),
        ("/summary/verdicts", json!({"safe": 7})),
    ];
    for (pointer, value) in changes {
        let mut changed = document.clone();
        let old = changed.pointer_mut(pointer).unwrap_or_else(|| panic!("nothing at {pointer}"));
        assert_ne!(*old, value);
        *old = value;
        assert!(!whole.is_valid(&changed), "{pointer} is taken for right");
    }
}
