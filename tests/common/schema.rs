//! docs/schema.json: whatever a test makes the programs print as JSON or NDJSON is compared with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::Ran;

/// The schema, and what was made of it so far.
pub struct Schema {
    whole: Value,
    /// By program and command.
    documents: Mutex<BTreeMap<(String, String), &'static Validator>>,
}

/// The schema of this repository.
pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema.json")).unwrap();
        Schema { whole: serde_json::from_str(&text).unwrap(), documents: Mutex::default() }
    })
}

impl Schema {
    /// What compares values with one definition.
    pub fn validator(&self, reference: &str) -> Validator {
        let part = json!({"$schema": self.whole["$schema"], "$ref": reference, "$defs": self.whole["$defs"]});
        jsonschema::draft202012::new(&part).expect("a schema")
    }

    /// What compares values with all of it.
    pub fn of_anything(&self) -> Validator {
        jsonschema::draft202012::new(&self.whole).expect("a schema")
    }

    /// Where the documents of a command are described.
    fn document(&self, begin: &Value) -> (usize, &Value) {
        let documents = self.whole["$defs"]["document"]["oneOf"].as_array().unwrap();
        let is_of = |document: &Value| {
            let of = &document["properties"]["begin"]["properties"];
            of["tool"]["const"] == begin["tool"] && of["command"]["const"] == begin["command"]
        };
        let at = documents.iter().position(is_of).unwrap_or_else(|| panic!("the schema has no document of {begin}"));
        (at, &documents[at])
    }

    /// The document of the same content as these lines of NDJSON.
    pub fn document_of(&self, lines: Vec<Value>) -> Value {
        let (_, described) = self.document(&lines[0]);
        let mut document = Map::new();
        for mut line in lines {
            let of_type = line["type"].as_str().expect("a type").to_owned();
            if ["begin", "summary"].contains(&of_type.as_str()) {
                line.as_object_mut().unwrap().remove("type");
                assert!(document.insert(of_type, line).is_none(), "a second begin or summary");
                continue;
            }
            let name = if line.get("engine").is_some() { format!("innodb.{of_type}") } else { of_type };
            let reference = format!("#/$defs/line.{name}");
            let mut arrays = described["properties"].as_object().unwrap().iter();
            let array = arrays.find(|(_, of)| of["items"]["$ref"] == reference.as_str()).map(|(array, _)| array);
            let array = array.unwrap_or_else(|| panic!("{name} is not among the lines of {}", document["begin"]));
            let rows = document.entry(array.clone()).or_insert_with(|| json!([]));
            rows.as_array_mut().unwrap().push(line);
        }
        // An array of rows may be empty in a document; in NDJSON there is nothing then.
        for array in described["required"].as_array().unwrap().iter().filter_map(Value::as_str) {
            if described["properties"][array]["type"] == "array" {
                document.entry(array.to_owned()).or_insert_with(|| json!([]));
            }
        }
        Value::Object(document)
    }

    /// Compares a document with what the schema says of those of its command.
    pub fn check(&self, document: &Value) {
        let begin = &document["begin"];
        let key = ["tool", "command"].map(|field| begin[field].as_str().unwrap_or_default().to_owned());
        let mut known = self.documents.lock().unwrap();
        let validator = *known.entry(key.into()).or_insert_with(|| {
            Box::leak(Box::new(self.validator(&format!("#/$defs/document/oneOf/{}", self.document(begin).0))))
        });
        drop(known);
        let errors = || validator.iter_errors(document).take(5);
        let told: Vec<String> = errors().map(|error| format!("{}: {error:.300}", error.instance_path())).collect();
        assert!(
            told.is_empty(),
            "what {begin} prints is not in docs/schema.json, which UPDATE_DOCS=1 makes of tests/docs/fields.txt:\n{}",
            told.join("\n")
        );
    }
}

/// Compares what a program printed, where its arguments ask for JSON or NDJSON. Output that an error broke off has no summary.
pub fn check_output(args: &[&str], ran: &Ran) {
    let asks_for = |format: &str| args.windows(2).any(|pair| pair == ["--format", format]);
    if ran.stdout.is_empty() || !asks_for("json") && !asks_for("ndjson") {
        return;
    }
    let document = if asks_for("json") {
        serde_json::from_str(&ran.stdout).ok()
    } else {
        let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect();
        Some(schema().document_of(lines)).filter(|document| document.get("summary").is_some())
    };
    match document {
        Some(document) => schema().check(&document),
        None => {
            assert!(ran.status == 2 && !ran.stderr.is_empty(), "{args:?} ends early: {} {}", ran.status, ran.stderr)
        }
    }
}
