//! From the paths that a user gives to files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::archive::{read_plain, read_stream};
use super::bytes::{StoredAt, StoredWindow};
use super::candidates::{Candidates, DeniedFile, Origin, SegmentCandidate};
use super::codec::peel;
use super::directory::Below;
use super::first_page::{HEAD_BYTES, SecondPage, is_segment};
use super::names::{NameKind, SegmentName, is_ignored_directory, kind_of_name};
use super::notes::{NoteKind, NoteLevel};
use super::once::{OnceSource, Scratch};
use super::options::WalSetError;
use super::tar::is_tar;
use crate::cluster::control_file::ControlRead;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::open::{AccessError, Links, ReadFile, open_fifo};
use crate::parsers::wal::page::PageHeader;
use crate::parsers::wal::version::Major;
use crate::types::Lsn;

/// How often, and after which pause, files are looked for again where one has vanished or is missing.
pub(super) const MAX_LOOKS: usize = 10;
pub(super) const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct PathSource<'i, 'o> {
    pub found: &'i mut Candidates,
    pub scratch: &'i mut Scratch<'o>,
    pub window_bytes: u32,
    pub fifos: bool,
}

impl PathSource<'_, '_> {
    /// Takes a path as the user gave it: a file, a directory, or a pattern.
    pub(super) fn read(mut self, path: &Path) -> Result<(), WalSetError> {
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => self.add_directory(path),
            Ok(metadata) if metadata.file_type().is_fifo() && self.fifos => self.add_fifo(path),
            Ok(_) => self.add_file(path, Links::Follow, Origin { in_pg_wal: false, is_of_cluster: false, named: true }),
            Err(error) if error.kind() == ErrorKind::NotFound => self.add_pattern(path, error),
            Err(error) => Err(AccessError::io("examine", path, error).into()),
        }
    }

    /// Reads a FIFO, as standard input: it can be read only once.
    fn add_fifo(&mut self, path: &Path) -> Result<(), WalSetError> {
        let label = path.display().to_string();
        let input = open_fifo(path)?;
        let (found, scratch) = (&mut *self.found, &mut *self.scratch);
        OnceSource { label: &label, found, scratch, window_bytes: self.window_bytes }.read(Box::new(input))
    }

    fn add_pattern(&mut self, path: &Path, error: std::io::Error) -> Result<(), WalSetError> {
        let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']));
        let Some(pattern) = pattern else {
            return Err(AccessError::io("examine", path, error).into());
        };
        let matches =
            glob::glob(pattern).map_err(|source| WalSetError::Pattern { pattern: pattern.to_owned(), source })?;
        let mut found = false;
        for path in matches {
            found = true;
            match path {
                Ok(path) if path.is_dir() => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    if !is_ignored_directory(&name) {
                        self.add_directory(&path)?;
                    }
                }
                Ok(path) => {
                    self.add_file(&path, Links::Follow, Origin { in_pg_wal: false, is_of_cluster: false, named: true })?
                }
                Err(error) => {
                    let label = error.path().display().to_string();
                    self.found.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, &label, error.error());
                }
            }
        }
        if found { Ok(()) } else { Err(WalSetError::NoMatch(pattern.to_owned())) }
    }

    fn add_directory(&mut self, path: &Path) -> Result<(), WalSetError> {
        match DataDir::open(path) {
            Ok(data) => self.add_data_dir(&data),
            Err(NotADataDir::NoVersion(_) | NotADataDir::Inside { .. }) => {
                let is_called_so = |path: &Path| path.file_name().is_some_and(|name| name == "pg_wal");
                // It may be named by a link, or as the current directory.
                let is_pg_wal = is_called_so(path)
                    || fs::canonicalize(path).is_ok_and(|real| is_called_so(&real))
                    || path.join("archive_status").symlink_metadata().is_ok_and(|found| found.is_dir());
                self.list(path, Origin { in_pg_wal: is_pg_wal, is_of_cluster: false, named: false }, Below::Read)
            }
            Err(error) => Err(WalSetError::DataDir(error)),
        }
    }

    fn add_data_dir(&mut self, data: &DataDir) -> Result<(), WalSetError> {
        match data.control().trusted() {
            Some(control) if self.found.control.is_none() => {
                self.found.control = Some(control.clone());
                self.found.data_major = Some(data.major());
            }
            Some(_) => {}
            None => {
                let why = match data.control() {
                    ControlRead::Unreadable(error) => error.to_string(),
                    ControlRead::Short(error) => error.to_string(),
                    ControlRead::UnknownVersion { prefix, .. } => {
                        format!("its version {} is unknown", prefix.pg_control_version)
                    }
                    ControlRead::WrongSizes(_, faults) => {
                        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                        faults.join("; ")
                    }
                    ControlRead::Known(_) => "its checksum is wrong".to_owned(),
                };
                let label = data.control_path().display().to_string();
                self.found.notes.add(NoteLevel::Problem, NoteKind::Control, &label, format!("not used: {why}"));
            }
        }
        self.list(
            &data.root().join("pg_wal"),
            Origin { in_pg_wal: true, is_of_cluster: self.found.list.is_empty(), named: false },
            Below::Say,
        )
    }

    pub(super) fn add_file(&mut self, path: &Path, links: Links, origin: Origin) -> Result<(), WalSetError> {
        let label = path.display().to_string();
        let kind = kind_of_name(&path.file_name().unwrap_or_default().to_string_lossy());
        if kind == NameKind::Ignored {
            return Ok(());
        }
        let file = match ReadFile::open(path, links) {
            Ok(file) => file,
            // A dangling symlink has not vanished.
            Err(error) if origin.in_pg_wal && error.is_not_found() && !path.is_symlink() => {
                self.found.note_vanished(&label);
                return Ok(());
            }
            Err(error) => {
                self.note_unreadable(&label, path, &error, origin);
                return Ok(());
            }
        };
        let file_bytes = file.size_bytes();
        let window = Box::new(StoredWindow::whole(file));
        let taken = window.taken();
        if let NameKind::History(tli) = kind {
            self.found.add_history(&label, tli, window, self.window_bytes);
            return Ok(());
        }
        let peeled = match peel(window, HEAD_BYTES, self.window_bytes) {
            Ok(peeled) => peeled,
            Err(error) => {
                self.found.note_unpack_error(&label, taken.load(Ordering::Relaxed), &error);
                return Ok(());
            }
        };
        let path = Arc::new(path.to_owned());
        if is_tar(&peeled.head) && !is_segment(&peeled.head) {
            return match (origin.named, peeled.codecs.is_empty()) {
                (true, true) => match ReadFile::open(&path, links) {
                    Ok(file) => {
                        read_plain(&label, (&path, links, file), self.found, self.window_bytes);
                        Ok(())
                    }
                    Err(error) => {
                        self.note_unreadable(&label, &path, &error, origin);
                        Ok(())
                    }
                },
                (true, false) => read_stream(&label, peeled.stream, self.found, self.scratch, self.window_bytes),
                (false, _) => {
                    let what = "an archive under the name of a segment; pass it as a separate path to read it";
                    self.found.notes.add(NoteLevel::Skipped, NoteKind::NotWal, &label, what);
                    Ok(())
                }
            };
        }
        let name = kind.segment();
        let hole = match &name {
            Some(name) if origin.in_pg_wal && peeled.codecs.is_empty() && peeled.head.iter().all(|&byte| byte == 0) => {
                match self.page_after_zeros(&path, links, name) {
                    Ok(page) => page,
                    Err(error) if error.is_not_found() => {
                        self.found.note_vanished(&label);
                        return Ok(());
                    }
                    // What cannot be read may be such a page.
                    Err(error) => {
                        self.note_unreadable(&label, &path, &error, origin);
                        return Ok(());
                    }
                }
            }
            _ => None,
        };
        let first = match hole {
            Some(page) => {
                let what = "not zero-filled, although its first bytes are";
                self.found.notes.add(NoteLevel::Problem, NoteKind::FirstPageDamaged, &label, what);
                Some((None, Some(page)))
            }
            None => self.found.first_page(&label, name.as_ref(), &peeled.head, origin),
        };
        let Some((header, second)) = first else {
            return Ok(());
        };
        let size_bytes = peeled.codecs.is_empty().then_some(file_bytes);
        let stored_at = StoredAt::File { path, links, file_bytes, offset: 0, size_bytes: file_bytes };
        let codecs = peeled.codecs;
        self.found.list.push(SegmentCandidate { label, name, stored_at, size_bytes, codecs, header, second, origin });
        Ok(())
    }

    /// A page of the named segment in a file that begins with zeros: its start was lost, it was not made beforehand.
    fn page_after_zeros(
        &self,
        path: &Path,
        links: Links,
        name: &SegmentName,
    ) -> Result<Option<SecondPage>, AccessError> {
        let Some(geometry) = self.found.control.as_ref().map(|control| control.geometry) else { return Ok(None) };
        let segment = name.segment(geometry.wal_segment_size);
        let Some(first_lsn) = segment.and_then(|segment| segment.start_lsn(geometry.wal_segment_size)) else {
            return Ok(None);
        };
        let file = ReadFile::open(path, links)?;
        let block_size = usize::try_from(geometry.wal_block_size).unwrap_or(usize::MAX).max(1);
        for offset in (0..file.size_bytes().min(u64::from(geometry.wal_segment_size))).step_by(block_size) {
            let Some(bytes) = file.bytes_at(offset, PageHeader::SHORT_SIZE)? else { break };
            let Ok(header) = PageHeader::decode(Lsn(offset), &bytes) else { continue };
            let Ok(major) = Major::from_magic(header.magic) else { continue };
            if header.page_addr == first_lsn.advanced_by(offset) {
                return Ok(Some(SecondPage { major, first_lsn, block_size: geometry.wal_block_size }));
            }
        }
        Ok(None)
    }

    /// Leaves out the candidates from `known` on whose files have vanished since. A server gives several old segments new
    /// names one after the other; without this, those that it had not reached yet would look as if others were missing
    /// after them.
    pub(super) fn drop_vanished(&mut self, known: usize) {
        for _ in 0..MAX_LOOKS {
            std::thread::sleep(PAUSE);
            let added = self.found.list.split_off(known.min(self.found.list.len()));
            let (gone, here): (Vec<_>, Vec<_>) = added.into_iter().partition(|candidate| match &candidate.stored_at {
                StoredAt::File { path, .. } => {
                    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
                }
                StoredAt::Scratch { .. } => false,
            });
            self.found.list.extend(here);
            gone.iter().for_each(|candidate| self.found.note_vanished(&candidate.label));
            if gone.is_empty() {
                return;
            }
        }
    }

    fn note_unreadable(&mut self, label: &str, path: &Path, error: &AccessError, origin: Origin) {
        if origin.in_pg_wal && error.is_denied() {
            let kind = kind_of_name(&path.file_name().unwrap_or_default().to_string_lossy());
            let name = kind.segment().map(|name| name.digits);
            self.found.denied.push(DeniedFile { path: path.to_owned(), name });
        }
        let what = match error {
            AccessError::NotRegular { kind, .. } => format!("is a {kind}, not a regular file; not read"),
            _ => error.to_string(),
        };
        self.found.notes.add(NoteLevel::Skipped, NoteKind::Unreadable, label, what);
    }
}
