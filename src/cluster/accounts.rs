//! Accounts of this machine: `/etc/passwd`.

use std::path::Path;

use super::open::{Links, read_small};

/// The file, and the most bytes of it that are read.
const PASSWD: (&str, u64) = ("/etc/passwd", 4 << 20);

fn passwd() -> String {
    let text = read_small(Path::new(PASSWD.0), Links::Follow, PASSWD.1).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The first of these accounts that exists and is not root: user and group.
pub(crate) fn first_of(accounts: &[&str]) -> Option<(u32, u32)> {
    let text = passwd();
    accounts.iter().find_map(|account| account_of(&text, account))
}

/// A user as `sudo -u` takes it: the name, or `#` and the number if it has none.
pub(crate) fn sudo_name(uid: u32) -> String {
    name_of(&passwd(), uid).unwrap_or_else(|| format!("#{uid}"))
}

/// A user in a sentence: `postgres (uid 101)`, or `uid 101`.
pub(crate) fn user_words(uid: u32) -> String {
    name_of(&passwd(), uid).map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

fn account_of(text: &str, account: &str) -> Option<(u32, u32)> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        let found = *fields.first()? == account;
        found.then(|| Some((number(2)?, number(3)?)))?.filter(|(uid, _)| *uid != 0)
    })
}

fn name_of(text: &str, uid: u32) -> Option<String> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let found = fields.get(2)?.parse::<u32>().ok()? == uid;
        fields.first().filter(|name| found && !name.is_empty()).map(|name| (*name).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "root:x:0:0:root:/root:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:105:110:,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn account_is_found_by_its_whole_name_and_is_never_root() {
        assert_eq!(account_of(TEXT, "postgres"), Some((105, 110)));
        assert_eq!(account_of(TEXT, "root"), None);
        assert_eq!(account_of("nobody:x:0:0::/:\n", "nobody"), None);
        assert_eq!(account_of("nobody:x\npostgres\n:::\n", "postgres"), None);
        assert_eq!(account_of("", "postgres"), None);
    }

    #[test]
    fn user_without_a_name_goes_by_the_number() {
        assert_eq!((name_of(TEXT, 105).as_deref(), name_of(TEXT, 0).as_deref()), (Some("postgres"), Some("root")));
        assert_eq!((name_of(TEXT, 10), name_of(":x:9:9:\nshort", 9)), (None, None));
        assert_eq!(
            (sudo_name(u32::MAX - 7), user_words(u32::MAX - 7)),
            ("#4294967288".to_owned(), "uid 4294967288".to_owned())
        );
    }
}
