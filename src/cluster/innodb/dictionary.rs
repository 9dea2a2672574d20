//! The files of tablespaces that the dictionary names.

use std::collections::BTreeSet;
use std::path::Path;

use super::doublewrite::Doublewrite;
use super::tablespace::{DICTIONARY_SPACE, PageReader, Tablespace, Tablespaces};
use crate::cluster::open::AccessError;
use crate::parsers::innodb::dictionary::{DICTIONARY_HEADER_PAGE, FilesRow, NamedFile, TablesRow, tables_root};
use crate::parsers::innodb::index_page::IndexPage;

/// Why the dictionary was not read to its end.
#[derive(Debug)]
pub enum DictionaryFault {
    /// A page is damaged or not what it should be.
    Page(u32),
    /// No row of it was found.
    NotFound,
    /// Its file cannot be read.
    Access(AccessError),
}

impl From<AccessError> for DictionaryFault {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

/// A dictionary that is being read.
struct Reading<'a> {
    reader: PageReader<'a>,
    space: &'a Tablespace,
    doublewrite: &'a Doublewrite,
}

/// Gives each file that the dictionary names to `takes`: `mysql.tablespace_files` of MySQL 8 and later, `SYS_TABLES` of other servers.
///
/// # Errors
/// When not all of it could be read; what was read has been given.
pub fn named_files(
    data_dir: &Path,
    spaces: &Tablespaces,
    doublewrite: &Doublewrite,
    takes: &mut dyn FnMut(NamedFile),
) -> Result<(), DictionaryFault> {
    let own = spaces.get(DICTIONARY_SPACE);
    let Some(space) = own.or_else(|| spaces.get(0)) else { return Err(DictionaryFault::NotFound) };
    let mut reading = Reading { reader: PageReader::new(data_dir), space, doublewrite };
    if own.is_some() { reading.tablespace_files(takes) } else { reading.sys_tables(takes) }
}

impl Reading<'_> {
    /// A page that is whole.
    fn page(&mut self, page_no: u32) -> Result<Vec<u8>, DictionaryFault> {
        let page = self.reader.page(self.space, page_no)?.ok_or(DictionaryFault::Page(page_no))?;
        let is_sound = self.doublewrite.state_of(&page, self.space, page_no).is_sound();
        if is_sound { Ok(page) } else { Err(DictionaryFault::Page(page_no)) }
    }

    /// From the root of `SYS_TABLES` down to each leaf.
    fn sys_tables(&mut self, takes: &mut dyn FnMut(NamedFile)) -> Result<(), DictionaryFault> {
        let header = self.page(DICTIONARY_HEADER_PAGE)?;
        let root = tables_root(&header).ok_or(DictionaryFault::Page(DICTIONARY_HEADER_PAGE))?;
        let (mut seen, mut wanted) = (BTreeSet::new(), vec![root]);
        let mut fault = None;
        while let Some(page_no) = wanted.pop() {
            if !seen.insert(page_no) {
                fault = Some(DictionaryFault::Page(page_no));
                continue;
            }
            let rows = self.page(page_no).and_then(|page| tables_rows(&page).ok_or(DictionaryFault::Page(page_no)));
            match rows {
                Err(found) => fault = Some(found),
                Ok(rows) => {
                    for row in rows {
                        match row {
                            TablesRow::Child(child) => wanted.push(child),
                            TablesRow::File(file) => takes(file),
                            TablesRow::Other => {}
                        }
                    }
                }
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// From the leaf of `mysql.tablespace_files` whose first row names the dictionary's own file to the last one.
    fn tablespace_files(&mut self, takes: &mut dyn FnMut(NamedFile)) -> Result<(), DictionaryFault> {
        let pages = u32::try_from(self.space.pages()).unwrap_or(u32::MAX);
        let mut first = None;
        let mut fault = None;
        for page_no in 0..pages {
            let page = match self.page(page_no) {
                Ok(page) => page,
                Err(found @ DictionaryFault::Access(_)) => return Err(found),
                Err(_) => continue,
            };
            if files_rows(&page).is_some_and(|rows| rows.first() == Some(&FilesRow::Dictionary)) {
                first = Some(page_no);
                break;
            }
        }
        let mut seen = BTreeSet::new();
        let mut next = Some(first.ok_or(DictionaryFault::NotFound)?);
        while let Some(page_no) = next.take() {
            let page = self.page(page_no)?;
            match files_rows(&page).filter(|_| seen.insert(page_no)) {
                Some(rows) => {
                    next = IndexPage::of(&page).and_then(|page| page.next);
                    let files = rows.into_iter().filter_map(|row| match row {
                        FilesRow::File(file) => Some(file),
                        FilesRow::Dictionary | FilesRow::Other => None,
                    });
                    files.for_each(&mut *takes);
                }
                None => fault = Some(DictionaryFault::Page(page_no)),
            }
        }
        fault.map_or(Ok(()), Err)
    }
}

fn tables_rows(page: &[u8]) -> Option<Vec<TablesRow>> {
    let page = IndexPage::of(page).filter(|page| !page.is_compact)?;
    page.records()?.into_iter().map(|record| TablesRow::decode(&page, record)).collect()
}

/// The rows of a leaf, if they can be those of `mysql.tablespace_files`.
fn files_rows(page: &[u8]) -> Option<Vec<FilesRow>> {
    let page = IndexPage::of(page).filter(|page| page.is_compact && page.level == 0)?;
    page.records()?.into_iter().map(|record| FilesRow::decode(&page, record)).collect()
}
