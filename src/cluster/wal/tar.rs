//! Members of a tar archive, one after the other. The headers are decoded by the `tar` crate; its own iterator reads names
//! of any length into memory, which an archive from elsewhere must not be able to ask for.

use std::io::{self, Read};

use tar::{EntryType, Header, PaxExtensions};

use super::bytes::StoredWindow;
use super::codec::fill;

const BLOCK_BYTES: u64 = 512;

/// Longest name or extended header that is read, in bytes.
const MAX_EXTENSION_BYTES: u64 = 64 * 1024;

/// Blocks of zeros after the last member that are passed over when another archive is looked for.
const MAX_ZERO_BLOCKS: u64 = 1024;

/// Headers that are read of one archive.
pub(super) const MAX_HEADERS: u64 = 4 << 20;

/// Members without data that are read of one archive: they pack to next to nothing, however many there are. A server with
/// half a million empty relation files and their like stays below.
pub(super) const MAX_EMPTY_MEMBERS: u64 = 1 << 19;

/// Bytes that may be read and dropped to reach a higher offset.
pub(in crate::cluster) trait TarSource: Read {
    /// Passes over everything before `position`; false when the input ends before.
    fn advance_to(&mut self, position: u64) -> io::Result<bool>;
}

impl TarSource for StoredWindow<'_> {
    fn advance_to(&mut self, position: u64) -> io::Result<bool> {
        self.seek(position);
        Ok(position <= self.end())
    }
}

pub(in crate::cluster) struct Counted<R> {
    pub(in crate::cluster) source: R,
    pub(in crate::cluster) position: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(buf)?;
        self.position = self.position.saturating_add(bytes as u64);
        Ok(bytes)
    }
}

impl<R: Read> TarSource for Counted<R> {
    fn advance_to(&mut self, position: u64) -> io::Result<bool> {
        let left = position.saturating_sub(self.position);
        let passed = io::copy(&mut self.by_ref().take(left), &mut io::sink())?;
        Ok(passed == left)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum MemberKind {
    /// A file, its bytes as they are.
    File,
    Directory,
    /// Anything else: links, devices, files with holes left out.
    Other(&'static str),
}

/// A member of an archive; its data starts at `offset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Member {
    pub name: String,
    pub kind: MemberKind,
    pub offset: u64,
    pub size_bytes: u64,
}

/// Why an archive is not read further.
#[derive(Debug, thiserror::Error)]
pub(in crate::cluster) enum TarError {
    #[error("archive ends {0}")]
    Truncated(&'static str),
    #[error("no tar header where the next member should be; the rest is not read")]
    BadHeader,
    #[error("tar header: {0}")]
    Header(io::Error),
    #[error("name or extended header of {0} bytes; the rest is not read")]
    LongExtension(u64),
    #[error("more than {MAX_HEADERS} headers; the rest is not read")]
    TooMany,
    #[error("more than {MAX_EMPTY_MEMBERS} members without data; the rest is not read")]
    TooManyEmpty,
    #[error("{0}")]
    Read(io::Error),
}

/// True when a file that begins like this is a tar archive: the checksum of its first header is right.
pub(in crate::cluster) fn is_tar(head: &[u8]) -> bool {
    head.get(..512).is_some_and(|block| !is_zero(block) && checksum_is_good(Header::from_byte_slice(block)))
}

fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

fn checksum_is_good(header: &Header) -> bool {
    let (before, after) = (header.as_bytes().iter().take(148), header.as_bytes().iter().skip(156));
    // The checksum itself counts as eight blanks.
    let computed = before.chain(after).chain(&[b' '; 8]).map(|&byte| u32::from(byte)).sum::<u32>();
    header.cksum().is_ok_and(|stored| stored == computed)
}

#[derive(Debug, Default)]
pub(in crate::cluster) struct TarWalk {
    next: u64,
    headers: u64,
    empty_members: u64,
}

impl TarWalk {
    /// Offset of the header that is read next, or was when the archive could not be read further.
    pub(super) const fn offset(&self) -> u64 {
        self.next
    }

    /// The next member, or `None` at the end of the archive. What is left of the member before is passed over.
    pub(in crate::cluster) fn next(&mut self, source: &mut dyn TarSource) -> Result<Option<Member>, TarError> {
        let mut long_name = None;
        let mut pax = None;
        loop {
            if !source.advance_to(self.next).map_err(TarError::Read)? {
                return Err(TarError::Truncated("inside the data of a member"));
            }
            let Some(block) = self.header_block(source)? else {
                return match long_name.is_some() || pax.is_some() {
                    true => Err(TarError::Truncated("inside the headers of a member")),
                    false => Ok(None),
                };
            };
            let header = Header::from_byte_slice(&block);
            if !checksum_is_good(header) {
                return Err(TarError::BadHeader);
            }
            self.headers = self.headers.saturating_add(1);
            if self.headers > MAX_HEADERS {
                return Err(TarError::TooMany);
            }
            let mut size_bytes = header.entry_size().map_err(TarError::Header)?;
            let offset = self.next.saturating_add(BLOCK_BYTES);
            match header.entry_type() {
                EntryType::GNULongName => long_name = Some(extension(source, size_bytes)?),
                EntryType::XHeader => pax = Some(extension(source, size_bytes)?),
                EntryType::GNULongLink | EntryType::XGlobalHeader => {}
                entry_type => {
                    let mut name = long_name.unwrap_or_else(|| header.path_bytes().into_owned());
                    let mut kind = kind_of(entry_type);
                    for (key, value) in PaxExtensions::new(pax.as_deref().unwrap_or_default())
                        .flatten()
                        .map(|field| (field.key_bytes(), field.value_bytes()))
                    {
                        match key {
                            b"path" => name = value.to_vec(),
                            b"size" => size_bytes = pax_size(value)?,
                            sparse if sparse.starts_with(b"GNU.sparse.") => kind = MemberKind::Other("sparse file"),
                            _ => {}
                        }
                    }
                    self.step(offset, size_bytes)?;
                    self.empty_members = self.empty_members.saturating_add(u64::from(size_bytes == 0));
                    if self.empty_members > MAX_EMPTY_MEMBERS {
                        return Err(TarError::TooManyEmpty);
                    }
                    while name.last() == Some(&0) {
                        name.pop();
                    }
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Ok(Some(Member { name, kind, offset, size_bytes }));
                }
            }
            self.step(offset, size_bytes)?;
        }
    }

    fn step(&mut self, offset: u64, size_bytes: u64) -> Result<(), TarError> {
        let padded = size_bytes.checked_next_multiple_of(BLOCK_BYTES).and_then(|padded| offset.checked_add(padded));
        self.next = padded.ok_or(TarError::BadHeader)?;
        Ok(())
    }

    /// The next block that is not zero, or `None` at the end: zeros, or no more bytes.
    fn header_block(&mut self, source: &mut dyn TarSource) -> Result<Option<[u8; 512]>, TarError> {
        let mut block = [0; 512];
        for zero_blocks in 0..MAX_ZERO_BLOCKS {
            let (filled, failed) = fill(source, &mut block);
            if let Some(error) = failed {
                return Err(TarError::Read(error));
            }
            match filled {
                // Two blocks of zeros end an archive; some programs write fewer, none at all is a cut.
                0 if zero_blocks > 0 => return Ok(None),
                0 => return Err(TarError::Truncated("without an end mark")),
                512 => {}
                _ => return Err(TarError::Truncated("inside a header")),
            }
            if !is_zero(&block) {
                return Ok(Some(block));
            }
            self.next = self.next.saturating_add(BLOCK_BYTES);
        }
        Ok(None)
    }
}

fn kind_of(entry_type: EntryType) -> MemberKind {
    match entry_type {
        EntryType::Regular | EntryType::Continuous => MemberKind::File,
        EntryType::Directory => MemberKind::Directory,
        EntryType::Symlink => MemberKind::Other("symbolic link"),
        EntryType::Link => MemberKind::Other("hard link"),
        EntryType::Fifo => MemberKind::Other("FIFO"),
        EntryType::Char | EntryType::Block => MemberKind::Other("device"),
        EntryType::GNUSparse => MemberKind::Other("sparse file"),
        _ => MemberKind::Other("member of an unknown type"),
    }
}

fn extension(source: &mut dyn TarSource, size_bytes: u64) -> Result<Vec<u8>, TarError> {
    if size_bytes > MAX_EXTENSION_BYTES {
        return Err(TarError::LongExtension(size_bytes));
    }
    let mut bytes = vec![0; usize::try_from(size_bytes).unwrap_or_default()];
    match fill(source, &mut bytes) {
        (_, Some(error)) => Err(TarError::Read(error)),
        (filled, None) if filled < bytes.len() => Err(TarError::Truncated("inside an extended header")),
        _ => Ok(bytes),
    }
}

fn pax_size(value: &[u8]) -> Result<u64, TarError> {
    let text = std::str::from_utf8(value).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| TarError::Header(io::Error::other("size is not a number")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in members {
            let mut header = Header::new_gnu();
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn walk(bytes: &[u8]) -> (Vec<Member>, Option<String>) {
        let mut source = Counted { source: bytes, position: 0 };
        let mut walk = TarWalk::default();
        let mut found = Vec::new();
        loop {
            match walk.next(&mut source) {
                Ok(Some(member)) => found.push(member),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(format!("{error} at {}", walk.offset()))),
            }
        }
    }

    #[test]
    fn members_have_names_offsets_and_sizes() {
        let long = "d/".repeat(120) + "name";
        let bytes = archive(&[("a", b"12345"), (&long, b"x"), ("empty", b"")]);
        assert!(is_tar(&bytes) && !is_tar(&[0; 512]) && !is_tar(&[b'x'; 512]));
        let (found, error) = walk(&bytes);
        assert_eq!(error, None);
        let names: Vec<_> = found.iter().map(|member| (member.name.as_str(), member.size_bytes)).collect();
        assert_eq!(names, [("a", 5), (long.as_str(), 1), ("empty", 0)]);
        for member in &found[..2] {
            let at = usize::try_from(member.offset).unwrap();
            assert!([b'1', b'x'].contains(&bytes[at]));
        }
        // One archive after the other.
        let twice = [bytes.clone(), archive(&[("b", b"2")])].concat();
        assert_eq!(walk(&twice).0.len(), 4);
    }

    #[test]
    fn extended_size_overrides_the_header() {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_pax_extensions([("size", &b"600"[..]), ("path", b"renamed")]).unwrap();
        let mut header = Header::new_ustar();
        header.set_path("a").unwrap();
        header.set_size(3);
        header.set_cksum();
        let mut bytes = builder.into_inner().unwrap();
        bytes.truncate(bytes.len() - 1024);
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[7; 1024]);
        bytes.extend_from_slice(&archive(&[("b", b"2")]));
        let (found, error) = walk(&bytes);
        let names: Vec<_> = found.iter().map(|member| (member.name.as_str(), member.size_bytes)).collect();
        assert_eq!((names, error), (vec![("renamed", 600), ("b", 1)], None));
    }

    #[test]
    fn every_cut_is_reported_with_its_offset() {
        let bytes = archive(&[("a", &[1; 700]), ("b", &[2; 100])]);
        let end = bytes.len() - 1024;
        for cut in 1..=end {
            let (found, error) = walk(&bytes[..cut]);
            assert!(error.as_ref().is_some_and(|error| error.starts_with("archive ends ")), "{cut}: {error:?}");
            assert_eq!(found.len(), usize::from(cut >= 512) + usize::from(cut >= 512 + 1024 + 512), "{cut}");
        }
        assert_eq!(walk(&bytes[..end + 512]).1, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_or_refused(at in 0_usize..3000, value: u8, tail in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut bytes = archive(&[("a", &[1; 700]), ("b", &[2; 100])]);
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.extend_from_slice(&tail);
            let (found, _) = walk(&bytes);
            prop_assert!(found.len() <= 3);
        }
    }

    /// A block that repeats without end.
    struct Repeated {
        block: [u8; 512],
        at: usize,
    }

    impl Read for Repeated {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            for byte in buf.iter_mut() {
                *byte = self.block[self.at];
                self.at = (self.at + 1) % 512;
            }
            Ok(buf.len())
        }
    }

    #[test]
    fn members_without_data_come_to_an_end() {
        let block: [u8; 512] = archive(&[("empty", b"")])[..512].try_into().unwrap();
        let mut source = Counted { source: Repeated { block, at: 0 }, position: 0 };
        let mut walk = TarWalk::default();
        let mut members = 0_u64;
        let error = loop {
            match walk.next(&mut source) {
                Ok(Some(_)) => members += 1,
                Ok(None) => panic!("an archive without end has none"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TarError::TooManyEmpty), "{error}");
        assert_eq!(members, MAX_EMPTY_MEMBERS);
    }
}
