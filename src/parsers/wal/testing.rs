//! A small writer of WAL for tests. Shares nothing with the reader but the checksum's crate.

/// System identifier of the WAL written here.
pub(crate) const SYSTEM: u64 = 0x1122_3344_5566_7788;
/// Bytes of a page.
pub const PAGE: usize = 1024;
/// Bytes of a segment.
pub const SEGMENT: usize = 1 << 20;

/// Writes pages and records to memory, starting at a page boundary.
pub(crate) struct WalWriter {
    pub bytes: Vec<u8>,
    pub first: u64,
    pub prev: u64,
    pub tli: u32,
    pub magic: u16,
    /// Start, end and bytes of each record.
    pub records: Vec<(u64, u64, Vec<u8>)>,
}

impl WalWriter {
    /// A writer of major 18 at `first`.
    pub fn new(first: u64) -> Self {
        Self { bytes: Vec::new(), first, prev: 0, tli: 1, magic: 0xD118, records: Vec::new() }
    }

    /// Address of the next byte.
    pub fn lsn(&self) -> u64 {
        self.first + self.bytes.len() as u64
    }

    /// Writes a page header if the next byte starts a page.
    pub fn header(&mut self, rem_len: u32, more_flags: u16) {
        if !self.bytes.len().is_multiple_of(PAGE) {
            return;
        }
        let lsn = self.lsn();
        let long = lsn.is_multiple_of(SEGMENT as u64);
        let flags = u16::from(rem_len > 0) | u16::from(long) << 1 | 0x04 | more_flags;
        self.bytes.extend(self.magic.to_le_bytes());
        self.bytes.extend(flags.to_le_bytes());
        self.bytes.extend(self.tli.to_le_bytes());
        self.bytes.extend(lsn.to_le_bytes());
        self.bytes.extend(rem_len.to_le_bytes());
        self.bytes.extend([0; 4]);
        if long {
            self.bytes.extend(SYSTEM.to_le_bytes());
            self.bytes.extend((SEGMENT as u32).to_le_bytes());
            self.bytes.extend((PAGE as u32).to_le_bytes());
        }
    }

    /// A record with this body, checksum and all, that follows the one before.
    pub fn built(&self, rmgr_id: u8, info: u8, body: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend((24 + body.len() as u32).to_le_bytes());
        record.extend(7_u32.to_le_bytes());
        record.extend(self.prev.to_le_bytes());
        record.extend([info, rmgr_id, 0, 0]);
        let crc = ::crc32c::crc32c_append(::crc32c::crc32c(body), &record);
        record.extend(crc.to_le_bytes());
        record.extend(body);
        record
    }

    /// Writes these bytes as a record, right or wrong, and returns where it starts.
    pub fn raw(&mut self, record: &[u8]) -> u64 {
        self.header(0, 0);
        let start = self.lsn();
        let mut rest = record;
        while !rest.is_empty() {
            self.header(rest.len() as u32, 0);
            let room = PAGE - self.bytes.len() % PAGE;
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.bytes.extend(now);
            rest = later;
        }
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0);
        }
        self.prev = start;
        start
    }

    /// Writes a good record and returns where it starts.
    pub fn record(&mut self, rmgr_id: u8, info: u8, body: &[u8]) -> u64 {
        let record = self.built(rmgr_id, info, body);
        let start = self.raw(&record);
        self.records.push((start, self.lsn(), record));
        start
    }

    /// Writes a good record of Heap whose main data has `length` bytes.
    pub fn heap(&mut self, length: usize) -> u64 {
        let mut body = Vec::new();
        match u8::try_from(length) {
            Ok(0) => {}
            Ok(short) => body.extend([255, short]),
            Err(_) => {
                body.push(254);
                body.extend((length as u32).to_le_bytes());
            }
        }
        body.extend((0..length).map(|i| i as u8 ^ 0x5A));
        self.record(10, 0, &body)
    }

    /// Writes zeros to the end of the page.
    pub fn fill_page(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(PAGE), 0);
    }
}
