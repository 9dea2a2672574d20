//! Names and bytes from disk, made harmless for a terminal.

/// The text with control characters written as escapes, so that a hostile name cannot drive a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> =
                if c.is_control() { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) };
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
    }
}
