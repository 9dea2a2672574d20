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
