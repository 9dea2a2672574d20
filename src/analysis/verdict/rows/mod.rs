//! The rows and entries of a page against WAL: what the records up to its LSN put there has to stand there, and what later
//! records find has to be what they need. A page of which that is not true is made up of two versions.
//!
//! [`heap`] and [`list`] follow what records do to the items of a page, each in its own way; `agreement` asks them.
//! [`layout`] examines the page alone.

pub(crate) mod agreement;
pub mod heap;
pub mod layout;
pub mod list;
mod stored_row;

use strum::{IntoStaticStr, VariantNames};

/// Why the items of a page are not what WAL makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", prefix = "item_")]
pub enum Misfit {
    /// The item is not what the records up to the page's LSN left there.
    Differs {
        /// Item number, from 1.
        item: usize,
    },
    /// The item names a transaction that no record brought there.
    Unexplained {
        /// Item number, from 1.
        item: usize,
    },
    /// A later record needs a missing item.
    Missing {
        /// Item number, from 1.
        item: usize,
    },
    /// A later record puts something where there is something already.
    Taken {
        /// Item number, from 1.
        item: usize,
    },
}

impl Misfit {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}
