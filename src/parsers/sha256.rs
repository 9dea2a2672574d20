//! SHA-256, as people compare it.

use sha2::{Digest, Sha256};

/// SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn sha256_text(bytes: &[u8]) -> String {
    let mut sum = Sha256Sum::default();
    sum.add(bytes);
    sum.text()
}

/// SHA-256 of bytes that come one part after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sha256Sum(Sha256);

impl Sha256Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn text(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_parts_is_that_of_the_whole() {
        // What sha256sum says.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_text(b"abc"), known);
        let mut sum = Sha256Sum::default();
        sum.add(b"a");
        sum.add(b"bc");
        assert_eq!(sum.text(), known);
    }
}
