//! `pg_hba.conf` as far as a server refuses to start over it.

use std::net::IpAddr;
use std::path::Path;

use super::config_files::ConfigFault;
use crate::parsers::wal::version::{Major, XlogFormat};

/// Kinds of connections, the first words of lines.
const KINDS: [&str; 6] = ["local", "host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc"];

/// Ways to find out who somebody is. Which of them a server was built with is not known.
const METHODS: [&str; 15] = [
    "trust",
    "reject",
    "md5",
    "scram-sha-256",
    "password",
    "ident",
    "peer",
    "gss",
    "sspi",
    "pam",
    "bsd",
    "ldap",
    "radius",
    "cert",
    "oauth",
];

/// What a server refuses the file for. `root`: the directory that it lies in, below which it may include others.
///
/// Source: `load_hba` and `parse_hba_line`, `src/backend/libpq/hba.c`; servers of 12, 15 and 18 that were started with such files.
pub(super) fn hba_fault(bytes: &[u8], root: &Path, major: Major) -> Option<ConfigFault> {
    let mut entries = 0_usize;
    let mut lines = bytes.split(|byte| *byte == b'\n').enumerate();
    while let Some((index, line)) = lines.next() {
        let mut whole = line.trim_ascii_end().to_vec();
        while whole.ends_with(b"\\")
            && let Some((_, next)) = lines.next()
        {
            whole.pop();
            whole.extend(next.trim_ascii_end());
        }
        let fields = fields(&whole);
        if fields.is_empty() {
            continue;
        }
        if !is_entry(&fields, root, major) {
            return Some(ConfigFault::HbaLine { line: index.saturating_add(1) });
        }
        entries = entries.saturating_add(1);
    }
    (entries == 0).then_some(ConfigFault::HbaEmpty)
}

/// The fields of a line: words between blanks, of which commas and quotes put several together.
fn fields(line: &[u8]) -> Vec<String> {
    let (mut found, mut word, mut is_quoted, mut is_open) = (Vec::new(), Vec::new(), false, false);
    for byte in line {
        match byte {
            b'"' => (is_quoted, is_open) = (!is_quoted, true),
            b'#' if !is_quoted => break,
            b' ' | b'\t' | b'\r' if !is_quoted => {
                // After a comma the field goes on.
                if is_open && word.last() != Some(&b',') {
                    found.push(String::from_utf8_lossy(&std::mem::take(&mut word)).into_owned());
                    is_open = false;
                }
            }
            byte => {
                word.push(*byte);
                is_open = true;
            }
        }
    }
    if is_open {
        found.push(String::from_utf8_lossy(&word).into_owned());
    }
    found
}

fn is_entry(fields: &[String], root: &Path, major: Major) -> bool {
    let field = |index: usize| fields.get(index).map(String::as_str);
    let kind = field(0).unwrap_or_default();
    if matches!(kind, "include" | "include_if_exists" | "include_dir") {
        let is_missing =
            |name| root.join(name).metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        let must_be_there = kind != "include_if_exists";
        return major.facts().hba_includes && field(1).is_some_and(|name| !(must_be_there && is_missing(name)));
    }
    if !KINDS.contains(&kind) {
        return false;
    }
    let at = match (kind, field(3)) {
        ("local", _) => 3,
        (_, Some(address)) => match address.split_once('/') {
            Some((ip, bits)) => match (ip.parse::<IpAddr>(), bits.parse::<u32>()) {
                (Ok(ip), Ok(bits)) if bits <= if ip.is_ipv4() { 32 } else { 128 } => 4,
                (Ok(_), _) => return false,
                // Not an address that is understood here.
                (Err(_), _) => 4,
            },
            // A mask has a field of its own, also of an address in a form that is not understood here.
            None => match (address.parse::<IpAddr>(), field(4).map(str::parse::<IpAddr>)) {
                (_, Some(Ok(_))) => 5,
                (Ok(_), _) => return false,
                (Err(_), _) => 4,
            },
        },
        (_, None) => return false,
    };
    let has_form = |option: &String| option.contains('=');
    let is_method = |method: &str| METHODS.contains(&method) || major.facts().xlog == XlogFormat::Since19;
    field(at).is_some_and(is_method) && fields.iter().skip(at.saturating_add(1)).all(has_form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_connections() {
        let root = Path::new("/nonexistent");
        let fault = |text: &str| hba_fault(text.as_bytes(), root, Major::V18);
        for sound in [
            "# x\nlocal all all trust\n\"host\" all all \\\n 1.2.3.4/32 md5\n",
            "local all all peer map=x",
            "host all,other \"a b\", c samenet scram-sha-256 # y",
            "hostssl all +group 10.0.0.0 255.0.0.0 cert clientcert=verify-full map=\"a b\"",
            "host all all ::1/128 trust\r\nhost all all .example.com trust",
            "include_if_exists other\nlocal \"\" @list reject",
        ] {
            assert_eq!(fault(sound), None, "{sound}");
        }
        for (wrong, line) in [
            ("local all all trust\n\ngarbage\n", 3),
            ("local all all trusu", 1),
            ("local all all", 1),
            ("local all trust", 1),
            ("host all all 127.0.0.1 trust", 1),
            ("host all all 127.0.0.1/33 trust", 1),
            ("local all all \\\n peer\nhost all all", 3),
            ("local all all trust option", 1),
            ("include other", 1),
            ("include", 1),
        ] {
            assert_eq!(fault(wrong), Some(ConfigFault::HbaLine { line }), "{wrong}");
        }
        assert_eq!(fault("# nothing\n"), Some(ConfigFault::HbaEmpty));
        let included = hba_fault(b"include_if_exists other\n", root, Major::V15);
        assert_eq!(included, Some(ConfigFault::HbaLine { line: 1 }));
    }
}
