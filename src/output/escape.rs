//! Names and bytes from disk, made harmless for a terminal.

/// Characters that turn the direction of text round, or take no room: they make a name look like another one.
const fn misleads(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The text with control characters and those that mislead written as escapes, so that a hostile name cannot drive a
/// terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> =
                if c.is_control() || misleads(c) { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) };
            escaped
        })
        .collect()
}

/// One byte for the text column of a hex dump.
#[must_use]
pub const fn ascii_or_dot(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { byte as char } else { '.' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_disarmed() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{e9}"), "a\\u{1b}[2Jb\\n\u{e9}");
        assert_eq!(printable("x\u{202e}y"), "x\\u{202e}y");
    }
}
