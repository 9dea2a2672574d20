//! Names of relations from a list that a running server made, for a data directory whose catalogs cannot be read.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::name_gaps::NameGap;
use super::names::{RelationName, RelationNames, RowAge};
use super::open::{AccessError, Links, ReadFile};
use crate::parsers::catalog::{Persistence, RelKind};
use crate::types::{Oid, RelFileLocator};

/// Longest list of names that is read, in bytes: 4 million relations need about this much.
const LIST_LIMIT_BYTES: u64 = 1 << 30;

/// Longest text between two quotation marks, in bytes. Names of a server have at most 63; the JSON reader would keep one of
/// any length in memory.
const MAX_UNQUOTED_BYTES: usize = 64 * 1024;

/// The query that makes a list of names; majors 10 to 19. It sees the database that it runs in, so it is run in each, and
/// the outputs are put one after the other:
///
/// ```text
/// for db in $(psql -XAt -c 'SELECT datname FROM pg_database WHERE datallowconn'); do
///     PGCLIENTENCODING=UTF8 psql -XAt -d "$db" -c "$QUERY"
/// done > names.json
/// ```
pub(crate) const NAMES_QUERY: &str = include_str!("names_query.sql");

/// Why a file is not a valid list of names.
#[derive(Debug, thiserror::Error)]
pub enum NamesFileError {
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It is not what [`NAMES_QUERY`] prints; the text ends with line and column.
    #[error("{} is not a valid list of names: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
}

/// One object of the list. Other keys may follow.
#[derive(Deserialize)]
struct Entry {
    spc_oid: Oid,
    db_oid: Oid,
    rel_number: u32,
    /// Null or absent for shared relations.
    database: Option<String>,
    schema: Option<String>,
    relation: String,
    oid: Option<Oid>,
    kind: Option<char>,
    persistence: Option<char>,
    access_method_oid: Option<Oid>,
    owner_oid: Option<Oid>,
    schema_oid: Option<Oid>,
    /// As text, since numbers of JSON are not exact; negative where the server has no unsigned type for it.
    system_identifier: Option<String>,
}

impl RelationNames {
    /// Reads a list of names: one or more JSON arrays of objects with the keys `spc_oid`, `db_oid` (0 when shared),
    /// `rel_number`, `database` (null when shared), `schema`, `relation`, and optionally `oid`, `kind`, `persistence`,
    /// `access_method_oid` as in `pg_class`, `owner_oid` (the table), `schema_oid` and `system_identifier`. What the list says is believed; files that it gives two names are reported.
    ///
    /// # Errors
    /// When the file cannot be read, is longer than 1 GiB, or is not such a list.
    pub fn from_json(path: &Path) -> Result<(Self, Vec<NameGap>), NamesFileError> {
        let file = ReadFile::open(path, Links::Follow)?;
        let size_bytes = file.size_bytes();
        if size_bytes > LIST_LIMIT_BYTES {
            let path = path.to_owned();
            return Err(AccessError::TooLong { path, size_bytes, limit_bytes: LIST_LIMIT_BYTES }.into());
        }
        let mut list = List::default();
        list.read(BufReader::new(Quoted { source: FromStart { file: &file, at: 0 }, since_quote: 0 }))
            .map_err(|source| NamesFileError::Json { path: path.to_owned(), source })?;
        list.names.report_left_out(&mut list.gaps);
        Ok((list.names, list.gaps))
    }
}

/// A file as a stream, no further than the most that is read.
struct FromStart<'a> {
    file: &'a ReadFile,
    at: u64,
}

/// Ends a stream with an error where too many bytes come without a quotation mark.
struct Quoted<R> {
    source: R,
    since_quote: usize,
}

impl<R: Read> Read for Quoted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(buf)?;
        let given = buf.get(..bytes).unwrap_or_default();
        self.since_quote = match given.iter().rposition(|byte| *byte == b'"') {
            Some(at) => bytes.saturating_sub(at),
            None => self.since_quote.saturating_add(bytes),
        };
        if self.since_quote > MAX_UNQUOTED_BYTES {
            return Err(io::Error::other(format!("a name or number of more than {MAX_UNQUOTED_BYTES} bytes")));
        }
        Ok(bytes)
    }
}

impl Read for FromStart<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(LIST_LIMIT_BYTES.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = buf.len().min(left);
        let filled = self.file.read_at(&mut buf[..length], self.at).map_err(io::Error::other)?;
        self.at = self.at.saturating_add(filled as u64);
        Ok(filled)
    }
}

#[derive(Default)]
struct List {
    names: RelationNames,
    gaps: Vec<NameGap>,
    texts: HashSet<Arc<str>>,
}

impl List {
    fn read(&mut self, reader: impl Read) -> Result<(), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_reader(reader);
        loop {
            self.deserialize(&mut json)?;
            // Each array takes some of the input, so this ends.
            if json.end().is_ok() {
                return Ok(());
            }
        }
    }

    fn shared_text(&mut self, text: String) -> Arc<str> {
        if let Some(held) = self.texts.get(text.as_str()) {
            return Arc::clone(held);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    fn add(&mut self, entry: Entry) -> Result<(), String> {
        let Entry { spc_oid, db_oid, rel_number, .. } = entry;
        if let Some(text) = &entry.system_identifier {
            let wrong = || format!("{text:?} is not a valid system identifier");
            let own =
                text.parse::<u64>().or_else(|_| text.parse::<i64>().map(i64::cast_unsigned)).map_err(|_| wrong())?;
            match self.names.system_identifier() {
                Some(other) if other != own => return Err(format!("names of two clusters: {other} and {own}")),
                _ => self.names.set_system_identifier(own),
            }
        }
        let code = |letter: Option<char>| {
            letter
                .map(|letter| u8::try_from(letter).map_err(|_| format!("{letter:?} is not a valid code of pg_class")))
                .transpose()
        };
        let (kind, persistence) = (code(entry.kind)?, code(entry.persistence)?);
        let database = entry.database.map(|text| self.shared_text(text));
        let schema = entry.schema.map(|text| self.shared_text(text));
        if let Some((oid, name)) = entry.schema_oid.zip(schema.as_ref()) {
            self.names.add_schema(db_oid, oid, Arc::clone(name));
        }
        if let Some(name) = &database
            && db_oid != 0
        {
            self.names.add_database(db_oid, Arc::clone(name));
        }
        let name = RelationName {
            database: database.filter(|_| db_oid != 0),
            schema,
            relation: entry.relation.into(),
            oid: entry.oid,
            kind: kind.map(RelKind),
            access_method_oid: entry.access_method_oid.filter(|_| kind == Some(RelKind::INDEX.0)),
            is_heap: false,
            owner_oid: entry.owner_oid,
            persistence: persistence.map(Persistence::from_code),
            oldest: (0, 0),
            mapped_pages: 0,
            is_unfilled: false,
            doubt: None,
            age: RowAge::default(),
        };
        self.names.add(RelFileLocator { spc_oid, db_oid, rel_number }, name, &mut self.gaps);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut List {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for &mut List {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of relations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        while let Some(entry) = array.next_element()? {
            self.add(entry).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(RelationNames, Vec<NameGap>), serde_json::Error> {
        let mut list = List::default();
        list.read(text.as_bytes()).map(|()| (list.names, list.gaps))
    }

    const ONE: &str = r#"{"spc_oid":1663,"db_oid":5,"rel_number":16384,"database":"a","schema":"b","relation":"c"}"#;

    #[test]
    fn several_arrays_make_one_list() {
        let shared = r#"{"spc_oid":1664,"db_oid":0,"rel_number":1262,"database":null,"schema":"pg_catalog",
                         "relation":"pg_database","oid":1262,"kind":"r","persistence":"p","size":7}"#;
        let (names, gaps) = read(&format!("[{ONE}, {shared}]\n[{shared}]\n[]\n")).unwrap();
        assert!(gaps.is_empty(), "{gaps:?}");
        let text = |spc_oid, db_oid, rel_number| {
            names.get(RelFileLocator { spc_oid, db_oid, rel_number }).map(ToString::to_string)
        };
        assert_eq!(text(1663, 5, 16_384).as_deref(), Some("a.b.c"));
        assert_eq!(text(1664, 0, 1262).as_deref(), Some("global.pg_catalog.pg_database"));
        assert_eq!((names.len(), names.database(5), names.database(0)), (2, Some("a"), None));
    }

    #[test]
    fn newer_lists_tell_cluster_and_table() {
        let with = |more: &str| ONE.replace("\"relation\"", &format!("{more},\"relation\""));
        let own =
            with(r#""system_identifier":"7710336502487488329","kind":"i","access_method_oid":403,"owner_oid":16380"#);
        let (names, _) = read(&format!("[{own},{ONE}]")).unwrap();
        assert_eq!(names.system_identifier(), Some(7_710_336_502_487_488_329));
        let name = names.get(RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 }).unwrap();
        assert_eq!((name.access_method_oid, name.owner_oid), (Some(403), Some(16_380)));
        let negative = with(r#""system_identifier":"-1""#);
        assert_eq!(read(&format!("[{negative}]")).unwrap().0.system_identifier(), Some(u64::MAX));
        assert_eq!(read(&format!("[{ONE}]")).unwrap().0.system_identifier(), None);
        let error = read(&format!("[{own},{negative}]")).unwrap_err();
        assert!(error.to_string().contains("names of two clusters"), "{error}");
        assert!(read(&format!("[{}]", with(r#""system_identifier":"x""#))).is_err());
    }

    #[test]
    fn two_names_for_the_same_files_are_reported() {
        let (names, gaps) = read(&format!("[{ONE},{}]", ONE.replace("\"c\"", "\"d\""))).unwrap();
        assert_eq!((names.len(), gaps.len()), (1, 1));
        assert_eq!(gaps[0].to_string(), "1663/5/16384 has two names, a.b.c and a.b.d; the first is kept");
    }

    #[test]
    fn name_of_any_length_is_not_kept() {
        let endless = |text: &'static [u8]| text.chain(io::repeat(b'x'));
        let mut list = List::default();
        let error =
            list.read(BufReader::new(Quoted { source: endless(b"[{\"relation\":\""), since_quote: 0 })).unwrap_err();
        assert!(error.is_io(), "{error}");
        let whole = format!("[{ONE}]").repeat(2000);
        let mut list = List::default();
        list.read(BufReader::new(Quoted { source: whole.as_bytes(), since_quote: 0 })).unwrap();
        assert_eq!(list.names.len(), 1);
    }

    #[test]
    fn other_texts_are_no_list() {
        let negative = ONE.replace("16384", "-1");
        let kind = ONE.replace("\"relation\"", "\"kind\":\"\u{20ac}\",\"relation\"");
        for text in [
            "",
            "[",
            "{}",
            "null",
            "[[]]",
            "[] x",
            "[]]",
            &ONE[1..],
            &format!("[{ONE}"),
            &format!("[{negative}]"),
            &format!("[{kind}]"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.line() > 0 || text.is_empty(), "{text}: {error}");
        }
    }
}
