//! Members of a tar archive, plain or compressed, read in order and never unpacked.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use super::open::{AccessError, Links, ReadFile};
use super::wal::DEFAULT_WINDOW_BYTES;
use super::wal::bytes::StoredWindow;
use super::wal::codec::peel;
use super::wal::tar::{Counted, Member, MemberKind, TarError, TarSource, TarWalk, is_tar};

/// Bytes that are enough to recognise an archive.
const HEAD_BYTES: usize = 512;

/// Plain bytes of one archive that are skipped or read: more counts as a decompression bomb.
const MAX_ARCHIVE_BYTES: u64 = 64 << 40;

/// One member, and its bytes.
pub struct TarMember<'m> {
    /// Its name in the archive, without `./` in front.
    pub name: &'m str,
    /// True for a file whose bytes are stored as they are.
    pub is_file: bool,
    /// True for a directory.
    pub is_directory: bool,
    /// Bytes that it has by its header.
    pub size_bytes: u64,
    /// The bytes. What is not read is passed over.
    pub bytes: &'m mut dyn Read,
}

impl TarMember<'_> {
    /// The whole of a small file; `None` when it is longer than `limit_bytes`.
    pub(crate) fn read_small(&mut self, limit_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        if self.size_bytes > limit_bytes {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.bytes.take(limit_bytes).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < self.size_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(bytes))
    }
}

/// Shows each member of the archive at `path`, until `visit` stops.
///
/// # Errors
/// When the file cannot be read, is not a tar archive or ends early; all members before that were shown.
pub fn read_members(
    path: &Path,
    mut visit: impl FnMut(TarMember<'_>) -> io::Result<ControlFlow<()>>,
) -> Result<(), AccessError> {
    let failed = |source| AccessError::io("read archive", path, source);
    let open = || ReadFile::open(path, Links::Follow).map(StoredWindow::whole);
    let peeled = peel(Box::new(open()?), HEAD_BYTES, DEFAULT_WINDOW_BYTES).map_err(failed)?;
    if !is_tar(&peeled.head) {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "not a tar archive")));
    }
    let mut walk = TarWalk::default();
    if peeled.codecs.is_empty() {
        // Members that nobody wants are not even read.
        let mut window = open()?;
        while let Some(member) = next(&mut walk, &mut window).map_err(failed)? {
            let available = member.size_bytes.min(window.end().saturating_sub(member.offset));
            let mut part = window.part(member.offset, available);
            if show(&member, &mut part, &mut visit).map_err(failed)?.is_break() {
                return Ok(());
            }
        }
        return Ok(());
    }
    let mut source = Counted { source: peeled.stream.take(MAX_ARCHIVE_BYTES), position: 0 };
    while let Some(member) = next(&mut walk, &mut source).map_err(failed)? {
        let mut part = (&mut source).take(member.size_bytes);
        if show(&member, &mut part, &mut visit).map_err(failed)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// True for a file that begins like a tar archive, once its compression is taken off.
pub fn is_archive(path: &Path) -> bool {
    let Ok(file) = ReadFile::open(path, Links::Follow) else { return false };
    peel(Box::new(StoredWindow::whole(file)), HEAD_BYTES, DEFAULT_WINDOW_BYTES).is_ok_and(|peeled| is_tar(&peeled.head))
}

fn next(walk: &mut TarWalk, source: &mut dyn TarSource) -> io::Result<Option<Member>> {
    walk.next(source).map_err(|error| match error {
        TarError::Read(error) | TarError::Header(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    })
}

fn show(
    member: &Member,
    bytes: &mut dyn Read,
    visit: &mut dyn FnMut(TarMember<'_>) -> io::Result<ControlFlow<()>>,
) -> io::Result<ControlFlow<()>> {
    let (is_file, is_directory) = (member.kind == MemberKind::File, member.kind == MemberKind::Directory);
    let name = member.name.trim_start_matches("./");
    visit(TarMember { name, is_file, is_directory, size_bytes: member.size_bytes, bytes })
}
