//! Encodings of databases, by the numbers that `pg_database` has.

use std::collections::HashMap;

/// None, UTF-8, that of Emacs, and Latin-1.
pub(super) const SQL_ASCII: i32 = 0;
pub(super) const UTF8: i32 = 6;
const MULE_INTERNAL: i32 = 7;
const LATIN1: i32 = 8;

/// Names that `initdb` takes, in the order of their numbers.
///
/// Source: `pg_enc`, `src/include/mb/pg_wchar.h`.
const NAMES: &str = "SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 LATIN3 LATIN4 \
    LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251 WIN1252 \
    ISO_8859_5 ISO_8859_6 ISO_8859_7 ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257 KOI8U";

/// Encodings that are printed byte by byte: UTF-8, and one that is not converted to it.
const UNCONVERTED: [&str; 2] = ["UTF8", "MULE_INTERNAL"];

/// The encoding of the database in which the server prints rows: that of the rows where it has to convert them.
pub(super) fn encoding_name(number: i32) -> &'static str {
    let name = usize::try_from(number).ok().and_then(|number| NAMES.split(' ').nth(number));
    name.filter(|name| !UNCONVERTED.contains(name)).unwrap_or("SQL_ASCII")
}

/// The encoding of printed rows, as clients know it; that of bytes of an unknown one is not converted.
pub(super) fn client_encoding(number: Option<i32>) -> &'static str {
    match number {
        None | Some(SQL_ASCII) => "SQL_ASCII",
        Some(MULE_INTERNAL) => "MULE_INTERNAL",
        Some(_) => "UTF8",
    }
}

/// Names of a database in UTF-8, as far as its server converted them.
pub(super) struct Names {
    pub encoding: Option<i32>,
    pub converted: HashMap<Vec<u8>, String>,
}

impl Names {
    pub fn text(&self, name: &[u8]) -> String {
        self.converted.get(name).cloned().unwrap_or_else(|| in_utf8(name, self.encoding))
    }
}

/// A name from a catalog in UTF-8; bytes that are not of the encoding become U+FFFD.
pub(super) fn in_utf8(name: &[u8], encoding: Option<i32>) -> String {
    match encoding {
        Some(LATIN1) => name.iter().map(|byte| char::from(*byte)).collect(),
        _ => String::from_utf8_lossy(name).into_owned(),
    }
}
