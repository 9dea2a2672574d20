//! Names and bytes from disk, made harmless for a terminal.
//! Also here: words of commands that people copy into a shell.

/// Characters that end a line, turn the direction of text round, or take no room: they make a name look like another one.
const fn misleads(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text with control characters and those that mislead written as escapes, so that a hostile name cannot drive a
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> =
                if c.is_control() || misleads(c) { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) };
            escaped
        })
        .collect()
}

/// A message with the arguments that it repeats made harmless. Messages have lines of their own, so a line end in a path must
/// not look like one of them; a name from disk is escaped where it is read.
pub fn message(text: &str, arguments: impl Iterator<Item = String>) -> String {
    let hostile = |text: &str| printable(text) != text;
    let mut arguments: Vec<String> = arguments.filter(|argument| hostile(argument)).collect();
    // The value of `--option=value` is repeated alone.
    let values: Vec<String> =
        arguments.iter().filter_map(|argument| argument.split_once('=')).map(|(_, value)| value.to_owned()).collect();
    arguments.extend(values.into_iter().filter(|value| hostile(value)));
    // A directory is repeated without the slash at its end, and the longest one first.
    arguments.iter_mut().for_each(|argument| argument.truncate(argument.trim_end_matches('/').len()));
    arguments.sort_by_key(|argument| std::cmp::Reverse(argument.len()));
    let text = arguments.iter().fold(text.to_owned(), |text, argument| text.replace(argument, &printable(argument)));
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// One byte for the text column of a hex dump.
pub(crate) const fn ascii_or_dot(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { byte as char } else { '.' }
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_disarmed() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{e9}"), "a\\u{1b}[2Jb\\n\u{e9}");
        for c in ['\u{202e}', '\u{2028}', '\u{2029}', '\u{2066}', '\u{61c}', '\u{9b}', '\u{e0041}'] {
            assert_eq!(printable(&format!("x{c}y")), format!("x\\u{{{:x}}}y", u32::from(c)));
        }
    }

    #[test]
    fn line_ends_of_arguments_are_told_from_those_of_messages() {
        let arguments = ["/a\nb/", "--names=x\u{1b}[2Jy\n", "plain"].map(str::to_owned);
        let text = "cannot open /a\nb/pg_wal\nno page was written; x\u{1b}[2Jy\n is plain\r";
        let expected = "cannot open /a\\nb/pg_wal\nno page was written; x\\u{1b}[2Jy\\n is plain\\r";
        assert_eq!(message(text, arguments.into_iter()), expected);
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("/var/lib/pg-15"), "/var/lib/pg-15");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
