//! Appends records to the end of the WAL of a copied cluster (19devel, segments of 1 MiB), as its server would have.
//! Reads and writes pages and records by itself: the code under test has no part in it.

use std::ops::Range;

use crate::common::edit::{ClusterCopy, ControlField, Key, PAGE};

/// Bytes of a segment.
pub const SEGMENT: u64 = 1 << 20;
/// A table of the cluster `wrapped` that was filled after the last checkpoint.
const NEVER_WRITTEN: &str = "base/5/16421";
/// Bytes of a page of WAL.
const WAL_PAGE: u64 = 8192;

const RM_XLOG: u8 = 0;
const RM_XACT: u8 = 1;
const RM_SMGR: u8 = 2;
const RM_DBASE: u8 = 4;
const RM_HEAP2: u8 = 9;
const RM_HEAP: u8 = 10;
const RM_BRIN: u8 = 17;
const RM_BTREE: u8 = 11;
/// Item number that no page of the cluster has used.
const FREE_ITEM: u16 = 250;

/// A record that was appended: where it starts and ends.
pub type Place = Range<u64>;

/// WAL from the redo point's segment on.
pub struct WalTail {
    /// Address of `bytes[0]`.
    first: u64,
    /// Everything up to the end of WAL.
    bytes: Vec<u8>,
    /// Start of the last record.
    prev: u64,
    /// The first long page header, less its address and length of a continued record.
    long_header: Vec<u8>,
    /// Transaction of the records that are appended: newer than all before.
    pub xid: u32,
}

/// Name of the segment that starts at an address of timeline 1.
pub fn segment_name(start: u64) -> String {
    // Timeline, and the segment's number: its upper part counts 4 GiB.
    format!("00000001{:08X}{:08X}", start >> 32, (start & 0xFFFF_FFFF) / SEGMENT)
}

fn header_bytes(address: u64) -> u64 {
    if address.is_multiple_of(SEGMENT) { 40 } else { 24 }
}

impl WalTail {
    /// Reads the records from the redo point in `pg_control` to the end of WAL.
    pub fn of(copy: &ClusterCopy) -> Self {
        let redo = copy.control(ControlField::Redo);
        let first = redo - redo % SEGMENT;
        let mut bytes = Vec::new();
        for number in 0.. {
            let start = first + number * SEGMENT;
            let name = format!("pg_wal/{}", segment_name(start));
            if !copy.exists(&name) {
                break;
            }
            let segment = copy.read(&name);
            if segment[8..16] != start.to_le_bytes() {
                break;
            }
            bytes.extend(segment);
        }
        let long_header = bytes[..40].to_vec();
        let mut tail = Self { first, bytes, prev: 0, long_header, xid: 0 };
        let mut at = redo;
        while let Some((record, end)) = tail.record_at(at) {
            let xid = u32::from_le_bytes(record[4..8].try_into().expect("4 bytes"));
            let start = if at.is_multiple_of(WAL_PAGE) { at + header_bytes(at) } else { at };
            (tail.prev, tail.xid) = (start, tail.xid.max(xid));
            at = end;
        }
        tail.bytes.truncate(usize::try_from(at - first).expect("small"));
        tail.xid += 1;
        tail
    }

    /// The record at an address or after a page header there, and where it ends.
    fn record_at(&self, start: u64) -> Option<(Vec<u8>, u64)> {
        let mut at = start;
        let mut record = Vec::new();
        let mut length = None;
        loop {
            if at.is_multiple_of(WAL_PAGE) {
                if self.slice(at + 8, 8)? != at.to_le_bytes() {
                    return None;
                }
                at += header_bytes(at);
            }
            let room = WAL_PAGE - at % WAL_PAGE;
            let total = match length {
                None => {
                    let total = u64::from(u32::from_le_bytes(self.slice(at, 4)?.try_into().ok()?));
                    if !(24..=1 << 30).contains(&total) {
                        return None;
                    }
                    *length.insert(total)
                }
                Some(total) => total,
            };
            let now = room.min(total - record.len() as u64);
            record.extend(self.slice(at, now)?);
            at += now;
            if record.len() as u64 == total {
                let crc = ::crc32c::crc32c_append(::crc32c::crc32c(&record[24..]), &record[..20]);
                let good = record[20..24] == crc.to_le_bytes();
                let follows = self.prev == 0 || record[8..16] == self.prev.to_le_bytes();
                return (good && follows).then_some((record, at.next_multiple_of(8)));
            }
        }
    }

    fn slice(&self, at: u64, length: u64) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.first)?).ok()?;
        self.bytes.get(from..from + usize::try_from(length).ok()?)
    }

    /// The end of WAL.
    pub fn end(&self) -> u64 {
        self.first + self.bytes.len() as u64
    }

    /// Where the next record will start.
    pub fn next_start(&self) -> u64 {
        let end = self.end();
        if end.is_multiple_of(WAL_PAGE) { end + header_bytes(end) } else { end }
    }

    fn page_header(&mut self, rest: usize) {
        let at = self.end();
        if !at.is_multiple_of(WAL_PAGE) {
            return;
        }
        let mut header = self.long_header[..usize::try_from(header_bytes(at)).expect("small")].to_vec();
        // Flags: 1 a record is continued, 2 long header, 4 blocks of a backup may be removed.
        let flags = u16::from(rest > 0) | u16::from(header.len() == 40) << 1 | 4;
        header[2..4].copy_from_slice(&flags.to_le_bytes());
        header[8..16].copy_from_slice(&at.to_le_bytes());
        header[16..20].copy_from_slice(&u32::try_from(rest).expect("small").to_le_bytes());
        self.bytes.extend(header);
    }

    /// Appends a record.
    pub fn record(&mut self, rmgr_id: u8, info: u8, xid: u32, body: &[u8]) -> Place {
        let mut record = Vec::new();
        record.extend(u32::try_from(24 + body.len()).expect("small").to_le_bytes());
        record.extend(xid.to_le_bytes());
        record.extend(self.prev.to_le_bytes());
        record.extend([info, rmgr_id, 0, 0]);
        let crc = ::crc32c::crc32c_append(::crc32c::crc32c(body), &record);
        record.extend(crc.to_le_bytes());
        record.extend(body);
        self.page_header(0);
        let start = self.end();
        let mut rest = record.as_slice();
        while !rest.is_empty() {
            self.page_header(rest.len());
            let room = usize::try_from(WAL_PAGE - self.end() % WAL_PAGE).expect("small");
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.bytes.extend(now);
            rest = later;
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.prev = start;
        start..self.end()
    }

    fn own(&mut self, rmgr_id: u8, info: u8, body: &Body) -> Place {
        self.record(rmgr_id, info, self.xid, &body.bytes())
    }

    /// Heap `INSERT` without image: redo reads the page and changes it.
    pub fn change(&mut self, key: Key) -> Place {
        self.insert(key, FREE_ITEM)
    }

    /// Heap `INSERT` under this item number.
    pub fn insert(&mut self, key: Key, item: u16) -> Place {
        let [low, high] = item.to_le_bytes();
        let body = Body::default().block(key, &[2, 8, 24, 0x61, 0x62, 0x63, 0x64]).main(&[low, high, 0]);
        self.own(RM_HEAP, 0, &body)
    }

    /// Heap2 `PRUNE_ON_ACCESS` that removes the row with this item number: redo moves rows.
    pub fn prune(&mut self, key: Key, item: u16) -> Place {
        let [low, high] = item.to_le_bytes();
        // Flags: rows may be moved, items become dead. The block's data: how many, which.
        self.own(RM_HEAP2, 0x10, &Body::default().block(key, &[1, 0, low, high]).main(&[0x44, 0]))
    }

    /// B-tree `INSERT_LEAF` of a tuple under this number.
    pub fn insert_entry(&mut self, key: Key, number: u16, tuple: &[u8]) -> Place {
        self.own(RM_BTREE, 0x00, &Body::default().block(key, tuple).main(&number.to_le_bytes()))
    }

    /// B-tree `UNLINK_PAGE` of two blocks: both get the same LSN.
    pub fn unlink(&mut self, first: Key, second: Key) -> Place {
        self.own(RM_BTREE, 0x80, &Body::default().block(first, &[]).block(second, &[]).main(&[0; 20]))
    }

    /// BRIN `INSERT` of an entry into one page and of its place into another, without images.
    pub fn brin_insert(&mut self, key: Key, map: Key) -> Place {
        self.own(RM_BRIN, 0x10, &Body::default().block(key, &[0; 8]).block(map, &[]).main(&[0; 12]))
    }

    /// BRIN `SAMEPAGE_UPDATE` without image.
    pub fn brin_update_in_place(&mut self, key: Key) -> Place {
        self.own(RM_BRIN, 0x30, &Body::default().block(key, &[0; 8]).main(&[1, 0]))
    }

    /// Heap `INSERT+INIT`: redo builds the page anew.
    pub fn init(&mut self, key: Key) -> Place {
        let body = Body::default().init_block(key, &[2, 8, 24, 0x61, 0x62, 0x63, 0x64]).main(&[1, 0, 0]);
        self.own(RM_HEAP, 0x80, &body)
    }

    /// XLOG `FPI`: redo puts the image into place.
    pub fn image(&mut self, key: Key, page: &[u8]) -> Place {
        self.own(RM_XLOG, 0xB0, &Body::default().image(key, page, true))
    }

    /// A change with an image that serves to check replay alone: redo reads the page.
    pub fn change_with_image_to_compare(&mut self, key: Key, page: &[u8]) -> Place {
        self.own(RM_HEAP, 0, &Body::default().image(key, page, false).main(&[FREE_ITEM as u8, 0, 0]))
    }

    /// XLOG `FPI_FOR_HINT` without image, as a server with a double write buffer writes it.
    pub fn hint(&mut self, key: Key) -> Place {
        self.own(RM_XLOG, 0xA0, &Body::default().block(key, &[]))
    }

    /// Heap2 `VISIBLE`: bits of a visibility map page for a heap page.
    pub fn visible(&mut self, map: Key, heap: Key) -> Place {
        let body = Body::default().block(map, &[]).block(heap, &[]).main(&[0, 0, 0, 0, 3]);
        self.own(RM_HEAP2, 0x40, &body)
    }

    /// Storage `TRUNCATE`: the relation keeps `blocks`.
    pub fn truncate(&mut self, key: Key, blocks: u32) -> Place {
        let main = [&blocks.to_le_bytes()[..], &key.locator(), &7_u32.to_le_bytes()].concat();
        self.own(RM_SMGR, 0x20, &Body::default().main(&main))
    }

    /// Storage `CREATE` of the main fork.
    pub fn create(&mut self, key: Key) -> Place {
        let main = [&key.locator()[..], &u32::from(key.fork).to_le_bytes()].concat();
        self.own(RM_SMGR, 0x10, &Body::default().main(&main))
    }

    fn transaction_end(&mut self, info: u8, dropped: &[Key]) -> Place {
        // Time, `xinfo` with the bit for relations, their number, each.
        let mut main = [&[0; 8][..], &4_u32.to_le_bytes()].concat();
        main.extend(u32::try_from(dropped.len()).expect("few").to_le_bytes());
        dropped.iter().for_each(|key| main.extend(key.locator()));
        self.own(RM_XACT, info | 0x80, &Body::default().main(&main))
    }

    /// Transaction `COMMIT` that drops relations.
    pub fn commit_drops(&mut self, dropped: &[Key]) -> Place {
        self.transaction_end(0x00, dropped)
    }

    /// Transaction `ABORT` that undoes the creation of relations.
    pub fn abort_drops(&mut self, dropped: &[Key]) -> Place {
        self.transaction_end(0x20, dropped)
    }

    /// Database `DROP`.
    pub fn drop_database(&mut self, key: Key) -> Place {
        let main = [key.db.to_le_bytes(), 1_u32.to_le_bytes(), key.spc.to_le_bytes()].concat();
        self.own(RM_DBASE, 0x20, &Body::default().main(&main))
    }

    /// XLOG `NOOP` with this many bytes.
    pub fn noop(&mut self, length: usize) -> Place {
        self.own(RM_XLOG, 0x20, &Body::default().main(&vec![0x5A; length]))
    }

    /// Records of no meaning up to a multiple of `unit` exactly.
    fn fill_to(&mut self, unit: u64) {
        // Header of a record, and of main data of up to 255 or of more bytes.
        let (header, short, long) = (24, 2, 5);
        if unit - self.end() % unit < 64 {
            self.noop(100);
        }
        loop {
            let rest = usize::try_from(unit - self.end() % unit).expect("small");
            if rest > 7000 {
                self.noop(3000);
                continue;
            }
            self.noop(if rest <= header + short + 255 { rest - header - short } else { rest - header - long });
            return assert!(self.end().is_multiple_of(unit));
        }
    }

    /// Fills up the segment: the next record starts after the header of the next one.
    pub fn fill_segment(&mut self) {
        self.fill_to(SEGMENT);
    }

    /// Fills up the page: the next record starts after the header of the next one.
    pub fn fill_page(&mut self) {
        self.fill_to(WAL_PAGE);
    }

    /// A checkpoint of a running server, completed: the redo point is where WAL ends now. Returns it.
    pub fn checkpoint(&mut self, copy: &ClusterCopy) -> u64 {
        let redo = self.record(RM_XLOG, 0xE0, 0, &Body::default().main(&1_u32.to_le_bytes()).bytes()).start;
        self.checkpoint_from(copy, redo);
        redo
    }

    /// A checkpoint of a running server whose replay begins at `redo`, the start of any record.
    pub fn checkpoint_from(&mut self, copy: &ClusterCopy, redo: u64) {
        self.checkpoint_record(copy, redo, 0x10);
    }

    /// A shutdown in order. Returns where its record starts, which is the redo point.
    pub fn shut_down(&mut self, copy: &ClusterCopy) -> u64 {
        let redo = self.next_start();
        self.checkpoint_record(copy, redo, 0x00);
        copy.set_control(&[(ControlField::State, 1)]);
        redo
    }

    /// The record, the control file and the header of the double write buffer.
    fn checkpoint_record(&mut self, copy: &ClusterCopy, redo: u64, info: u8) {
        let next_xid = u64::from(self.xid + 1);
        copy.set_control(&[(ControlField::Redo, redo), (ControlField::NextXid, next_xid)]);
        let main = copy.read("global/pg_control")[40..136].to_vec();
        let place = self.record(RM_XLOG, info, 0, &Body::default().main(&main).bytes());
        copy.set_control(&[(ControlField::Checkpoint, place.start)]);
        copy.set_dwb_header_lsn(place.end);
        // It would have written the pages of this table, of which the crash left zeros.
        if copy.data().join(NEVER_WRITTEN).exists() {
            copy.cut(NEVER_WRITTEN, 0);
        }
        write_commits(copy, self.xid as usize);
        self.xid += 1;
    }

    /// Writes the segments that are full and forgets them: WAL of any length takes no memory.
    pub fn write_full(&mut self, copy: &ClusterCopy) {
        while self.bytes.len() as u64 >= SEGMENT {
            let rest = self.bytes.split_off(SEGMENT as usize);
            let segment = std::mem::replace(&mut self.bytes, rest);
            copy.write(&format!("pg_wal/{}", segment_name(self.first)), &segment);
            self.first += SEGMENT;
        }
    }

    /// Writes the segments that were appended to, zeros after the end. Segments after that are left as they are.
    pub fn write(&self, copy: &ClusterCopy) {
        for (number, piece) in (0..).zip(self.bytes.chunks(SEGMENT as usize)) {
            let mut segment = piece.to_vec();
            segment.resize(SEGMENT as usize, 0);
            copy.write(&format!("pg_wal/{}", segment_name(self.first + number * SEGMENT)), &segment);
        }
    }
}

/// Body of a record: block references, then data. `XLogRecordAssemble`, `src/backend/access/transam/xloginsert.c`.
#[derive(Default)]
struct Body {
    headers: Vec<u8>,
    data: Vec<u8>,
    main: Vec<u8>,
    blocks: u8,
}

impl Body {
    fn add(mut self, key: Key, flags: u8, image_info: Option<u8>, data: &[u8]) -> Self {
        self.headers.extend([self.blocks, key.fork | flags]);
        let length = if image_info.is_some() { 0 } else { data.len() };
        self.headers.extend(u16::try_from(length).expect("small").to_le_bytes());
        if let Some(info) = image_info {
            // Length, hole offset, flags.
            self.headers.extend(u16::try_from(data.len()).expect("small").to_le_bytes());
            self.headers.extend([0, 0, info]);
        }
        self.headers.extend(key.locator());
        self.headers.extend(key.block.to_le_bytes());
        self.data.extend(data);
        self.blocks += 1;
        self
    }

    fn block(self, key: Key, data: &[u8]) -> Self {
        self.add(key, if data.is_empty() { 0 } else { 0x20 }, None, data)
    }

    fn init_block(self, key: Key, data: &[u8]) -> Self {
        self.add(key, 0x20 | 0x40, None, data)
    }

    fn image(self, key: Key, page: &[u8], applies: bool) -> Self {
        assert_eq!(page.len(), PAGE);
        self.add(key, 0x10, Some(if applies { 2 } else { 0 }), page)
    }

    fn main(mut self, main: &[u8]) -> Self {
        self.main = main.to_vec();
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.headers.clone();
        match u8::try_from(self.main.len()) {
            Ok(0) => {}
            Ok(short) => bytes.extend([255, short]),
            Err(_) => {
                bytes.push(254);
                bytes.extend(u32::try_from(self.main.len()).expect("small").to_le_bytes());
            }
        }
        [&bytes[..], &self.data, &self.main].concat()
    }
}

/// Writes what a checkpoint writes of `pg_xact`: transactions before `next` that the file has as running are committed.
fn write_commits(copy: &ClusterCopy, next: usize) {
    const FILE: &str = "pg_xact/0000";
    if !copy.data().join(FILE).exists() {
        return;
    }
    let mut file = copy.read(FILE);
    for xid in 3..next.min(file.len() * 4) {
        let shift = xid % 4 * 2;
        if file[xid / 4] >> shift & 3 == 0 {
            file[xid / 4] |= 1 << shift;
        }
    }
    copy.write(FILE, &file);
}
