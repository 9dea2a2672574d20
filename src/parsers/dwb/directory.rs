//! One kind of double write buffer as a directory of files: its name, the names in it, and which layout a file has.

use super::detect::{Detection, ReadAt};

/// Where the description of a buffer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Files of running servers were compared with it.
    SeenLive,
    /// Files of a server were compared with it that was built from its published source.
    SeenBuilt,
}

impl Knowledge {
    /// Stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::SeenLive => "seen_live",
            Self::SeenBuilt => "seen_built",
        }
    }
}

/// Purpose of a file of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// It holds slots; its number in the ring.
    Slots(u32),
    /// The one file that determines how the others are read.
    Control,
    /// A server makes it for a moment; a crash can leave it. It says nothing.
    Leftover,
}

/// One kind of double write buffer, as far as its files go. Implementations state facts and decode; they do not judge.
pub trait DwbDirectory: Sync + std::fmt::Debug {
    /// Stable name for reports and JSON.
    fn name(&self) -> &'static str;

    /// Where its description comes from.
    fn knowledge(&self) -> Knowledge;

    /// The directory, relative to the data directory.
    fn directory(&self) -> &'static str;

    /// True when the server allows the directory to be a symbolic link to one.
    fn may_be_linked(&self) -> bool;

    /// Purpose of a file with this name; `None` for names that no server creates there.
    fn role_of(&self, name: &str) -> Option<FileRole>;

    /// Most bytes that its control file has; more are not read. 0: it has none.
    fn control_bytes(&self) -> usize;

    /// Finds layout and geometry of a file of `file_size` bytes that holds slots. `block_size_hint` is the page size of the
    /// cluster, if known; `control` the bytes of the control file, if there is one that could be read.
    fn detect(
        &self,
        file_size: u64,
        block_size_hint: Option<u32>,
        control: Option<&[u8]>,
        read_at: ReadAt<'_>,
    ) -> Detection;
}
