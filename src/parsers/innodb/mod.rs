//! Formats of InnoDB, the storage engine of MySQL and MariaDB: pages and their checksums, page compression, flags of
//! tablespaces, the doublewrite buffer in its layouts, and the
//! redo log as far as its end is found by it. All integers are big-endian.
//! Also here: option files, which directories they name, and whether images are used.

use std::fmt;

/// Gives an enumeration the stable names of its variants.
macro_rules! stable_names {
    ($named:ty) => {
        impl $named {
            /// Stable name for programs.
            pub fn name(self) -> &'static str {
                self.into()
            }
        }
    };
}
pub(crate) use stable_names;

pub mod checksum;
pub mod compressed;
pub mod layout;
pub mod page_check;
pub mod redo;

/// A log sequence number of InnoDB: bytes of redo log since the instance was made. Printed as the servers do, as a decimal
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnodbLsn(pub u64);

impl fmt::Display for InnodbLsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of a page: its tablespace and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnodbPageId {
    /// Tablespace.
    pub space_id: u32,
    /// Page, counted through all files of the tablespace.
    pub page_no: u32,
}

impl fmt::Display for InnodbPageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {} page {}", self.space_id, self.page_no)
    }
}

/// Smallest page in a file: that of a table with `KEY_BLOCK_SIZE=1`.
pub(crate) const MIN_PAGE_BYTES: usize = 1024;

/// Page size of an instance that names no other.
pub(crate) const DEFAULT_PAGE_BYTES: usize = 16384;

/// True for `innodb_page_size` of a server.
pub(crate) const fn is_instance_page_size(bytes: usize) -> bool {
    bytes.is_power_of_two() && bytes >= 4096 && bytes <= 65536
}

/// Groups that a server reads, in addition to those that end with its version.
const SERVER_GROUPS: [&str; 4] = ["mysqld", "server", "mariadb", "mariadbd"];

/// Locations of the InnoDB files, and the use of images, according to an option file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectorySettings {
    /// `innodb_doublewrite_dir`.
    pub doublewrite: Option<String>,
    /// `innodb_data_home_dir`, where the system tablespace is.
    pub data_home: Option<String>,
    /// Files of the system tablespace in their order, by `innodb_data_file_path`.
    pub system_files: Vec<String>,
    /// `innodb_undo_directory`.
    pub undo: Option<String>,
    /// `innodb_log_group_home_dir`.
    pub redo: Option<String>,
    /// `innodb_directories`: other directories with tablespaces.
    pub tablespaces: Vec<String>,
    /// `innodb_doublewrite` is off: the server writes no images, and a start may use none.
    pub is_doublewrite_off: bool,
    /// The file names others (`!include`, `!includedir`), which are not read.
    pub has_includes: bool,
}

impl DirectorySettings {
    /// Reads an option file. The last value counts, and an empty one counts as missing; names are written with `-` or `_`,
    /// with or without `loose`.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let mut is_server = false;
        for line in text.lines().map(str::trim) {
            if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                let group = group.split('-').next().unwrap_or_default().trim();
                is_server = SERVER_GROUPS.contains(&group);
            } else if line.starts_with("!include") {
                found.has_includes = true;
            } else if is_server && !line.starts_with(['#', ';']) {
                let (name, value) = line.split_once('=').unwrap_or((line, ""));
                let name = unquoted(name).to_ascii_lowercase().replace('-', "_");
                found.set(name.strip_prefix("loose_").unwrap_or(&name), &unquoted(value));
            }
        }
        found
    }

    fn set(&mut self, name: &str, value: &str) {
        let directory = || Some(value.to_owned()).filter(|value| !value.is_empty());
        let list = || value.split(';').map(str::trim).filter(|part| !part.is_empty());
        let is_off = ["0", "off", "false", "no"].contains(&value.to_ascii_lowercase().as_str());
        match name {
            "innodb_doublewrite_dir" => self.doublewrite = directory(),
            "innodb_data_home_dir" => self.data_home = directory(),
            "innodb_undo_directory" => self.undo = directory(),
            "innodb_log_group_home_dir" => self.redo = directory(),
            "innodb_directories" => self.tablespaces = list().map(str::to_owned).collect(),
            // Each file is a path, its size, and words about growth.
            "innodb_data_file_path" => {
                self.system_files = list().filter_map(|file| file.split(':').next()).map(str::to_owned).collect();
            }
            "innodb_doublewrite" => self.is_doublewrite_off = is_off,
            "skip_innodb_doublewrite" | "disable_innodb_doublewrite" => self.is_doublewrite_off = !is_off,
            "enable_innodb_doublewrite" => self.is_doublewrite_off = is_off,
            _ => {}
        }
    }
}

/// A value without its quotation marks and the remark after it.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote) {
            return inner.split(quote).next().unwrap_or_default().to_owned();
        }
    }
    value.split('#').next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_those_of_the_server() {
        let text = "# innodb_doublewrite_dir=/no\n[client]\ninnodb_doublewrite_dir=/no\n[mysqld]\n\
                    innodb-data-home-dir = /home # where\nINNODB_DOUBLEWRITE_DIR=\"/dw #1\"\n!includedir /etc/x/\n";
        let found = DirectorySettings::parse(text);
        assert_eq!((found.doublewrite.as_deref(), found.data_home.as_deref()), (Some("/dw #1"), Some("/home")));
        assert!(found.has_includes);
        let later =
            DirectorySettings::parse("[mysqld-8.0]\nloose_innodb_doublewrite_dir=/a\ninnodb_doublewrite_dir='/b'\n");
        assert_eq!(later.doublewrite.as_deref(), Some("/b"));
        let emptied = DirectorySettings::parse("[mysqld]\ninnodb_doublewrite_dir=/a\ninnodb_doublewrite_dir=\n");
        assert_eq!(emptied.doublewrite, None);
        assert_eq!(
            DirectorySettings::parse("[mysql]\ninnodb_data_home_dir=/a\n\0[=]\n="),
            DirectorySettings::default()
        );
    }
    #[test]
    fn doublewrite_is_off_in_every_spelling() {
        let is_off = |line: &str| DirectorySettings::parse(&format!("[mysqld]\n{line}\n")).is_doublewrite_off;
        let off = "innodb_doublewrite=0|innodb-doublewrite = OFF # fast|loose_innodb_doublewrite='false'|innodb_doublewrite=no|\
                   skip-innodb-doublewrite|skip_innodb_doublewrite # fast|skip-innodb-doublewrite=1|\
                   disable-innodb_doublewrite|enable_innodb_doublewrite=0|innodb_doublewrite=1\ninnodb_doublewrite=OFF";
        let on = "innodb_doublewrite|innodb_doublewrite=ON|innodb_doublewrite=DETECT_ONLY|#innodb_doublewrite=0|\
                  ; skip-innodb-doublewrite|skip-innodb-doublewrite=0|innodb_doublewrite=0\ninnodb_doublewrite=1|\
                  [client]\ninnodb_doublewrite=0";
        assert!(off.split('|').all(is_off));
        assert!(!on.split('|').any(is_off));
    }
}
