//! Whether an image holds a change of WAL already.

/// How an image stands to the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangePresence {
    /// It does not hold the change, or redo of the change does not mind if it does.
    Absent,
    /// It holds the change.
    Present,
    /// Unknown.
    Unclear,
}
