//! Option files of MySQL and MariaDB: which directories they name.

/// Groups that a server reads, besides those with its version at the end.
const SERVER_GROUPS: [&str; 4] = ["mysqld", "server", "mariadb", "mariadbd"];

/// The directories of an option file that tell where the doublewrite buffer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectorySettings {
    /// `innodb_doublewrite_dir`.
    pub doublewrite: Option<String>,
    /// `innodb_data_home_dir`, where the files are if the other is not set.
    pub data_home: Option<String>,
    /// The file names others (`!include`, `!includedir`), which are not read.
    pub has_includes: bool,
}

impl DirectorySettings {
    /// Reads an option file. The last value counts, and an empty one is none; names are written with `-` or `_`, with or
    /// without `loose`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let mut is_server = false;
        for line in text.lines().map(str::trim) {
            if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                let group = group.split('-').next().unwrap_or_default().trim();
                is_server = SERVER_GROUPS.contains(&group);
            } else if line.starts_with("!include") {
                found.has_includes = true;
            } else if let Some((name, value)) = line.split_once('=').filter(|_| is_server) {
                let name = name.trim().to_ascii_lowercase().replace('-', "_");
                let value = Some(unquoted(value)).filter(|value| !value.is_empty());
                match name.strip_prefix("loose_").unwrap_or(&name) {
                    "innodb_doublewrite_dir" => found.doublewrite = value,
                    "innodb_data_home_dir" => found.data_home = value,
                    _ => {}
                }
            }
        }
        found
    }

    /// The directory of the doublewrite buffer; `None`: the data directory.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        self.doublewrite.as_deref().or(self.data_home.as_deref())
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
        assert_eq!((found.directory(), found.data_home.as_deref()), (Some("/dw #1"), Some("/home")));
        assert!(found.has_includes);
        let later =
            DirectorySettings::parse("[mysqld-8.0]\nloose_innodb_doublewrite_dir=/a\ninnodb_doublewrite_dir='/b'\n");
        assert_eq!(later.directory(), Some("/b"));
        let emptied = DirectorySettings::parse("[mysqld]\ninnodb_doublewrite_dir=/a\ninnodb_doublewrite_dir=\n");
        assert_eq!(emptied.directory(), None);
        assert_eq!(
            DirectorySettings::parse("[mysql]\ninnodb_data_home_dir=/a\n\0[=]\n="),
            DirectorySettings::default()
        );
    }
}
